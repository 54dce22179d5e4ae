/* Sums in f64; the numbers of a column are found in f64, and applied in f32. */
#include "device/cuda/kernels/group_norm.h"
#include "device/cuda/kernels/affine.cuh"
#include "device/cuda/kernels/index.cuh"
#include "device/cuda/kernels/reduce.cuh"

/* y = (x − m)·scale + shift, with the mean's rounding to m made up for in the shift. */
static __device__ gp_affine forward_of(double mean, double inverse, const float *gamma, const float *beta, int64_t c) {
    double factor = inverse * (gamma ? (double)gamma[c] : 1);
    gp_affine of;
    of.mean = (float)mean;
    of.scale = (float)factor;
    of.shift = (float)(((double)of.mean - mean) * factor + (beta ? (double)beta[c] : 0));
    return of;
}

/* With g = dy·gamma and k elements in a group: dx = d·(g − Σg/k − (x−m)·d²·Σg·(x−m)/k). */
static __device__ gp_slope backward_of(const float *stats, double products, double sum, double elements,
                                       const float *gamma, int64_t c) {
    double inverse = (double)stats[1];
    gp_slope of;
    of.mean = stats[0];
    of.scale = stats[1];
    of.gamma = gamma ? gamma[c] : 1;
    of.shift = (float)(sum / elements);
    of.slope = (float)(inverse * inverse * products / elements);
    return of;
}

static __device__ float *stats_at(const gp_kernel_rows &stats, int64_t group) {
    return stats.at + group * stats.pitch;
}

/* ---- samples of one row ------------------------------------------------------------------------------------------ */

/* A block's group: one run of `width` elements. */
typedef struct segment {
    int64_t sample, channel;
} segment;

static __device__ segment segment_find(const gp_kernel_group_args &args) {
    segment at = {blockIdx.x / args.groups, blockIdx.x % args.groups * args.width};
    return at;
}

__global__ void gp_kernel_group_row_forward(gp_kernel_group_args args) {
    __shared__ double sums[GP_MOST_WARPS], squares[GP_MOST_WARPS];
    segment at = segment_find(args);
    int64_t width = args.width;
    const float *x = args.x.at + at.sample * args.x.pitch + at.channel;
    float *y = args.y.at + at.sample * args.y.pitch + at.channel;
    double sum = 0, square = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += (double)x[c];
    double mean = gp_block_sum(sums, sum) / (double)width;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        double difference = (double)x[c] - mean;
        square += difference * difference;
    }
    double inverse = 1 / sqrt(gp_block_sum(squares, square) / (double)width + args.eps);
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        gp_affine of = forward_of(mean, inverse, args.gamma, args.beta, at.channel + c);
        y[c] = (x[c] - of.mean) * of.scale + of.shift;
    }
    if (!args.stats.at || threadIdx.x != 0) return;
    float *stats = stats_at(args.stats, blockIdx.x);
    stats[0] = (float)mean;
    stats[1] = (float)inverse;
}

__global__ void gp_kernel_group_row_backward(gp_kernel_group_args args) {
    __shared__ double all_products[GP_MOST_WARPS], all_sums[GP_MOST_WARPS];
    segment at = segment_find(args);
    int64_t width = args.width;
    const float *x = args.x.at + at.sample * args.x.pitch + at.channel;
    const float *dy = args.dy.at + at.sample * args.dy.pitch + at.channel;
    const float *stats = stats_at(args.stats, blockIdx.x);
    float *dx = args.y.at + at.sample * args.y.pitch + at.channel;
    double product = 0, sum = 0, mean = (double)stats[0];
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        double gradient = (double)dy[c] * (args.gamma ? (double)args.gamma[at.channel + c] : 1);
        product += gradient * ((double)x[c] - mean);
        sum += gradient;
    }
    product = gp_block_sum(all_products, product);
    sum = gp_block_sum(all_sums, sum);
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        gp_slope of = backward_of(stats, product, sum, (double)width, args.gamma, at.channel + c);
        dx[c] = of.scale * (dy[c] * of.gamma - of.shift - (x[c] - of.mean) * of.slope);
    }
}

/* ---- samples of many rows: a block for each group combines what the blocks of rows have -------------------------- */

/* Partial result `i` of the blocks·width that a group has. */
typedef struct part {
    int64_t block, column;
} part;

static __device__ part part_find(const gp_kernel_group_args &args, int64_t i) {
    int64_t width = args.width, block = i / width;
    part at = {blockIdx.x / args.groups * args.columns.blocks + block,
               blockIdx.x % args.groups * width + (i - block * width)};
    return at;
}

