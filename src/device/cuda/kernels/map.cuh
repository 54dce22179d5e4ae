/* A function of one or two tensors, element by element: bound by memory, so each element is read and written once, by
 * four where the addresses, the pitches and the width allow it. */
#ifndef GP_DEVICE_CUDA_KERNELS_MAP_CUH
#define GP_DEVICE_CUDA_KERNELS_MAP_CUH

#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/index.cuh"

template <typename index, typename function>
static __device__ inline void gp_map_one(const gp_kernel_map_args &args, function f, index row, index column) {
    float a = args.a[row * (index)args.a_pitch + column];
    float b = args.b ? args.b[row * (index)args.b_pitch + column] : 0;
    args.y[row * (index)args.y_pitch + column] = f(a, b);
}

template <typename index, typename function>
static __device__ inline void gp_map_four(const gp_kernel_map_args &args, function f, index row, index column) {
    float4 a = *(const float4 *)(args.a + row * (index)args.a_pitch + column);
    float4 b = {0, 0, 0, 0};
    if (args.b) b = *(const float4 *)(args.b + row * (index)args.b_pitch + column);
    float4 y = {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};
    *(float4 *)(args.y + row * (index)args.y_pitch + column) = y;
}

/* y = f(a, b), b being 0 where there is none. */
template <typename index, typename function>
static __device__ inline void gp_map(const gp_kernel_map_args &args, function f) {
    gp_place_of<index> at;
    if (!gp_place_find(args.rows, args.by_four ? args.width / 4 : args.width, &at)) return;
    if (args.by_four)
        gp_map_four(args, f, at.row, 4 * at.column);
    else
        gp_map_one(args, f, at.row, at.column);
}

#endif
