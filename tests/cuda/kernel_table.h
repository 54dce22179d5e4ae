/* The kernels that were compiled for the host, by number: what host_kernels.c has of kernel_table.cpp. Constant; any
 * thread. */
#ifndef GP_TESTS_CUDA_KERNEL_TABLE_H
#define GP_TESTS_CUDA_KERNEL_TABLE_H

#include <stddef.h>

#include "device/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gp_kernel_entry {
    const char *name;
    void (*kernel)(const void *args); /* what one thread does */
    size_t args_bytes;
} gp_kernel_entry;

extern const gp_kernel_entry gp_kernel_table[GP_CUDA_KERNEL_COUNT];

#ifdef __cplusplus
}
#endif

#endif
