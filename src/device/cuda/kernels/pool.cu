/* Windows over pictures. Backward each place gathers what the windows over it hand back, in one order: nothing is added
 * to memory. */
#include "device/cuda/kernels/bounds.cuh"
#include "device/cuda/kernels/picture.cuh"
#include "device/cuda/kernels/pool.h"

/* A stretch of one side: [first, end). */
template <typename index> struct stretch { index first, end; };

/* The part of window `out` that lies in the input; first: where the window begins, padding included. */
template <typename index>
static __device__ inline stretch<index> window_of(const gp_kernel_pool_args &args, int side, index out, index *first) {
    index begin = out * (index)args.stride[side] - (index)args.pad[side];
    index end = begin + (index)args.kernel[side], size = (index)args.in[side];
    *first = begin;
    return {begin < 0 ? 0 : begin, end > size ? size : end};
}

/* The windows over input place `in`. */
template <typename index>
static __device__ inline stretch<index> windows_over(const gp_kernel_pool_args &args, int side, index in) {
    index at = in + (index)args.pad[side], stride = (index)args.stride[side];
    index before = at - (index)args.kernel[side], end = at / stride + 1; /* before: lies in no window over `in` */
    return {before < 0 ? 0 : before / stride + 1, end > (index)args.out[side] ? (index)args.out[side] : end};
}

/* Places that a window of avg_pool counts along one side: those in the input and, where padding counts, in the padding.
 */
template <typename index> static __device__ inline index counted(const gp_kernel_pool_args &args, int side, index out) {
    index first;
    stretch<index> inside = window_of(args, side, out, &first);
    if (!args.count_pad) return inside.end - inside.first;
    index end = first + (index)args.kernel[side], last = (index)(args.in[side] + args.pad[side]);
    return (end > last ? last : end) - first;
}

template <typename index, int pack>
static __device__ inline void put_index(const gp_kernel_pool_args &args, index offset, const int32_t (&place)[pack]) {
    if (args.index_bytes == 1)
        gp_numbers_store((uint8_t *)args.index + offset, place);
    else
        gp_numbers_store((int32_t *)args.index + offset, place);
}

/* The first of equals; NaN wins, and the first of them. */
template <typename index, int pack> static __device__ inline void max_pool_forward(const gp_kernel_pool_args &args) {
    gp_spot<index> at;
    if (!gp_spot_find<index, pack>(args.count, args.out, args.channels, &at)) return;
    index top, left;
    int32_t place[pack];
    stretch<index> down = window_of(args, 0, at.h, &top), right = window_of(args, 1, at.w, &left);
    gp_pack<pack> best = {};
    for (int i = 0; i < pack; i++) place[i] = -1;
    for (index h = down.first; h < down.end; h++) {
        for (index w = right.first; w < right.end; w++) {
            index row = (at.n * (index)args.in[0] + h) * (index)args.in[1] + w;
            gp_pack<pack> x = gp_pack_load<pack>(args.from.at + row * (index)args.from.pitch + at.channel);
            int32_t here = (int32_t)((h - top) * (index)args.kernel[1] + (w - left));
            for (int i = 0; i < pack; i++) {
                float value = x.at[i], so_far = best.at[i];
                if (place[i] >= 0 && !(value > so_far) && !(value != value && so_far == so_far)) continue;
                best.at[i] = value;
                place[i] = here;
            }
        }
    }
    gp_pack_store(args.to.at + at.row * (index)args.to.pitch + at.channel, best);
    if (args.index) put_index<index, pack>(args, at.row * (index)args.index_pitch + at.channel, place);
}

/* Where in its window the maximum of each channel lies. */
template <typename index, int pack>
static __device__ inline void get_index(const gp_kernel_pool_args &args, index offset, int32_t (&place)[pack]) {
    if (args.index_bytes == 1)
        gp_numbers_load((const uint8_t *)args.index + offset, place);
    else
        gp_numbers_load((const int32_t *)args.index + offset, place);
}

