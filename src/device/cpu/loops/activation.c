/* The ops of leaky_relu, gelu, silu, sigmoid and tanh. */
#include <math.h>

#include "device/cpu/loops/exponential.h"
#include "device/cpu/loops/loops.h"

/* Errors are within 2e-6 of the value; within 2e-5 in the tails of gelu, where it is below 1e-6. As in exponential.h,
 * elements are computed alike in vectors or alone. */

/* Both halves of 1 = 1/(1+e^−x) + 1/(1+e^x), neither by subtraction. */
typedef struct halves {
    float of_x, of_minus_x;
} halves;

static inline halves sigmoid_halves(float x) {
    float e = gp_exponential(-fabsf(x));
    float large = 1 / (1 + e), small = e * large;
    return (halves){x >= 0 ? large : small, x >= 0 ? small : large};
}

/* Of x ≤ 0 the normal distribution function Φ(x) is e^(−x²/2)·q·P(q) with q = 1/(1 + 0.3·|x|): the least polynomial of
 * degree 9 over q that comes within 4e-9 of it. */
static inline float normal_tail(float x, float e) {
    float q = 1 / (1 + 0.3F * fabsf(x));
    float p = -0.02062355202F;
    p = p * q + 0.1124360623F;
    p = p * q - 0.2282146507F;
    p = p * q + 0.1917859253F;
    p = p * q - 0.0794246352F;
    p = p * q + 0.09615743754F;
    p = p * q + 0.07838944451F;
    p = p * q + 0.1102354676F;
    p = p * q + 0.1195718089F;
    p = p * q + 0.1196866901F;
    return e * p * q;
}

static inline float normal_distribution(float x, float e) {
    float tail = normal_tail(x, e);
    return x <= 0 ? tail : 1 - tail;
}

/* Twice what stands under tanh in gelu's approximation, for 1 + tanh(u) = 2/(1+e^−2u). */
static inline float gelu_argument(float x) {
    return x * (1.5957691216F + 0.0713548163F * (x * x));
}

static inline float leaky_relu(float x, float slope) {
    float scaled = slope * x;
    return x > 0 ? x : scaled;
}

static inline float leaky_relu_slope(float x, float slope) {
    return x > 0 ? 1 : slope;
}

static inline float gelu(float x, float slope) {
    (void)slope;
    return x * normal_distribution(x, gp_exponential(-0.5F * (x * x)));
}

static inline float gelu_slope(float x, float slope) {
    (void)slope;
    float e = gp_exponential(-0.5F * (x * x));
    return normal_distribution(x, e) + x * (e * 0.3989422804F);
}

static inline float gelu_tanh(float x, float slope) {
    (void)slope;
    return x * sigmoid_halves(gelu_argument(x)).of_x;
}

/* Where |x| is beyond 16, the slope is 0 or 1; its terms would be ∞·0 further out. */
static inline float gelu_tanh_slope(float x, float slope) {
    (void)slope;
    float near = x > 16 ? 16 : x;
    near = near < -16 ? -16 : near;
    halves s = sigmoid_halves(gelu_argument(near));
    return s.of_x + near * (s.of_x * s.of_minus_x) * (1.5957691216F + 0.2140644490F * (near * near));
}

static inline float silu(float x, float slope) {
    (void)slope;
    return x * sigmoid_halves(x).of_x;
}

static inline float silu_slope(float x, float slope) {
    (void)slope;
    halves s = sigmoid_halves(x);
    return s.of_x * (1 + x * s.of_minus_x);
}

static inline float sigmoid(float x, float slope) {
    (void)slope;
    return sigmoid_halves(x).of_x;
}

static inline float sigmoid_slope(float y, float slope) {
    (void)slope;
    return y * (1 - y);
}

/* Small values by Cephes' polynomial (tanhf), where the quotient would lose its digits. */
static inline float hyperbolic_tangent(float x, float slope) {
    (void)slope;
    float size = fabsf(x), z = x * x;
    float e = gp_exponential(-2 * size);
    float far = (1 - e) / (1 + e);
    float p = -5.70498872745e-3F;
    p = p * z + 2.06390887954e-2F;
    p = p * z - 5.37397155531e-2F;
    p = p * z + 1.33314422036e-1F;
    p = p * z - 3.33332819422e-1F;
    float near = size + size * (z * p);
    return copysignf(size < 0.625F ? near : far, x);
}

static inline float tanh_slope(float y, float slope) {
    (void)slope;
    return 1 - y * y;
}

/* A span of a function and one of its gradient; context: the slope. */
#define SPANS(name, value, derivative)                                                                                 \
    static void name##_forward(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {                \
        const float slope = *(const float *)context;                                                                   \
        float *y = at[GP_ACTIVATION_FORWARD_Y];                                                                        \
        const float *x = at[GP_ACTIVATION_FORWARD_X];                                                                  \
        GP_INDEPENDENT                                                                                                 \
        for (int64_t i = 0; i < count; i++) y[i] = value(x[i], slope);                                                 \
    }                                                                                                                  \
    static void name##_backward(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {               \
        const float slope = *(const float *)context;                                                                   \
        float *dx = at[GP_ACTIVATION_BACKWARD_DX];                                                                     \
        const float *a = at[GP_ACTIVATION_BACKWARD_A], *dy = at[GP_ACTIVATION_BACKWARD_DY];                            \
        GP_INDEPENDENT                                                                                                 \
        for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * derivative(a[i], slope);                                   \
    }

SPANS(leaky_relu, leaky_relu, leaky_relu_slope)
SPANS(gelu, gelu, gelu_slope)
SPANS(gelu_tanh, gelu_tanh, gelu_tanh_slope)
SPANS(silu, silu, silu_slope)
SPANS(sigmoid, sigmoid, sigmoid_slope)
SPANS(tanh, hyperbolic_tangent, tanh_slope)

static const struct {
    gp_cpu_span forward, backward;
} spans[GP_ACTIVATIONS] = {
    [GP_LEAKY_RELU] = {leaky_relu_forward, leaky_relu_backward}, [GP_GELU] = {gelu_forward, gelu_backward},
    [GP_GELU_TANH] = {gelu_tanh_forward, gelu_tanh_backward},    [GP_SILU] = {silu_forward, silu_backward},
    [GP_SIGMOID] = {sigmoid_forward, sigmoid_backward},          [GP_TANH] = {tanh_forward, tanh_backward},
};

static void run_activation(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_activation_attributes *activation = &desc->attributes.activation;
    float slope = (float)activation->slope;
    bool forward = desc->kind == GP_OP_ACTIVATION_FORWARD;
    gp_cpu_spans(call, forward ? spans[activation->function].forward : spans[activation->function].backward, &slope);
}

const gp_cpu_loop GP_CPU_LOOP(activation_forward) = {.compute = run_activation};
const gp_cpu_loop GP_CPU_LOOP(activation_backward) = {.compute = run_activation};
