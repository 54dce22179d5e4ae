/* The kernels' handles by number, for launches from C. */
#include "device/cuda/kernels/kernels.h"

#define DECLARE(name, args) __global__ void gp_kernel_##name(args);
GP_CUDA_KERNELS(DECLARE)

extern "C" {
extern const void *const gp_cuda_kernel_functions[GP_CUDA_KERNEL_COUNT];
extern const char *const gp_cuda_kernel_names[GP_CUDA_KERNEL_COUNT];

const void *const gp_cuda_kernel_functions[GP_CUDA_KERNEL_COUNT] = {
#define HANDLE(name, args) (const void *)gp_kernel_##name,
    GP_CUDA_KERNELS(HANDLE)};

const char *const gp_cuda_kernel_names[GP_CUDA_KERNEL_COUNT] = {
#define NAME(name, args) #name,
    GP_CUDA_KERNELS(NAME)};
}
