/* Weights in another layout: a few megabytes once per step, so neighbours write neighbours, and what is read in between
 * comes from the cache. */
#include "device/cuda/kernels/reorder.h"
#include "device/cuda/kernels/index.cuh"

__global__ void gp_kernel_transpose(gp_kernel_transpose_args args) {
    gp_place at;
    if (!gp_place_find(args.outer * args.columns, args.rows, &at)) return;
    int64_t outer = at.row / args.columns, column = at.row - outer * args.columns;
    args.y[at.row * args.rows + at.column] = args.x[(outer * args.rows + at.column) * args.columns + column];
}
