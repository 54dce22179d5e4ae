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
static __device__ gp_affine affine_of(const gp_kernel_norm_args &args, int64_t c) {
    gp_affine of;
    of.mean = args.mean[c];
    of.scale = (float)(inverse_deviation(args.variance[c], args.eps) * (args.gamma ? (double)args.gamma[c] : 1));
    of.shift = args.beta ? args.beta[c] : 0;
    return of;
}

template <int count, bool relu> static __device__ void apply_of(const gp_kernel_norm_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_affine of[count];
    if (at.row >= at.last) return;
    for (int i = 0; i < count; i++) of[i] = affine_of(args, at.column * count + i);
    gp_affine_forward<count, relu>(of, at, args.x, args.addend, args.y);
}

template <int count> static __device__ void apply(const gp_kernel_norm_args &args) {
    apply_of<count, false>(args);
}

template <int count> static __device__ void apply_relu(const gp_kernel_norm_args &args) {
    apply_of<count, true>(args);
}

GP_KERNEL_PACKED(norm_apply, gp_kernel_norm_args, apply)
GP_KERNEL_PACKED(norm_apply_relu, gp_kernel_norm_args, apply_relu)

/* dz of one element: by y where there is one, and then dz is written; else z is found again from x, without an addend.
 */
static __device__ float passed(const gp_kernel_norm_args &args, gp_affine of, gp_column_place at, float x) {
    float dy = args.dy.at[at.row * args.dy.pitch + at.column];
    float z = args.y.at ? args.y.at[at.row * args.y.pitch + at.column] : gp_affine_of(of, x);
    if (args.addend.at) dy += args.addend.at[at.row * args.addend.pitch + at.column];
    float dz = z > 0 ? dy : 0;
    if (args.y.at) args.dz.at[at.row * args.dz.pitch + at.column] = dz;
    return dz;
}

/* With `relu` on dz, else on dy. */
template <bool relu> static __device__ void products(const gp_kernel_norm_args &args) {
    __shared__ gp_pair shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    bool inside = at.column < args.columns.width;
    float mean = inside ? args.mean[at.column] : 0;
    gp_affine of = {0, 0, 0};
    if (relu && inside && !args.y.at) of = affine_of(args, at.column);
    gp_pair sum = {0, 0};
    for (; at.row < at.last; at.row += at.lanes) {
        float x = args.x.at[at.row * args.x.pitch + at.column];
        float dz = relu ? passed(args, of, at, x) : args.dy.at[at.row * args.dy.pitch + at.column];
        sum.first += (double)(dz * (x - mean));
        sum.second += (double)dz;
    }
    gp_column_store(args.columns, shared, sum, at, args.partial);
}

__global__ void gp_kernel_norm_products(gp_kernel_norm_args args) {
    products<false>(args);
}

__global__ void gp_kernel_norm_relu_products(gp_kernel_norm_args args) {
    products<true>(args);
}

template <int count> static __device__ void find_slopes(const gp_kernel_norm_args &args, int64_t column, gp_slope *of) {
    double rows = (double)args.rows_summed;
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

template <int count> static __device__ void backward(const gp_kernel_norm_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_slope of[count];
    if (at.row >= at.last) return;
    find_slopes<count>(args, at.column, of);
    gp_affine_backward<count>(of, at, args.x, args.dy, args.dx);
}

/* As gp_affine_backward, on what relu lets through; scale and mean are those of norm_apply. */
template <int count> static __device__ void relu_backward(const gp_kernel_norm_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_slope of[count];
    float shift[count];
    if (at.row >= at.last) return;
    find_slopes<count>(args, at.column, of);
    for (int i = 0; i < count; i++) shift[i] = args.beta ? args.beta[at.column * count + i] : 0;
    for (; at.row < at.last; at.row += at.lanes) {
        gp_pack<count> x = gp_pack_load<count>(args.x.at + at.row * args.x.pitch + at.column * count), out;
        gp_pack<count> dy = gp_pack_load<count>(args.dy.at + at.row * args.dy.pitch + at.column * count);
        for (int i = 0; i < count; i++) {
            gp_affine applied = {of[i].mean, of[i].scale, shift[i]};
            out.at[i] = gp_slope_of(of[i], x.at[i], gp_affine_of(applied, x.at[i]) > 0 ? dy.at[i] : 0);
        }
        gp_pack_store(args.dx.at + at.row * args.dx.pitch + at.column * count, out);
    }
}

GP_KERNEL_PACKED(norm_backward, gp_kernel_norm_args, backward)
GP_KERNEL_PACKED(norm_relu_backward, gp_kernel_norm_args, relu_backward)

/* As gp_norm_rows of device/op.h. */
static __device__ int64_t piece_rows(const gp_kernel_norm_parts &parts, int64_t piece) {
    int64_t rows = piece / parts.replicas == parts.pieces / parts.replicas - 1 ? parts.rows_last : parts.rows_full;
    if (parts.replicas == 1) return rows;
    int64_t samples = rows / parts.rows_sample, each = (samples + parts.replicas - 1) / parts.replicas;
    int64_t left = samples - each * (piece % parts.replicas);
    return (left < 0 ? 0 : left < each ? left : each) * parts.rows_sample;
}

static __device__ gp_moments merge_parts(const gp_kernel_norm_parts &parts, int64_t column) {
    gp_moments all = {0, 0, 0};
    for (int64_t p = 0; p < parts.pieces; p++) {
        const float *piece = parts.stats + p * parts.stats_stride[0] + column;
        double rows = (double)piece_rows(parts, p);
        if (rows == 0) continue;
        double mean = (double)piece[0] + (double)piece[2 * parts.stats_stride[1]];
        gp_moments more = {rows, mean, (double)piece[parts.stats_stride[1]] * rows};
        all = gp_merge(all, more);
    }
    return all;
}

__global__ void gp_kernel_norm_merge(gp_kernel_norm_merge_args args) {
    gp_place at;
    if (!gp_place_find(1, args.parts.width, &at)) return;
    gp_moments all = merge_parts(args.parts, at.column);
    args.mean[at.column] = (float)all.mean;
    args.variance[at.column] = (float)(all.squares / all.count);
}

__global__ void gp_kernel_norm_merge_sums(gp_kernel_norm_merge_sums_args args) {
    gp_place at;
    if (!gp_place_find(1, args.width, &at)) return;
    double products = 0, sums = 0;
    for (int64_t p = 0; p < args.pieces; p++) {
        const float *part = args.parts + p * args.parts_stride[0] + at.column;
        products += (double)part[0];
        sums += (double)part[args.parts_stride[1]];
    }
    args.products[at.column] = (float)products;
    args.sums[at.column] = (float)sums;
}

__global__ void gp_kernel_norm_commit(gp_kernel_norm_commit_args args) {
    gp_place at;
    if (!gp_place_find(1, args.parts.width, &at) || !*args.finite) return;
    gp_moments all = merge_parts(args.parts, at.column);
    double keep = 1 - args.momentum, unbiased = all.squares / (all.count - 1);
    float *running = args.mean + at.column, *variance = args.variance + at.column;
    *running = (float)(keep * (double)*running + args.momentum * all.mean);
    *variance = (float)(keep * (double)*variance + args.momentum * unbiased);
}