template <typename index, int pack> static __device__ inline void max_pool_backward(const gp_kernel_pool_args &args) {
    gp_spot<index> at;
    if (!gp_spot_find<index, pack>(args.count, args.in, args.channels, &at)) return;
    stretch<index> down = windows_over(args, 0, at.h), right = windows_over(args, 1, at.w);
    gp_pack<pack> sum = {};
    for (index oh = down.end - 1; oh >= down.first; oh--) {
        for (index ow = right.end - 1; ow >= right.first; ow--) {
            index row = (at.n * (index)args.out[0] + oh) * (index)args.out[1] + ow;
            index h = at.h + (index)args.pad[0] - oh * (index)args.stride[0];
            index w = at.w + (index)args.pad[1] - ow * (index)args.stride[1];
            int32_t here = (int32_t)(h * (index)args.kernel[1] + w), place[pack];
            get_index<index, pack>(args, row * (index)args.index_pitch + at.channel, place);
            gp_pack<pack> dy = gp_pack_load<pack>(args.from.at + row * (index)args.from.pitch + at.channel);
            for (int i = 0; i < pack; i++) sum.at[i] += place[i] == here ? dy.at[i] : 0;
        }
    }
    gp_pack_store(args.to.at + at.row * (index)args.to.pitch + at.channel, sum);
}

template <typename index, int pack> static __device__ inline void avg_pool_forward(const gp_kernel_pool_args &args) {
    gp_spot<index> at;
    if (!gp_spot_find<index, pack>(args.count, args.out, args.channels, &at)) return;
    index top, left;
    stretch<index> down = window_of(args, 0, at.h, &top), right = window_of(args, 1, at.w, &left);
    double sum[pack] = {}; /* a window may be a whole picture */
    for (index h = down.first; h < down.end; h++) {
        for (index w = right.first; w < right.end; w++) {
            index row = (at.n * (index)args.in[0] + h) * (index)args.in[1] + w;
            gp_pack<pack> x = gp_pack_load<pack>(args.from.at + row * (index)args.from.pitch + at.channel);
            for (int i = 0; i < pack; i++) sum[i] += (double)x.at[i];
        }
    }
    double places = (double)(counted(args, 0, at.h) * counted(args, 1, at.w));
    gp_pack<pack> mean;
    for (int i = 0; i < pack; i++) mean.at[i] = (float)(sum[i] / places);
    gp_pack_store(args.to.at + at.row * (index)args.to.pitch + at.channel, mean);
}

template <typename index, int pack> static __device__ inline void avg_pool_backward(const gp_kernel_pool_args &args) {
    gp_spot<index> at;
    if (!gp_spot_find<index, pack>(args.count, args.in, args.channels, &at)) return;
    stretch<index> down = windows_over(args, 0, at.h), right = windows_over(args, 1, at.w);
    gp_pack<pack> sum = {};
    for (index oh = down.end - 1; oh >= down.first; oh--) {
        index height = counted(args, 0, oh);
        for (index ow = right.end - 1; ow >= right.first; ow--) {
            float places = (float)(height * counted(args, 1, ow));
            index row = (at.n * (index)args.out[0] + oh) * (index)args.out[1] + ow;
            gp_pack<pack> dy = gp_pack_load<pack>(args.from.at + row * (index)args.from.pitch + at.channel);
            for (int i = 0; i < pack; i++) sum.at[i] += dy.at[i] / places;
        }
    }
    gp_pack_store(args.to.at + at.row * (index)args.to.pitch + at.channel, sum);
}

GP_KERNEL_BOTH_PACKED(max_pool_forward, gp_kernel_pool_args, max_pool_forward, GP_KERNEL_BLOCKS(3))
GP_KERNEL_BOTH_PACKED(max_pool_backward, gp_kernel_pool_args, max_pool_backward, GP_KERNEL_BLOCKS(3))
GP_KERNEL_BOTH_PACKED(avg_pool_forward, gp_kernel_pool_args, avg_pool_forward, GP_KERNEL_BLOCKS(3))
GP_KERNEL_BOTH_PACKED(avg_pool_backward, gp_kernel_pool_args, avg_pool_backward, GP_KERNEL_BLOCKS(3))
