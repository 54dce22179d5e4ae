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
    float mean = (float)all.mean;
    args.mean[column] = mean;
    args.rest[column] = (float)(all.mean - (double)mean);
    args.variance[column] = (float)gp_moments_variance(all);
}

static __device__ double inverse_deviation(float variance, double eps) {
    return 1 / sqrt((double)variance + eps);
}

/* What norm_apply does to column c. */
static __device__ gp_affine affine_of(const float *mean, const float *variance, const float *gamma, const float *beta,
                                      double eps, int64_t c) {
    gp_affine of;
    of.mean = mean[c];
    of.scale = (float)(inverse_deviation(variance[c], eps) * (gamma ? (double)gamma[c] : 1));
    of.shift = beta ? beta[c] : 0;
    return of;
}

template <int count>
static __device__ void find_affine(const gp_kernel_norm_apply_args &args, int64_t c, gp_affine *of) {
    for (int i = 0; i < count; i++)
        of[i] = affine_of(args.mean, args.variance, args.gamma, args.beta, args.eps, c * count + i);
}

template <int count> static __device__ void apply(const gp_kernel_norm_apply_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_affine of[count];
    if (at.row >= at.last) return;
    find_affine<count>(args, at.column, of);
    gp_affine_forward<count>(of, at, args.x, args.x_pitch, args.y, args.y_pitch);
}

__global__ void gp_kernel_norm_apply(gp_kernel_norm_apply_args args) {
    if (args.by_four)
        apply<4>(args);
    else
        apply<1>(args);
}

template <int count> static __device__ void apply_relu(const gp_kernel_norm_apply_relu_args &args) {
    const gp_kernel_norm_apply_args &its = args.apply;
    gp_column_place at = gp_column_place_find(its.columns);
    gp_affine of[count];
    if (at.row >= at.last) return;
    find_affine<count>(its, at.column, of);
    gp_affine_relu<count>(of, at, its.x, its.x_pitch, args.addend, args.addend_pitch, its.y, its.y_pitch);
}

__global__ void gp_kernel_norm_apply_relu(gp_kernel_norm_apply_relu_args args) {
    if (args.apply.by_four)
        apply_relu<4>(args);
    else
        apply_relu<1>(args);
}

static __device__ void store_sums(const gp_kernel_norm_products_args &args, gp_column_place at, gp_pair sum) {
    double *to = args.partial + gp_column_partial(args.columns, at.block, at.column);
    to[0] = sum.first;
    to[args.columns.width] = sum.second;
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
    if (threadIdx.x < args.columns.tile && inside) store_sums(args, at, sum);
}

/* dz of one element; `of` serves where there is no y. */
static __device__ float passed(const gp_kernel_norm_relu_products_args &args, gp_affine of, gp_column_place at,
                               float x) {
    float dy = args.products.dy[at.row * args.products.dy_pitch + at.column];
    float z = args.y ? args.y[at.row * args.y_pitch + at.column] : gp_affine_of(of, x);
    float dz = z > 0 ? dy : 0;
    if (args.y) args.dz[at.row * args.dz_pitch + at.column] = dz;
    return dz;
}

__global__ void gp_kernel_norm_relu_products(gp_kernel_norm_relu_products_args args) {
    __shared__ gp_pair shared[GP_KERNEL_COLUMN_THREADS];
    const gp_kernel_norm_products_args &its = args.products;
    gp_column_place at = gp_column_place_find(its.columns);
    bool inside = at.column < its.columns.width;
    float mean = inside ? its.mean[at.column] : 0;
    gp_affine of = {0, 0, 0};
    if (inside && !args.y) of = affine_of(its.mean, args.variance, args.gamma, args.beta, args.eps, at.column);
    gp_pair sum = {0, 0};
    for (; at.row < at.last; at.row += at.lanes) {
        float x = its.x[at.row * its.x_pitch + at.column], dz = passed(args, of, at, x);
        sum.first += (double)(dz * (x - mean));
        sum.second += (double)dz;
    }
    sum = gp_lanes_merge(shared, sum, its.columns.tile);
    if (threadIdx.x < its.columns.tile && inside) store_sums(its, at, sum);
}