__global__ void gp_kernel_group_statistics(gp_kernel_group_args args) {
    __shared__ gp_moments shared[GP_KERNEL_GROUP_THREADS];
    int64_t parts = args.columns.blocks * args.width;
    gp_moments all = {0, 0, 0};
    for (int64_t i = threadIdx.x; i < parts; i += blockDim.x) {
        part at = part_find(args, i);
        const double *from = args.partial + gp_column_partial(args.columns, at.block, at.column);
        gp_moments more = {(double)gp_column_block_rows(args.columns, at.block), from[0], from[args.columns.width]};
        all = gp_merge(all, more);
    }
    all = gp_lanes_merge(shared, all, 1);
    if (threadIdx.x != 0) return;
    double inverse = 1 / sqrt(gp_moments_variance(all) + args.eps), *to = args.of_group + 2 * (int64_t)blockIdx.x;
    to[0] = all.mean;
    to[1] = inverse;
    if (!args.stats.at) return;
    float *stats = stats_at(args.stats, blockIdx.x);
    stats[0] = (float)all.mean;
    stats[1] = (float)inverse;
}

__global__ void gp_kernel_group_sums(gp_kernel_group_args args) {
    __shared__ gp_pair shared[GP_KERNEL_GROUP_THREADS];
    int64_t parts = args.columns.blocks * args.width;
    gp_pair sum = {0, 0};
    for (int64_t i = threadIdx.x; i < parts; i += blockDim.x) {
        part at = part_find(args, i);
        const double *from = args.partial + gp_column_partial(args.columns, at.block, at.column);
        double gamma = args.gamma ? (double)args.gamma[at.column] : 1;
        sum.first += gamma * from[0];
        sum.second += gamma * from[args.columns.width];
    }
    sum = gp_lanes_merge(shared, sum, 1);
    if (threadIdx.x != 0) return;
    double *to = args.of_group + 2 * (int64_t)blockIdx.x;
    to[0] = sum.first;
    to[1] = sum.second;
}

/* ---- and then all elements --------------------------------------------------------------------------------------- */

template <int count> static __device__ void forward(const gp_kernel_group_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_affine of[count];
    if (at.row >= at.last) return;
    for (int i = 0; i < count; i++) {
        int64_t c = at.column * count + i;
        const double *group = args.of_group + 2 * (at.sample * args.groups + c / args.width);
        of[i] = forward_of(group[0], group[1], args.gamma, args.beta, c);
    }
    gp_affine_forward<count, false>(of, at, args.x, {}, args.y);
}

GP_KERNEL_PACKED(group_forward, gp_kernel_group_args, forward)

template <int count> static __device__ void backward(const gp_kernel_group_args &args) {
    gp_column_place at = gp_column_place_find(args.columns);
    gp_slope of[count];
    double elements = (double)(args.columns.rows * args.width);
    if (at.row >= at.last) return;
    for (int i = 0; i < count; i++) {
        int64_t c = at.column * count + i, group = at.sample * args.groups + c / args.width;
        const double *sums = args.of_group + 2 * group;
        of[i] = backward_of(stats_at(args.stats, group), sums[0], sums[1], elements, args.gamma, c);
    }
    gp_affine_backward<count>(of, at, args.x, args.dy, args.y);
}

GP_KERNEL_PACKED(group_backward, gp_kernel_group_args, backward)

/* ---- products down the columns ----------------------------------------------------------------------------------- */

__global__ void gp_kernel_group_products(gp_kernel_group_args args) {
    __shared__ gp_pair shared[GP_KERNEL_COLUMN_THREADS];
    gp_column_place at = gp_column_place_find(args.columns);
    int64_t group = at.column / args.width, next = 0; /* next: the first row of the next sample */
    float mean = 0, inverse = 1;
    gp_pair sum = {0, 0};
    for (; at.row < at.last; at.row += at.lanes) {
        if (at.row >= next) {
            int64_t sample = args.rows_of_sample == 1 ? at.row : at.row / args.rows_of_sample;
            next = (sample + 1) * args.rows_of_sample;
            const float *stats = stats_at(args.stats, sample * args.groups + group);
            mean = stats[0];
            if (args.scaled) inverse = stats[1];
        }
        double dy = (double)args.dy.at[at.row * args.dy.pitch + at.column];
        double difference = (double)args.x.at[at.row * args.x.pitch + at.column] - (double)mean;
        sum.first += dy * difference * (double)inverse;
        sum.second += dy;
    }
    gp_column_store(args.columns, shared, sum, at, args.partial);
}
