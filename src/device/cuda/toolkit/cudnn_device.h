/* The device that cuDNN's plans are made for: one of the machine's, or where there is none a description of one, so
 * that plans are made anywhere. Internal to device/cuda/toolkit; any thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_CUDNN_DEVICE_H
#define GP_DEVICE_CUDA_TOOLKIT_CUDNN_DEVICE_H

#include "device/cuda/toolkit/cudnn_parts.h"

typedef struct gp_cudnn_device {
    char name[256];
    gp_cudnn_part properties; /* lives as long as the process */
} gp_cudnn_device;

enum { GP_CUDNN_DEVICE_JSON = 2048 };

/* For which device plans are made that come first: its index. −1: a process without a GPU of its own makes them for
 * those of others; device 0 stands for them, and is not opened. 0 at first. */
void gp_cudnn_device_plan_for(int index);
/* Chosen once, as gp_cudnn_device_plan_for says; where there is no such device, a description of an H100. */
GP_MUST_USE gp_status gp_cudnn_device_get(const gp_cudnn_device **out, gp_error *err);
/* The properties of the device in use, which must be there, as one of the parts. */
GP_MUST_USE gp_status gp_cudnn_device_live(gp_cudnn_parts *parts, gp_cudnn_part *out, gp_error *err);
/* From now on a description, whatever the machine has: "h100" or "a100". For tests and tables; not while plans are
 * made. GP_USAGE for another name. */
GP_MUST_USE gp_status gp_cudnn_device_describe(const char *name, gp_error *err);

#endif