template <int count>
static __device__ void find_slopes(const gp_kernel_norm_backward_args &args, int64_t column, gp_slope *of) {
    double rows = (double)args.columns.rows;
    for (int i = 0; i < count; i++) {
        int64_t c = column * count + i;
        double inverse = inverse_deviation(args.variance[c], args.eps);
        of[i].mean = args.mean[c];
        of[i].scale = (float)(inverse * (args.gamma ? (double)args.gamma[c] : 1));
        of[i].gamma = 1;
        of[i].shift = (float)((double)args.sums[c] / rows);
        of[i].slope = (float)((double)args.products[c] * inverse / rows);
    }
}

template <int count> static __device__ void backward(const gp_kernel_norm_backward_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_slope of[count];
    if (at.row >= at.last) return;
    find_slopes<count>(args, at.column, of);
    gp_affine_backward<count>(of, at, args.x, args.x_pitch, args.dy, args.dy_pitch, args.dx, args.dx_pitch);
}

__global__ void gp_kernel_norm_backward(gp_kernel_norm_backward_args args) {
    if (args.by_four)
        backward<4>(args);
    else
        backward<1>(args);
}

/* As gp_affine_backward, on what relu lets through; scale and mean are those of norm_apply. */
template <int count> static __device__ void relu_backward(const gp_kernel_norm_relu_backward_args &args) {
    const gp_kernel_norm_backward_args &its = args.backward;
    gp_column_place at = gp_column_place_find(its.columns);
    gp_slope of[count];
    float shift[count];
    if (at.row >= at.last) return;
    find_slopes<count>(its, at.column, of);
    for (int i = 0; i < count; i++) shift[i] = args.beta ? args.beta[at.column * count + i] : 0;
    for (; at.row < at.last; at.row += at.lanes) {
        gp_pack<count> x = gp_pack_load<count>(its.x + at.row * its.x_pitch + at.column * count), out;
        gp_pack<count> dy = gp_pack_load<count>(its.dy + at.row * its.dy_pitch + at.column * count);
        for (int i = 0; i < count; i++) {
            gp_affine applied = {of[i].mean, of[i].scale, shift[i]};
            out.at[i] = gp_slope_of(of[i], x.at[i], gp_affine_of(applied, x.at[i]) > 0 ? dy.at[i] : 0);
        }
        gp_pack_store(its.dx + at.row * its.dx_pitch + at.column * count, out);
    }
}

__global__ void gp_kernel_norm_relu_backward(gp_kernel_norm_relu_backward_args args) {
    if (args.backward.by_four)
        relu_backward<4>(args);
    else
        relu_backward<1>(args);
}

__global__ void gp_kernel_norm_commit(gp_kernel_norm_commit_args args) {
    gp_place at;
    if (!gp_place_find(1, args.width, &at) || !*args.finite) return;
    gp_moments all = {0, 0, 0};
    for (int64_t p = 0; p < args.pieces; p++) {
        const float *piece = args.stats + p * args.stats_stride[0] + at.column;
        double rows = (double)(p == args.pieces - 1 ? args.rows_last : args.rows_full);
        double mean = (double)piece[0] + (double)piece[2 * args.stats_stride[1]];
        gp_moments more = {rows, mean, (double)piece[args.stats_stride[1]] * rows};
        all = gp_merge(all, more);
    }
    double keep = 1 - args.momentum, unbiased = all.squares / (all.count - 1);
    float *running = args.mean + at.column, *variance = args.variance + at.column;
    *running = (float)(keep * (double)*running + args.momentum * all.mean);
    *variance = (float)(keep * (double)*variance + args.momentum * unbiased);
}
