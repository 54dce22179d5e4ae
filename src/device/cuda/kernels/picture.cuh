/* Which place and channels of pictures [n,h,w,c] a thread has. */
#ifndef GP_DEVICE_CUDA_KERNELS_PICTURE_CUH
#define GP_DEVICE_CUDA_KERNELS_PICTURE_CUH

#include "device/cuda/kernels/index.cuh"
#include "device/cuda/kernels/pack.cuh"

template <typename index> struct gp_spot {
    index n, h, w, channel;
    index row; /* n, h, w in one number */
};

/* One thread for each place of `count` pictures and each `pack` channels; false behind the last one. */
template <typename index, int pack>
static __device__ inline bool gp_spot_find(int64_t count, const int64_t size[2], int64_t channels, gp_spot<index> *at) {
    gp_place_of<index> place;
    if (!gp_place_find(count * size[0] * size[1], channels / pack, &place)) return false;
    index line = place.row / (index)size[1];
    at->row = place.row;
    at->channel = place.column * pack;
    at->w = place.row - line * (index)size[1];
    at->n = line / (index)size[0];
    at->h = line - at->n * (index)size[0];
    return true;
}

#endif
