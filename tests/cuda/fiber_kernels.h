/* Made-up kernels, right ones and wrong ones, for the test of the fibers. Any thread. */
#ifndef GP_TESTS_CUDA_FIBER_KERNELS_H
#define GP_TESTS_CUDA_FIBER_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fiber_args {
    float *y;
    const float *x;
    int count;
} fiber_args;

/* y[i] = where i lies: block and thread. No barrier. */
void fiber_places(const void *args);
/* y[block] = the sum of the block's x: a tree in shared memory. */
void fiber_sum(const void *args);
/* The same with its first barrier only. */
void fiber_sum_no_barrier(const void *args);
/* Two passes over one array in shared memory: without the barrier between them what the first one still reads is
 * overwritten. */
void fiber_reuse(const void *args);
void fiber_reuse_no_barrier(const void *args);
/* y = sums of warps by shuffles down, up, xor and from lane 0; by eight lanes too. */
void fiber_shuffles(const void *args);
/* Neighbours in a warp exchange through shared memory. */
void fiber_warp(const void *args);
void fiber_warp_no_barrier(const void *args);
/* Wrong: only some threads reach the barrier, the shuffle, or the same one; reads what nobody wrote. */
void fiber_half_barrier(const void *args);
void fiber_early_exit(const void *args);
void fiber_half_shuffle(const void *args);
void fiber_two_barriers(const void *args);
void fiber_unwritten(const void *args);
/* Wrong: stores 16 bytes at a multiple of 8. */
void fiber_misaligned(const void *args);

#ifdef __cplusplus
}
#endif

#endif
