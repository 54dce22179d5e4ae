#include "device/cuda/kernels/columns.cuh"

/* Mean and squares of the next rows of a thread, two passes over what it holds in registers: a large mean costs no
 * digits. */
static __device__ gp_moments step_moments(const gp_kernel_column_moments_args &args, gp_column_place at) {
    float x[GP_KERNEL_COLUMN_STEP];
    double sum = 0, squares = 0;
    int64_t left = (at.last - at.row + at.lanes - 1) / at.lanes;
    int count = left < GP_KERNEL_COLUMN_STEP ? (int)left : GP_KERNEL_COLUMN_STEP;
    const float *from = args.x + at.row * args.x_pitch + at.column;
    for (int i = 0; i < GP_KERNEL_COLUMN_STEP; i++) x[i] = i < count ? from[i * at.lanes * args.x_pitch] : 0;
    for (int i = 0; i < GP_KERNEL_COLUMN_STEP; i++) sum += i < count ? (double)x[i] : 0;
    double mean = sum / count;
    for (int i = 0; i < GP_KERNEL_COLUMN_STEP; i++) {
        double difference = i < count ? (double)x[i] - mean : 0;
        squares += difference * difference;
    }
    gp_moments m = {(double)count, mean, squares};
    return m;
}

__global__ void gp_kernel_column_moments(gp_kernel_column_moments_args args) {
    __shared__ gp_moments shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    gp_moments all = {0, 0, 0};
    for (; at.row < at.last; at.row += GP_KERNEL_COLUMN_STEP * at.lanes) all = gp_merge(all, step_moments(args, at));
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
