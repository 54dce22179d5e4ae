/* A tile goes through shared memory, so that neighbours read neighbours and write neighbours. */
#include "device/cuda/kernels/reorder.h"
#include "device/cuda/kernels/index.cuh"

enum { TILE = GP_KERNEL_TILE, STEP = GP_KERNEL_TILE_THREADS / TILE };

/* Where this block's tile begins. */
template <typename index> struct tile_place { index outer, row, column; };

template <typename index> static __device__ tile_place<index> tile_find(const gp_kernel_transpose_args &args) {
    index down = ((index)args.rows + TILE - 1) / TILE, right = ((index)args.columns + TILE - 1) / TILE;
    index block = (index)blockIdx.x, line = block / right;
    return {line / down, line % down * TILE, (block - line * right) * TILE};
}

template <typename index> static __device__ void transpose(const gp_kernel_transpose_args &args) {
    __shared__ float tile[TILE][TILE + 1]; /* a column more: neighbours of a column lie in different banks */
    const tile_place<index> at = tile_find<index>(args);
    const int lane = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    for (int i = first; i < TILE; i += STEP) {
        index row = at.row + i, column = at.column + lane;
        if (row < (index)args.rows && column < (index)args.columns)
            tile[i][lane] = args.x[at.outer * (index)args.x_outer + row * (index)args.x_pitch + column];
    }
    __syncthreads();
    for (int i = first; i < TILE; i += STEP) {
        index row = at.row + lane, column = at.column + i;
        if (row < (index)args.rows && column < (index)args.columns)
            args.y[at.outer * (index)args.y_outer + column * (index)args.y_pitch + row] = tile[lane][i];
    }
}

GP_KERNEL_BOTH(transpose, gp_kernel_transpose_args, transpose)
