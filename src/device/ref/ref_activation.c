/* The ops of leaky_relu, gelu, silu, sigmoid and tanh. */
#include "device/ref/ref_ops.h"

#include <math.h>

/* √(2/π) and the coefficient of x³ in gelu's approximation (Hendrycks, Gimpel, 2016). */
#define ROOT_2_OVER_PI 0.79788456080286535588
#define CUBIC          0.044715
#define ROOT_HALF      0.70710678118654752440
#define ROOT_2_PI      2.50662827463100050242

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double value_at(const gp_activation_attributes *activation, double x) {
    switch ((gp_activation)activation->function) {
    case GP_LEAKY_RELU: return x > 0 ? x : activation->slope * x;
    case GP_GELU: return x * 0.5 * erfc(-x * ROOT_HALF);
    case GP_GELU_TANH: return x * sigmoid(2 * ROOT_2_OVER_PI * (x + CUBIC * x * x * x));
    case GP_SILU: return x / (1 + exp(-x));
    case GP_SIGMOID: return sigmoid(x);
    case GP_TANH: return tanh(x);
    case GP_ACTIVATIONS: break;
    }
    return NAN;
}

/* f′(x); of sigmoid and tanh `a` is f(x). */
static double slope_at(const gp_activation_attributes *activation, double a) {
    double s;
    switch ((gp_activation)activation->function) {
    case GP_LEAKY_RELU: return a > 0 ? 1 : activation->slope;
    case GP_GELU: return 0.5 * erfc(-a * ROOT_HALF) + a * exp(-a * a / 2) / ROOT_2_PI;
    case GP_GELU_TANH:
        s = sigmoid(2 * ROOT_2_OVER_PI * (a + CUBIC * a * a * a));
        return s + a * s * (1 - s) * 2 * ROOT_2_OVER_PI * (1 + 3 * CUBIC * a * a);
    case GP_SILU: s = sigmoid(a); return s * (1 + a * (1 - s));
    case GP_SIGMOID: return a * (1 - a);
    case GP_TANH: return 1 - a * a;
    case GP_ACTIVATIONS: break;
    }
    return NAN;
}

static double forward_element(const ref_call *call, int64_t i) {
    return value_at(&call->desc->attributes.activation, ref_get_element(&call->x, i));
}

void ref_activation_forward(const ref_call *call) {
    ref_write(call, &call->y, forward_element);
}

static double backward_element(const ref_call *call, int64_t i) {
    return slope_at(&call->desc->attributes.activation, ref_get_element(&call->a, i)) * ref_get_element(&call->dy, i);
}

void ref_activation_backward(const ref_call *call) {
    ref_write(call, &call->dx, backward_element);
}
