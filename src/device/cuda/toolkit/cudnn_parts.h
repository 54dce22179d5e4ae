/* Descriptors of cuDNN's backend, collected: what a graph and a plan are made of is destroyed together. Internal to
 * device/cuda/toolkit; a collection belongs to one thread while it is built. cuDNN must be open. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_CUDNN_PARTS_H
#define GP_DEVICE_CUDA_TOOLKIT_CUDNN_PARTS_H

#include <stdint.h>

#include "device/cuda/toolkit/libraries.h"

typedef cudnnBackendDescriptor_t gp_cudnn_part;

/* The first failure is kept, and makes all later calls do nothing: so a graph is written down without a check in every
 * line, and looked at once. Zero-initialised: empty. */
typedef struct gp_cudnn_parts {
    gp_cudnn_part *part;
    size_t count, capacity;
    gp_status status;
    gp_error error;
} gp_cudnn_parts;

/* A new descriptor of a kind; NULL after a failure. */
gp_cudnn_part gp_cudnn_part_new(gp_cudnn_parts *parts, cudnnBackendDescriptorType_t type);
void gp_cudnn_part_set(gp_cudnn_parts *parts, gp_cudnn_part part, cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, int64_t count, const void *values);
void gp_cudnn_part_set_part(gp_cudnn_parts *parts, gp_cudnn_part part, cudnnBackendAttributeName_t name,
                            gp_cudnn_part value);
void gp_cudnn_part_set_int64(gp_cudnn_parts *parts, gp_cudnn_part part, cudnnBackendAttributeName_t name,
                             int64_t value);
/* No more is set after this. */
void gp_cudnn_part_finish(gp_cudnn_parts *parts, gp_cudnn_part part, const char *what);
/* Up to `capacity` values; returns how many there are, 0 where cuDNN has none to give. No failure of the parts. */
int64_t gp_cudnn_part_get(gp_cudnn_part part, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          int64_t capacity, void *values);
/* The first failure. */
GP_MUST_USE gp_status gp_cudnn_parts_status(const gp_cudnn_parts *parts, gp_error *err);
void gp_cudnn_parts_fini(gp_cudnn_parts *parts);

#endif
