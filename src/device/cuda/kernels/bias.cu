/* Gradients of biases. Bound by memory: what is summed is read once, a warp's threads reading neighbours. */
#include "device/cuda/kernels/bias.h"
#include "device/cuda/kernels/columns.cuh"

typedef struct bias_sum {
    double value;
} bias_sum;

static __device__ inline bias_sum gp_merge(bias_sum a, bias_sum b) {
    bias_sum sum = {a.value + b.value};
    return sum;
}

__global__ void gp_kernel_bias_sums(gp_kernel_bias_sums_args args) {
    __shared__ bias_sum shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    bias_sum sum = {0};
#pragma unroll 8
    for (int64_t row = at.row; row < at.last; row += at.lanes)
        sum.value += (double)args.x[row * args.x_pitch + at.column];
    sum = gp_lanes_merge(shared, sum, args.columns.tile);
    if (threadIdx.x >= args.columns.tile || at.column >= args.columns.width) return;
    args.partial[at.block * args.columns.width + at.column] = sum.value;
}

__global__ void gp_kernel_bias_total(gp_kernel_bias_total_args args) {
    __shared__ bias_sum shared[GP_KERNEL_COLUMN_THREADS];
    int64_t tile = args.columns.tile, column = blockIdx.x * tile + threadIdx.x % tile, lanes = blockDim.x / tile;
    bool inside = column < args.columns.width;
    bias_sum sum = {0};
    for (int64_t block = threadIdx.x / tile; inside && block < args.columns.blocks; block += lanes)
        sum.value += args.partial[block * args.columns.width + column];
    sum = gp_lanes_merge(shared, sum, tile);
    if (threadIdx.x >= tile || !inside) return;
    args.y[column] = (float)(sum.value + (args.accumulate ? (double)args.y[column] : 0));
}
