#include "device/cuda/kernels/columns.cuh"
#include "device/cuda/kernels/bounds.cuh"

/* Mean and squares of `count` ≤ GP_KERNEL_COLUMN_STEP elements that lie `stride` apart, two passes over what the thread
 * holds in registers: a large mean costs no digits. */
static __device__ gp_moments step_moments(const float *from, int64_t stride, int count) {
    float x[GP_KERNEL_COLUMN_STEP];
    double sum = 0, squares = 0;
    for (int i = 0; i < GP_KERNEL_COLUMN_STEP; i++) x[i] = i < count ? from[i * stride] : 0;
    for (int i = 0; i < GP_KERNEL_COLUMN_STEP; i++) sum += i < count ? (double)x[i] : 0;
    double mean = sum / count;
    for (int i = 0; i < GP_KERNEL_COLUMN_STEP; i++) {
        double difference = i < count ? (double)x[i] - mean : 0;
        squares += difference * difference;
    }
    gp_moments m = {(double)count, mean, squares};
    return m;
}

/* Of all rows of the thread. A whole step has its count as a constant, and so neither comparisons nor a division. */
static __device__ gp_moments thread_moments(const gp_kernel_column_moments_args &args, const gp_column_place &at) {
    const int64_t stride = at.lanes * args.x.pitch;
    const float *from = args.x.at + at.row * args.x.pitch + at.column;
    gp_moments all = {0, 0, 0};
    int left = at.row < at.last ? (int)((at.last - at.row - 1) / at.lanes + 1) : 0;
    for (; left >= GP_KERNEL_COLUMN_STEP; left -= GP_KERNEL_COLUMN_STEP) {
        all = gp_merge(all, step_moments(from, stride, GP_KERNEL_COLUMN_STEP));
        from += GP_KERNEL_COLUMN_STEP * stride;
    }
    return left > 0 ? gp_merge(all, step_moments(from, stride, left)) : all;
}

__global__ void GP_KERNEL_BLOCKS(4) gp_kernel_column_moments(gp_kernel_column_moments_args args) {
    __shared__ gp_moments shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    gp_moments all = thread_moments(args, at);
    all = gp_lanes_merge(shared, all, args.columns.tile);
    if (threadIdx.x >= args.columns.tile || at.column >= args.columns.width) return;
    double *to = args.partial + gp_column_partial(args.columns, at.block, at.column);
    to[0] = all.mean;
    to[args.columns.width] = all.squares;
}

__global__ void gp_kernel_column_totals(gp_kernel_column_totals_args args) {
    __shared__ gp_pair shared[GP_KERNEL_COLUMN_THREADS];
    int64_t tile = args.columns.tile, column = blockIdx.x * tile + threadIdx.x % tile, lanes = blockDim.x / tile;
    bool inside = column < args.columns.width;
    gp_pair sum = {0, 0};
    for (int64_t block = threadIdx.x / tile; inside && block < args.columns.blocks; block += lanes) {
        const double *from = args.partial + gp_column_partial(args.columns, block, column);
        sum.first += from[0];
        sum.second += from[args.columns.width];
    }
    sum = gp_lanes_merge(shared, sum, tile);
    if (threadIdx.x >= tile || !inside) return;
    if (args.variance) sum.first /= sqrt((double)args.variance[column] + args.eps);
    if (args.accumulate) {
        sum.first += (double)args.first[column];
        sum.second += (double)args.second[column];
    }
    args.first[column] = (float)sum.first;
    args.second[column] = (float)sum.second;
}

/* Bound by memory: what is summed is read once, a warp's threads reading neighbours. */
__global__ void gp_kernel_bias_sums(gp_kernel_bias_sums_args args) {
    __shared__ double shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    double sum = 0;
#pragma unroll 8
    for (int64_t row = at.row; row < at.last; row += at.lanes) sum += (double)args.x.at[row * args.x.pitch + at.column];
    sum = gp_lanes_merge(shared, sum, args.columns.tile);
    if (threadIdx.x >= args.columns.tile || at.column >= args.columns.width) return;
    args.partial[at.block * args.columns.width + at.column] = sum;
}

__global__ void gp_kernel_bias_total(gp_kernel_bias_total_args args) {
    __shared__ double shared[GP_KERNEL_COLUMN_THREADS];
    int64_t tile = args.columns.tile, column = blockIdx.x * tile + threadIdx.x % tile, lanes = blockDim.x / tile;
    bool inside = column < args.columns.width;
    double sum = 0;
    for (int64_t block = threadIdx.x / tile; inside && block < args.columns.blocks; block += lanes)
        sum += args.partial[block * args.columns.width + column];
    sum = gp_lanes_merge(shared, sum, tile);
    if (threadIdx.x >= tile || !inside) return;
    args.y[column] = (float)(sum + (args.accumulate ? (double)args.y[column] : 0));
}
