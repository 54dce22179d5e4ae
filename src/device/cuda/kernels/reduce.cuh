/* Sums over the threads of a block, in an order that is always the same. */
#ifndef GP_DEVICE_CUDA_KERNELS_REDUCE_CUH
#define GP_DEVICE_CUDA_KERNELS_REDUCE_CUH

enum { GP_WARP = 32, GP_MOST_WARPS = 32 };

/* Every thread gets the sum over all threads, which all call it; blocks are whole warps. `shared` has GP_MOST_WARPS
 * places that no other call of the same kernel uses. */
static __device__ inline double gp_block_sum(double *shared, double own) {
    for (int by = GP_WARP / 2; by > 0; by /= 2) own += __shfl_xor_sync(0xffffffffU, own, by);
    if (blockDim.x == GP_WARP) return own;
    if (threadIdx.x % GP_WARP == 0) shared[threadIdx.x / GP_WARP] = own;
    __syncthreads();
    double sum = 0;
    for (unsigned warp = 0; warp < blockDim.x / GP_WARP; warp++) sum += shared[warp];
    return sum;
}

#endif
