#include "cuda/kernel_table.h"

#define DECLARE(name, args)                                                                                            \
    void gp_kernel_##name(args);                                                                                       \
    static void run_##name(const void *at) {                                                                           \
        gp_kernel_##name(*(const args *)at);                                                                           \
    }
GP_CUDA_KERNELS(DECLARE)

#define ENTRY(name, args) {#name, run_##name, sizeof(args)},
const gp_kernel_entry gp_kernel_table[GP_CUDA_KERNEL_COUNT] = {GP_CUDA_KERNELS(ENTRY)};
