#include "device/cuda/kernels/move.h"
#include "device/cuda/kernels/index.cuh"

template <typename index, typename unit> static __device__ inline void copy_unit(const gp_kernel_move_args &args) {
    gp_place_of<index> at;
    if (!gp_place_find(args.outer * args.rows, args.width, &at)) return;
    index outer = at.row / (index)args.rows, row = at.row - outer * (index)args.rows;
    unit moved = {};
    if (args.x) moved = ((const unit *)args.x)[outer * (index)args.x_outer + row * (index)args.x_pitch + at.column];
    ((unit *)args.y)[outer * (index)args.y_outer + row * (index)args.y_pitch + at.column] = moved;
}

template <typename index> static __device__ void copy(const gp_kernel_move_args &args) {
    switch (args.unit) {
    case 16: copy_unit<index, uint4>(args); break;
    case 8: copy_unit<index, uint2>(args); break;
    case 4: copy_unit<index, uint32_t>(args); break;
    default: copy_unit<index, uint8_t>(args); break;
    }
}

GP_KERNEL_BOTH(copy, gp_kernel_move_args, copy)

enum { TILE = GP_KERNEL_TILE, STEP = GP_KERNEL_TILE_THREADS / TILE };

/* Where this block's tile begins. */
template <typename index> struct tile_place { index outer, row, column; };

template <typename index> static __device__ tile_place<index> tile_find(const gp_kernel_move_args &args) {
    index down = ((index)args.rows + TILE - 1) / TILE, right = ((index)args.width + TILE - 1) / TILE;
    index block = (index)blockIdx.x, line = block / right;
    return {line / down, line % down * TILE, (block - line * right) * TILE};
}

/* A tile goes through shared memory, so that neighbours read neighbours and write neighbours. */
template <typename index> static __device__ void transpose(const gp_kernel_move_args &args) {
    __shared__ float tile[TILE][TILE + 1]; /* a column more: neighbours of a column lie in different banks */
    const tile_place<index> at = tile_find<index>(args);
    const int lane = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    for (int i = first; i < TILE; i += STEP) {
        index row = at.row + i, column = at.column + lane;
        if (row < (index)args.rows && column < (index)args.width)
            tile[i][lane] =
                ((const float *)args.x)[at.outer * (index)args.x_outer + row * (index)args.x_pitch + column];
    }
    __syncthreads();
    for (int i = first; i < TILE; i += STEP) {
        index row = at.row + lane, column = at.column + i;
        if (row < (index)args.rows && column < (index)args.width)
            ((float *)args.y)[at.outer * (index)args.y_outer + column * (index)args.y_pitch + row] = tile[lane][i];
    }
}

GP_KERNEL_BOTH(transpose, gp_kernel_move_args, transpose)
