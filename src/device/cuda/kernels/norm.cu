/* Batch norm. The numbers of a channel are found in f64, and applied in f32. */
#include "device/cuda/kernels/norm.h"
#include "device/cuda/kernels/affine.cuh"
#include "device/cuda/kernels/index.cuh"

__global__ void gp_kernel_norm_statistics(gp_kernel_norm_statistics_args args) {
    __shared__ gp_moments shared[GP_KERNEL_COLUMN_THREADS];
    int64_t tile = args.columns.tile, column = blockIdx.x * tile + threadIdx.x % tile;
    bool inside = column < args.columns.width;
    gp_moments all = {0, 0, 0};
    if (inside) all = gp_column_moments_of(args.columns, args.partial, column, threadIdx.x / tile, blockDim.x / tile);
    all = gp_lanes_merge(shared, all, tile);
    if (threadIdx.x >= tile || !inside) return;
    args.mean[column] = (float)all.mean;
    args.variance[column] = (float)gp_moments_variance(all);
}

static __device__ double inverse_deviation(float variance, double eps) {
    return 1 / sqrt((double)variance + eps);
}

template <int count> static __device__ void apply(const gp_kernel_norm_apply_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_affine of[count];
    if (at.row >= at.last) return;
    for (int i = 0; i < count; i++) {
        int64_t c = at.column * count + i;
        of[i].mean = args.mean[c];
        of[i].scale = (float)(inverse_deviation(args.variance[c], args.eps) * (args.gamma ? (double)args.gamma[c] : 1));
        of[i].shift = args.beta ? args.beta[c] : 0;
    }
    gp_affine_forward<count>(of, at, args.x, args.x_pitch, args.y, args.y_pitch);
}

__global__ void gp_kernel_norm_apply(gp_kernel_norm_apply_args args) {
    if (args.by_four)
        apply<4>(args);
    else
        apply<1>(args);
}

__global__ void gp_kernel_norm_products(gp_kernel_norm_products_args args) {
    __shared__ gp_pair shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    bool inside = at.column < args.columns.width;
    float mean = inside ? args.mean[at.column] : 0;
    gp_pair sum = {0, 0};
    for (; at.row < at.last; at.row += at.lanes) {
        float dy = args.dy[at.row * args.dy_pitch + at.column];
        sum.first += (double)(dy * (args.x[at.row * args.x_pitch + at.column] - mean));
        sum.second += (double)dy;
    }
    sum = gp_lanes_merge(shared, sum, args.columns.tile);
    if (threadIdx.x >= args.columns.tile || !inside) return;
    double *to = args.partial + gp_column_partial(args.columns, at.block, at.column);
    to[0] = sum.first;
    to[args.columns.width] = sum.second;
}

template <int count> static __device__ void backward(const gp_kernel_norm_backward_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_slope of[count];
    double rows = (double)args.columns.rows;
    if (at.row >= at.last) return;
    for (int i = 0; i < count; i++) {
        int64_t c = at.column * count + i;
        double inverse = inverse_deviation(args.variance[c], args.eps);
        of[i].mean = args.mean[c];
        of[i].scale = (float)(inverse * (args.gamma ? (double)args.gamma[c] : 1));
        of[i].gamma = 1;
        of[i].shift = (float)((double)args.sums[c] / rows);
        of[i].slope = (float)((double)args.products[c] * inverse / rows);
    }
    gp_affine_backward<count>(of, at, args.x, args.x_pitch, args.dy, args.dy_pitch, args.dx, args.dx_pitch);
}

__global__ void gp_kernel_norm_backward(gp_kernel_norm_backward_args args) {
    if (args.by_four)
        backward<4>(args);
    else
        backward<1>(args);
}

__global__ void gp_kernel_norm_commit(gp_kernel_norm_commit_args args) {
    gp_place at;
    if (!gp_place_find(1, args.width, &at) || !*args.finite) return;
    gp_moments all = {0, 0, 0};
    for (int64_t p = 0; p < args.pieces; p++) {
        const float *piece = args.stats + p * args.stats_stride[0] + at.column;
        double rows = (double)(p == args.pieces - 1 ? args.rows_last : args.rows_full);
        gp_moments more = {rows, (double)piece[0], (double)piece[args.stats_stride[1]] * rows};
        all = gp_merge(all, more);
    }
    double keep = 1 - args.momentum, unbiased = all.squares / (all.count - 1);
    float *mean = args.mean + at.column, *variance = args.variance + at.column;
    *mean = (float)(keep * (double)*mean + args.momentum * all.mean);
    *variance = (float)(keep * (double)*variance + args.momentum * unbiased);
}
