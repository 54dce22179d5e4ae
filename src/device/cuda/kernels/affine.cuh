/* What normalisations do to each element once they know the numbers of its column, one column at a time or four. */
#ifndef GP_DEVICE_CUDA_KERNELS_AFFINE_CUH
#define GP_DEVICE_CUDA_KERNELS_AFFINE_CUH

#include "device/cuda/kernels/columns.cuh"
#include "device/cuda/kernels/pack.cuh"

/* y = (x − mean)·scale + shift */
typedef struct gp_affine {
    float mean, scale, shift;
} gp_affine;

static __device__ inline float gp_affine_of(gp_affine of, float x) {
    return (x - of.mean) * of.scale + of.shift;
}

/* With `relu`: y = max((x − mean)·scale + shift + addend, 0), each step rounded; addend: or NULL. */
template <int count, bool relu>
static __device__ void gp_affine_forward(const gp_affine *of, gp_column_place at, const gp_kernel_rows &x,
                                         const gp_kernel_rows &addend, const gp_kernel_rows &y) {
    for (int64_t row = at.row; row < at.last; row += at.lanes) {
        gp_pack<count> in = gp_pack_load<count>(x.at + row * x.pitch + at.column * count), more = {}, out;
        if (relu && addend.at) more = gp_pack_load<count>(addend.at + row * addend.pitch + at.column * count);
        for (int i = 0; i < count; i++) {
            float z = gp_affine_of(of[i], in.at[i]);
            if (relu && addend.at) z += more.at[i];
            out.at[i] = relu && z <= 0 ? 0 : z;
        }
        gp_pack_store(y.at + row * y.pitch + at.column * count, out);
    }
}

/* dx = scale·(dy·gamma − shift − (x − mean)·slope): what cancels does so before it is multiplied by what may be
 * large. */
typedef struct gp_slope {
    float mean, scale, gamma, shift, slope;
} gp_slope;

static __device__ inline float gp_slope_of(gp_slope of, float x, float dy) {
    return of.scale * (dy * of.gamma - of.shift - (x - of.mean) * of.slope);
}

template <int count>
static __device__ void gp_affine_backward(const gp_slope *of, gp_column_place at, const gp_kernel_rows &x,
                                          const gp_kernel_rows &dy, const gp_kernel_rows &dx) {
    for (int64_t row = at.row; row < at.last; row += at.lanes) {
        gp_pack<count> in = gp_pack_load<count>(x.at + row * x.pitch + at.column * count), out;
        gp_pack<count> gradient = gp_pack_load<count>(dy.at + row * dy.pitch + at.column * count);
        for (int i = 0; i < count; i++) out.at[i] = gp_slope_of(of[i], in.at[i], gradient.at[i]);
        gp_pack_store(dx.at + row * dx.pitch + at.column * count, out);
    }
}

#endif
