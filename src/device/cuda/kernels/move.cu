#include "device/cuda/kernels/move.h"
#include "device/cuda/kernels/index.cuh"

template <typename index, typename unit> static __device__ inline void copy_unit(const gp_kernel_copy_args &args) {
    gp_place_of<index> at;
    if (!gp_place_find(args.outer * args.rows, args.width, &at)) return;
    index outer = at.row / (index)args.rows, row = at.row - outer * (index)args.rows;
    unit moved = {};
    if (args.x) moved = ((const unit *)args.x)[outer * (index)args.x_outer + row * (index)args.x_pitch + at.column];
    ((unit *)args.y)[outer * (index)args.y_outer + row * (index)args.y_pitch + at.column] = moved;
}

template <typename index> static __device__ void copy(const gp_kernel_copy_args &args) {
    switch (args.unit) {
    case 16: copy_unit<index, uint4>(args); break;
    case 8: copy_unit<index, uint2>(args); break;
    case 4: copy_unit<index, uint32_t>(args); break;
    default: copy_unit<index, uint8_t>(args); break;
    }
}

GP_KERNEL_BOTH(copy, gp_kernel_copy_args, copy)
