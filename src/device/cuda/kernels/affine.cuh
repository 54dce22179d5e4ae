/* What normalisations do to each element once they know the numbers of its column, one column at a time or four. */
#ifndef GP_DEVICE_CUDA_KERNELS_AFFINE_CUH
#define GP_DEVICE_CUDA_KERNELS_AFFINE_CUH

#include "device/cuda/kernels/columns.cuh"
#include "device/cuda/kernels/pack.cuh"

/* y = (x − mean)·scale + shift */
typedef struct gp_affine {
    float mean, scale, shift;
} gp_affine;

template <int count>
static __device__ void gp_affine_forward(const gp_affine *of, gp_column_place at, const float *x, int64_t x_pitch,
                                         float *y, int64_t y_pitch) {
    for (int64_t row = at.row; row < at.last; row += at.lanes) {
        gp_pack<count> in = *(const gp_pack<count> *)(x + row * x_pitch + at.column * count), out;
        for (int i = 0; i < count; i++) out.at[i] = (in.at[i] - of[i].mean) * of[i].scale + of[i].shift;
        *(gp_pack<count> *)(y + row * y_pitch + at.column * count) = out;
    }
}

/* dx = scale·(dy·gamma − shift − (x − mean)·slope): what cancels does so before it is multiplied by what may be
 * large. */
typedef struct gp_slope {
    float mean, scale, gamma, shift, slope;
} gp_slope;

template <int count>
static __device__ void gp_affine_backward(const gp_slope *of, gp_column_place at, const float *x, int64_t x_pitch,
                                          const float *dy, int64_t dy_pitch, float *dx, int64_t dx_pitch) {
    for (int64_t row = at.row; row < at.last; row += at.lanes) {
        gp_pack<count> in = *(const gp_pack<count> *)(x + row * x_pitch + at.column * count), out;
        gp_pack<count> gradient = *(const gp_pack<count> *)(dy + row * dy_pitch + at.column * count);
        for (int i = 0; i < count; i++)
            out.at[i] =
                of[i].scale * (gradient.at[i] * of[i].gamma - of[i].shift - (in.at[i] - of[i].mean) * of[i].slope);
        *(gp_pack<count> *)(dx + row * dx_pitch + at.column * count) = out;
    }
}

#endif
