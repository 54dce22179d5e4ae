/* What the kernels that go down columns share: a thread's place, and sums over the threads of a block in a fixed
 * order. */
#ifndef GP_DEVICE_CUDA_KERNELS_COLUMNS_CUH
#define GP_DEVICE_CUDA_KERNELS_COLUMNS_CUH

#include "device/cuda/kernels/columns.h"

/* Of one thread. Rows are counted over all samples; none where the column lies behind the last one. */
typedef struct gp_column_place {
    int64_t sample, block; /* block: of rows, over all samples */
    int64_t column;
    int64_t row, last; /* first of the thread's rows; behind the block's last one */
    int64_t lanes;     /* from one of the thread's rows to the next */
} gp_column_place;

static __device__ inline gp_column_place gp_column_place_find(const gp_kernel_columns &columns) {
    gp_column_place at;
    /* As many as there are blocks of threads, so 32 bits count them: divisions of 64 bits take several times as long.
     */
    const uint32_t tile = (uint32_t)columns.tile, tiles = (uint32_t)columns.tiles, blocks = (uint32_t)columns.blocks;
    const uint32_t block = blockIdx.x / tiles, sample = block / blocks, lane = threadIdx.x / tile;
    const int64_t first = (int64_t)(block - sample * blocks) * columns.rows_of_block;
    const int64_t last = first + columns.rows_of_block < columns.rows ? first + columns.rows_of_block : columns.rows;
    at.block = block;
    at.sample = sample;
    at.column = (int64_t)(blockIdx.x - block * tiles) * tile + (threadIdx.x - lane * tile);
    at.lanes = blockDim.x / tile;
    at.last = at.sample * columns.rows + last;
    at.row = at.column < columns.width ? at.sample * columns.rows + first + lane : at.last;
    return at;
}

/* Rows of a block, counted over all samples. */
static __device__ inline int64_t gp_column_block_rows(const gp_kernel_columns &columns, int64_t block) {
    int64_t left = columns.rows - block % columns.blocks * columns.rows_of_block;
    return left < columns.rows_of_block ? left : columns.rows_of_block;
}

/* Where the first of a block's two partial results of a column is; the second lies `width` behind it. */
static __device__ inline int64_t gp_column_partial(const gp_kernel_columns &columns, int64_t block, int64_t column) {
    return block * 2 * columns.width + column;
}

/* Of some elements: how many, their mean, and the sum of their squared differences from it. */
typedef struct gp_moments {
    double count, mean, squares;
} gp_moments;

/* Chan, Golub, LeVeque 1979. */
static __device__ inline gp_moments gp_merge(gp_moments a, gp_moments b) {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    double count = a.count + b.count, difference = b.mean - a.mean, share = b.count / count;
    gp_moments all = {count, a.mean + difference * share,
                      a.squares + b.squares + difference * difference * a.count * share};
    return all;
}

/* Mean of squared differences; what rounding has made of 0 is none. */
static __device__ inline double gp_moments_variance(gp_moments m) {
    return m.squares > 0 || m.squares != m.squares ? m.squares / m.count : 0;
}

typedef struct gp_pair {
    double first, second;
} gp_pair;

static __device__ inline gp_pair gp_merge(gp_pair a, gp_pair b) {
    gp_pair sum = {a.first + b.first, a.second + b.second};
    return sum;
}

static __device__ inline double gp_merge(double a, double b) {
    return a + b;
}

/* Merges what the threads have that are `tile` apart: the whole is given to the first `tile` threads. All threads call
 * it. `shared` has a place for each thread. */
template <typename value> static __device__ value gp_lanes_merge(value *shared, value own, int64_t tile) {
    int64_t lane = threadIdx.x / tile;
    shared[threadIdx.x] = own;
    for (int64_t half = blockDim.x / tile / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) shared[threadIdx.x] = gp_merge(shared[threadIdx.x], shared[threadIdx.x + half * tile]);
    }
    return shared[threadIdx.x];
}

/* Merges the sums of a block's threads, as above, and writes the two of each column to its place in `partial`. */
static __device__ inline void gp_column_store(const gp_kernel_columns &columns, gp_pair *shared, gp_pair own,
                                              const gp_column_place &at, double *partial) {
    gp_pair sum = gp_lanes_merge(shared, own, columns.tile);
    if (threadIdx.x >= columns.tile || at.column >= columns.width) return;
    double *to = partial + gp_column_partial(columns, at.block, at.column);
    to[0] = sum.first;
    to[columns.width] = sum.second;
}

/* Merges what the blocks of rows have of the thread's column, the blocks shared out over the lanes as above. */
static __device__ inline gp_moments gp_column_moments_of(const gp_kernel_columns &columns, const double *partial,
                                                         int64_t column, int64_t lane, int64_t lanes) {
    gp_moments all = {0, 0, 0};
    for (int64_t block = lane; block < columns.blocks; block += lanes) {
        const double *from = partial + gp_column_partial(columns, block, column);
        gp_moments more = {(double)gp_column_block_rows(columns, block), from[0], from[columns.width]};
        all = gp_merge(all, more);
    }
    return all;
}

#endif
