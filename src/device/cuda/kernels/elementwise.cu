#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/map.cuh"

struct relu_forward_of {
    __device__ float operator()(float a, float) const {
        return a <= 0 ? 0 : a;
    }
};

struct relu_backward_of { /* a is y, b is dy */
    __device__ float operator()(float a, float b) const {
        return a > 0 ? b : 0;
    }
};

struct add_of {
    __device__ float operator()(float a, float b) const {
        return a + b;
    }
};

template <typename index> static __device__ void relu_forward(const gp_kernel_map_args &args) {
    gp_map<index>(args, relu_forward_of{});
}

template <typename index> static __device__ void relu_backward(const gp_kernel_map_args &args) {
    gp_map<index>(args, relu_backward_of{});
}

template <typename index> static __device__ void add(const gp_kernel_map_args &args) {
    gp_map<index>(args, add_of{});
}

GP_KERNEL_BOTH(relu_forward, gp_kernel_map_args, relu_forward)
GP_KERNEL_BOTH(relu_backward, gp_kernel_map_args, relu_backward)
GP_KERNEL_BOTH(add, gp_kernel_map_args, add)
