#include "device/cuda/kernels/dropout.h"
#include "device/cuda/kernels/index.cuh"
#include "device/cuda/kernels/pack.cuh"
#include "device/cuda/kernels/philox.cuh"

/* The draw of elements (or channels) 4·group to 4·group+3 of sample n. */
static __device__ inline gp_draw draw_group(const gp_kernel_dropout_args &args, int64_t n, int64_t group) {
    return gp_philox_draw(*args.seed,
                          {{(uint32_t)group, (uint32_t)(args.first_sample + n), args.node_and_purpose, *args.step}});
}

static __device__ inline float drop(const gp_kernel_dropout_args &args, uint32_t word, float x) {
    return word >> 8 >= args.threshold ? x * args.scale : 0;
}

/* Of a whole draw. */
static __device__ inline void drop_four(const gp_kernel_dropout_args &args, const gp_draw &draw, float *y,
                                        const float *from) {
    gp_pack<4> x = gp_pack_load<4>(from), out;
    for (int i = 0; i < 4; i++) out.at[i] = drop(args, draw.word[i], x.at[i]);
    gp_pack_store(y, out);
}

/* One thread for each four elements of a sample: one draw. */
template <typename index> static __device__ void rows(const gp_kernel_dropout_args &args) {
    gp_place_of<index> at;
    const index width = (index)args.width, sample = (index)args.places * width;
    if (!gp_place_find(args.count, (sample + 3) / 4, &at)) return;
    gp_draw draw = draw_group(args, at.row, at.column);
    const index first = 4 * at.column, base = at.row * (index)args.places;
    if (args.by_four) {
        index row = first / width, column = first - row * width;
        drop_four(args, draw, args.y.at + (base + row) * (index)args.y.pitch + column,
                  args.x.at + (base + row) * (index)args.x.pitch + column);
        return;
    }
    for (int i = 0; i < 4 && first + i < sample; i++) {
        index row = (first + i) / width, column = first + i - row * width;
        float x = args.x.at[(base + row) * (index)args.x.pitch + column];
        args.y.at[(base + row) * (index)args.y.pitch + column] = drop(args, gp_draw_word(draw, i), x);
    }
}

/* One thread for each four places of a channel, neighbours in PyTorch's order: one draw, or two where the places are no
 * multiple of four. Neighbouring threads have neighbouring channels. */
template <typename index> static __device__ void pictures(const gp_kernel_dropout_args &args) {
    gp_place_of<index> at;
    const index places = (index)args.places, quads = (places + 3) / 4;
    if (!gp_place_find(args.count * quads, args.width, &at)) return;
    index n = at.row / quads, first = 4 * (at.row - n * quads), element = at.column * places + first;
    index group = element / 4;
    gp_draw draw = draw_group(args, n, group);
    for (int i = 0; i < 4 && first + i < places; i++) {
        if ((element + i) / 4 != group) draw = draw_group(args, n, ++group);
        index row = n * places + first + i;
        float x = args.x.at[row * (index)args.x.pitch + at.column];
        args.y.at[row * (index)args.y.pitch + at.column] = drop(args, gp_draw_word(draw, (int)((element + i) % 4)), x);
    }
}

/* One thread for each four channels of a place: one draw. */
template <typename index> static __device__ void channels(const gp_kernel_dropout_args &args) {
    gp_place_of<index> at;
    const index width = (index)args.width;
    if (!gp_place_find(args.count * args.places, (args.width + 3) / 4, &at)) return;
    const index first = 4 * at.column;
    gp_draw draw = draw_group(args, at.row / (index)args.places, at.column);
    const float *x = args.x.at + at.row * (index)args.x.pitch + first;
    float *y = args.y.at + at.row * (index)args.y.pitch + first;
    if (args.by_four) {
        drop_four(args, draw, y, x);
        return;
    }
    for (int i = 0; i < 4 && first + i < width; i++) y[i] = drop(args, gp_draw_word(draw, i), x[i]);
}

GP_KERNEL_BOTH(dropout_rows, gp_kernel_dropout_args, rows)
GP_KERNEL_BOTH(dropout_pictures, gp_kernel_dropout_args, pictures)
GP_KERNEL_BOTH(dropout_channels, gp_kernel_dropout_args, channels)
