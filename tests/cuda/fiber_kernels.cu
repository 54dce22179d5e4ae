#include "cuda/fiber_kernels.h"

enum { THREADS = 96 };

#define KERNEL(name) extern "C" __global__ void name(const void *at)

static __device__ const fiber_args &of(const void *at) {
    return *(const fiber_args *)at;
}

KERNEL(fiber_places) {
    const fiber_args &args = of(at);
    uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint32_t i = block * blockDim.x + threadIdx.x;
    if ((int)i >= args.count) return;
    args.y[i] = (float)(1000 * block + threadIdx.x);
}

template <bool first, bool rest> static __device__ void sum(const fiber_args &args) {
    __shared__ float part[128];
    uint32_t me = threadIdx.x;
    part[me] = args.x[blockIdx.x * blockDim.x + me];
    if (me < 128 - THREADS) part[THREADS + me] = 0;
    if (first) __syncthreads();
    for (uint32_t half = 64; half > 0; half /= 2) {
        if (me < half) part[me] += part[me + half];
        if (rest) __syncthreads();
    }
    if (me == 0) args.y[blockIdx.x] = part[0];
}

KERNEL(fiber_sum) {
    sum<true, true>(of(at));
}

KERNEL(fiber_sum_no_barrier) {
    sum<true, false>(of(at));
}

template <bool barrier> static __device__ void reuse(const fiber_args &args) {
    __shared__ float line[THREADS];
    uint32_t me = threadIdx.x;
    float sum = 0;
    for (int pass = 0; pass < 3; pass++) {
        line[me] = args.x[me] * (float)(pass + 1);
        __syncthreads();
        for (int i = 0; i < THREADS; i++) sum += line[i] * (float)(i % 3 + 1);
        if (barrier) __syncthreads();
    }
    args.y[me] = sum;
}

KERNEL(fiber_reuse) {
    reuse<true>(of(at));
}

KERNEL(fiber_reuse_no_barrier) {
    reuse<false>(of(at));
}

KERNEL(fiber_shuffles) {
    const fiber_args &args = of(at);
    float x = args.x[threadIdx.x], down = x, xors = x, up = x, part = x;
    for (unsigned by = 16; by > 0; by /= 2) down += __shfl_down_sync(0xffffffffU, down, by);
    for (int by = 16; by > 0; by /= 2) xors += __shfl_xor_sync(0xffffffffU, xors, by);
    for (int by = 4; by > 0; by /= 2) part += __shfl_xor_sync(0xffffffffU, part, by, 8);
    for (unsigned by = 1; by < 32; by *= 2) {
        float other = __shfl_up_sync(0xffffffffU, up, by);
        if (threadIdx.x % 32 >= by) up += other;
    }
    double wide = __shfl_sync(0xffffffffU, (double)down, 0);
    float *y = args.y + 5 * threadIdx.x;
    y[0] = down;
    y[1] = xors;
    y[2] = up;
    y[3] = (float)wide;
    y[4] = part;
}

template <bool barrier> static __device__ void warp(const fiber_args &args) {
    __shared__ float line[THREADS];
    line[threadIdx.x] = args.x[threadIdx.x];
    if (barrier) __syncwarp();
    args.y[threadIdx.x] = line[threadIdx.x ^ 1];
}

KERNEL(fiber_warp) {
    warp<true>(of(at));
}

KERNEL(fiber_warp_no_barrier) {
    warp<false>(of(at));
}

/* ---- wrong ones ----------------------------------------------------------------------------------------------------
 */

KERNEL(fiber_half_barrier) {
    if (threadIdx.x < 40) __syncthreads();
    of(at).y[threadIdx.x] = 1;
}

KERNEL(fiber_early_exit) {
    if (threadIdx.x == 95) return;
    __syncthreads();
    of(at).y[threadIdx.x] = 1;
}

KERNEL(fiber_half_shuffle) {
    float x = of(at).x[threadIdx.x];
    if (threadIdx.x != 33) x += __shfl_xor_sync(0xffffffffU, x, 1);
    of(at).y[threadIdx.x] = x;
}

KERNEL(fiber_two_barriers) {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
    of(at).y[threadIdx.x] = 1;
}

KERNEL(fiber_unwritten) {
    __shared__ float line[THREADS];
    if (threadIdx.x != 7) line[threadIdx.x] = 1;
    __syncthreads();
    of(at).y[threadIdx.x] = line[THREADS - 1 - threadIdx.x];
}

KERNEL(fiber_misaligned) {
    float *y = of(at).y;
    while ((uintptr_t)y % 16 != 8) y++;
    __stwb((float4 *)y, make_float4(1, 2, 3, 4));
}
