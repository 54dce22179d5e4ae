/* The device's own kernels, by number, on the host (fibers.h): one launch in one order of its threads. Any thread; one
 * kernel runs at a time. */
#ifndef GP_TESTS_CUDA_HOST_KERNELS_H
#define GP_TESTS_CUDA_HOST_KERNELS_H

#include <stdbool.h>

#include "cuda/fibers_run.h"
#include "device/cuda/cuda_api.h"

typedef struct gp_host_order {
    gp_fiber_order order;
    uint64_t seed;
    unsigned char poison; /* of shared memory */
} gp_host_order;

const char *gp_host_kernel_name(gp_cuda_kernel kernel);
/* Whether the next one is the same for large tensors (GP_CUDA_BOTH). */
bool gp_host_kernel_has_wide(gp_cuda_kernel kernel);
/* Runs the launch on the memory that its arguments name. GP_INTERNAL where its shape, or the size of its arguments, is
 * not one that the kernel can have, or where threads wait for what never comes. */
GP_MUST_USE gp_status gp_host_kernel_run(const gp_cuda_launch *launch, gp_host_order order, gp_error *err);

#endif
