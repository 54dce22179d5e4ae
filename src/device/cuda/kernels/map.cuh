/* A function of one or two tensors, element by element. It is bound by memory, so each element is read and written
 * once, by four if the addresses, the pitches and the width allow it. */
#ifndef GP_DEVICE_CUDA_KERNELS_MAP_CUH
#define GP_DEVICE_CUDA_KERNELS_MAP_CUH

#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/index.cuh"
#include "device/cuda/kernels/pack.cuh"

template <int count, typename index, typename function>
static __device__ inline void gp_map_pack(const gp_kernel_map_args &args, function f, index row, index column) {
    gp_pack<count> a = gp_pack_load<count>(args.a.at + row * (index)args.a.pitch + column), b = {}, y;
    if (args.b.at) b = gp_pack_load<count>(args.b.at + row * (index)args.b.pitch + column);
    for (int i = 0; i < count; i++) y.at[i] = f(a.at[i], b.at[i]);
    gp_pack_store(args.y.at + row * (index)args.y.pitch + column, y);
}

/* y = f(a, b), b being 0 where there is none. */
template <typename index, typename function>
static __device__ inline void gp_map(const gp_kernel_map_args &args, function f) {
    gp_place_of<index> at;
    if (!gp_place_find(args.rows, args.by_four ? args.width / 4 : args.width, &at)) return;
    if (args.by_four)
        gp_map_pack<4>(args, f, at.row, 4 * at.column);
    else
        gp_map_pack<1>(args, f, at.row, at.column);
}

#endif
