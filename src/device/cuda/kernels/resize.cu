/* Places repeated, and their sums. A mean over whole pictures is one large place. */
#include "device/cuda/kernels/picture.cuh"
#include "device/cuda/kernels/resize.h"

/* Each large place takes its small one, divided where `mean`. */
template <typename index, int pack, bool mean> static __device__ inline void spread(const gp_kernel_resize_args &args) {
    gp_spot<index> at;
    const int64_t large[2] = {args.small[0] * args.factor[0], args.small[1] * args.factor[1]};
    if (!gp_spot_find<index, pack>(args.count, large, args.channels, &at)) return;
    index row = (at.n * (index)args.small[0] + at.h / (index)args.factor[0]) * (index)args.small[1] +
                at.w / (index)args.factor[1];
    gp_pack<pack> x = gp_pack_load<pack>(args.from.at + row * (index)args.from.pitch + at.channel);
    if (mean) {
        float places = (float)(args.factor[0] * args.factor[1]);
        for (int i = 0; i < pack; i++) x.at[i] /= places;
    }
    gp_pack_store(args.to.at + at.row * (index)args.to.pitch + at.channel, x);
}

template <typename index, int pack> static __device__ inline void upsample_forward(const gp_kernel_resize_args &args) {
    spread<index, pack, false>(args);
}

template <typename index, int pack>
static __device__ inline void mean_pool_backward(const gp_kernel_resize_args &args) {
    spread<index, pack, true>(args);
}

template <typename index, int pack> static __device__ inline void upsample_backward(const gp_kernel_resize_args &args) {
    gp_spot<index> at;
    if (!gp_spot_find<index, pack>(args.count, args.small, args.channels, &at)) return;
    gp_pack<pack> sum = {};
    for (index h = 0; h < (index)args.factor[0]; h++) {
        index line = (at.n * (index)args.small[0] + at.h) * (index)args.factor[0] + h;
        index row = (line * (index)args.small[1] + at.w) * (index)args.factor[1];
        for (index w = 0; w < (index)args.factor[1]; w++) {
            gp_pack<pack> dy = gp_pack_load<pack>(args.from.at + (row + w) * (index)args.from.pitch + at.channel);
            for (int i = 0; i < pack; i++) sum.at[i] += dy.at[i];
        }
    }
    gp_pack_store(args.to.at + at.row * (index)args.to.pitch + at.channel, sum);
}

/* A block has LANES packs of channels of one sample; its warps share the places. Sums are f64: a picture may have
 * millions of places. */
template <typename index, int pack> static __device__ inline void mean_pool_forward(const gp_kernel_resize_args &args) {
    enum { LANES = GP_KERNEL_MEAN_LANES, SLICES = GP_KERNEL_MEAN_THREADS / LANES };
    __shared__ double part[SLICES][LANES][pack];
    const index places = (index)(args.factor[0] * args.factor[1]), channels = (index)args.channels;
    const index chunks = (channels / pack + LANES - 1) / LANES, n = (index)blockIdx.x / chunks;
    const int lane = (int)threadIdx.x % LANES, slice = (int)threadIdx.x / LANES;
    const index channel = (((index)blockIdx.x - n * chunks) * LANES + lane) * pack;
    double sum[pack] = {};
    for (index place = slice; place < places && channel < channels; place += SLICES) {
        gp_pack<pack> x = gp_pack_load<pack>(args.from.at + (n * places + place) * (index)args.from.pitch + channel);
        for (int i = 0; i < pack; i++) sum[i] += (double)x.at[i];
    }
    for (int i = 0; i < pack; i++) part[slice][lane][i] = sum[i];
    __syncthreads();
    if (slice > 0 || channel >= channels) return;
    for (int other = 1; other < SLICES; other++)
        for (int i = 0; i < pack; i++) sum[i] += part[other][lane][i];
    gp_pack<pack> mean;
    for (int i = 0; i < pack; i++) mean.at[i] = (float)(sum[i] / (double)places);
    gp_pack_store(args.to.at + n * (index)args.to.pitch + channel, mean);
}

GP_KERNEL_BOTH_PACKED(upsample_forward, gp_kernel_resize_args, upsample_forward, )
GP_KERNEL_BOTH_PACKED(upsample_backward, gp_kernel_resize_args, upsample_backward, )
GP_KERNEL_BOTH_PACKED(mean_pool_forward, gp_kernel_resize_args, mean_pool_forward, )
GP_KERNEL_BOTH_PACKED(mean_pool_backward, gp_kernel_resize_args, mean_pool_backward, )
