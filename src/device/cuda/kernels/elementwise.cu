/* Relu, addition, activation functions and their derivatives, in f32 with the toolkit's functions: the same on every
 * device. */
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

/* ---- activation functions ---------------------------------------------------------------------------------------- */

/* In the order of gp_activation. */
enum { LEAKY_RELU, GELU, GELU_TANH, SILU, SIGMOID, TANH };

/* √½, 1/√(2π); 2·√(2/π), that times 0.044715, and that times 3: gelu's approximation (Hendrycks, Gimpel, 2016). */
static const float root_half = 0.70710678118654752F, density_0 = 0.39894228040143268F;
static const float tanh_linear = 1.59576912160573071F, tanh_cubic = 0.07135481627159952F,
                   tanh_slope = 0.21406444881479856F;

static __device__ inline float sigmoid_of(float x) {
    return 1 / (1 + expf(-x));
}

/* The normal distribution function. */
static __device__ inline float normal_of(float x) {
    return 0.5F * erfcf(-x * root_half);
}

struct leaky_relu {
    float slope;
    __device__ float forward(float x) const {
        return x > 0 ? x : slope * x;
    }
    __device__ float derivative(float x) const {
        return x > 0 ? 1 : slope;
    }
};

struct gelu {
    __device__ float forward(float x) const {
        return x * normal_of(x);
    }
    __device__ float derivative(float x) const {
        return normal_of(x) + x * (expf(-0.5F * x * x) * density_0);
    }
};

struct gelu_tanh {
    __device__ float forward(float x) const {
        return x * sigmoid_of(x * (tanh_linear + tanh_cubic * (x * x)));
    }
    /* Beyond 16 it is 0 or 1; its terms would be ∞·0 further out. */
    __device__ float derivative(float x) const {
        float near = fminf(fmaxf(x, -16.0F), 16.0F);
        float s = sigmoid_of(near * (tanh_linear + tanh_cubic * (near * near)));
        return s + near * s * (1 - s) * (tanh_linear + tanh_slope * (near * near));
    }
};

struct silu {
    __device__ float forward(float x) const {
        return x / (1 + expf(-x));
    }
    __device__ float derivative(float x) const {
        float s = sigmoid_of(x);
        return s * (1 + x * (1 - s));
    }
};

struct sigmoid { /* its derivative is one of y */
    __device__ float forward(float x) const {
        return sigmoid_of(x);
    }
    __device__ float derivative(float y) const {
        return y * (1 - y);
    }
};

struct tangent { /* its derivative is one of y */
    __device__ float forward(float x) const {
        return tanhf(x);
    }
    __device__ float derivative(float y) const {
        return 1 - y * y;
    }
};

template <typename function> struct forward_of {
    function f;
    __device__ float operator()(float x, float) const {
        return f.forward(x);
    }
};

template <typename function> struct backward_of {
    function f;
    __device__ float operator()(float a, float dy) const {
        return dy * f.derivative(a);
    }
};

template <typename index, template <typename> class pass>
static __device__ inline void choose(const gp_kernel_activation_args &args) {
    switch (args.function) {
    case LEAKY_RELU: gp_map<index>(args.map, pass<leaky_relu>{{args.slope}}); break;
    case GELU: gp_map<index>(args.map, pass<gelu>{}); break;
    case GELU_TANH: gp_map<index>(args.map, pass<gelu_tanh>{}); break;
    case SILU: gp_map<index>(args.map, pass<silu>{}); break;
    case SIGMOID: gp_map<index>(args.map, pass<sigmoid>{}); break;
    case TANH: gp_map<index>(args.map, pass<tangent>{}); break;
    default: break;
    }
}

template <typename index> static __device__ void forward(const gp_kernel_activation_args &args) {
    choose<index, forward_of>(args);
}

template <typename index> static __device__ void backward(const gp_kernel_activation_args &args) {
    choose<index, backward_of>(args);
}

GP_KERNEL_BOTH(activation_forward, gp_kernel_activation_args, forward)
GP_KERNEL_BOTH(activation_backward, gp_kernel_activation_args, backward)
