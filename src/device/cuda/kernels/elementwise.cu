/* Element by element: bound by memory, so each element is read and written once, by four where the addresses, the
 * pitches and the width allow it. */
#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/index.cuh"

struct relu_forward_of {
    static __device__ float of(float a, float) {
        return a <= 0 ? 0 : a;
    }
};

struct relu_backward_of { /* a is y, b is dy */
    static __device__ float of(float a, float b) {
        return a > 0 ? b : 0;
    }
};

struct add_of {
    static __device__ float of(float a, float b) {
        return a + b;
    }
};

template <typename function>
static __device__ void map_one(const gp_kernel_map_args &args, int64_t row, int64_t column) {
    float a = args.a[row * args.a_pitch + column];
    float b = args.b ? args.b[row * args.b_pitch + column] : 0;
    args.y[row * args.y_pitch + column] = function::of(a, b);
}

template <typename function>
static __device__ void map_four(const gp_kernel_map_args &args, int64_t row, int64_t column) {
    float4 a = *(const float4 *)(args.a + row * args.a_pitch + column);
    float4 b = {0, 0, 0, 0};
    if (args.b) b = *(const float4 *)(args.b + row * args.b_pitch + column);
    float4 y = {function::of(a.x, b.x), function::of(a.y, b.y), function::of(a.z, b.z), function::of(a.w, b.w)};
    *(float4 *)(args.y + row * args.y_pitch + column) = y;
}

template <typename function> static __device__ void map(const gp_kernel_map_args &args) {
    gp_place at;
    if (!gp_place_find(args.rows, args.by_four ? args.width / 4 : args.width, &at)) return;
    if (args.by_four)
        map_four<function>(args, at.row, 4 * at.column);
    else
        map_one<function>(args, at.row, at.column);
}

__global__ void gp_kernel_relu_forward(gp_kernel_map_args args) {
    map<relu_forward_of>(args);
}
__global__ void gp_kernel_relu_backward(gp_kernel_map_args args) {
    map<relu_backward_of>(args);
}
__global__ void gp_kernel_add(gp_kernel_map_args args) {
    map<add_of>(args);
}
