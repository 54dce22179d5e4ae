/* Optimizers: every operation rounded to f32, as PyTorch's loops do it. */
#include "device/cuda/kernels/update.h"
#include "device/cuda/kernels/pack.cuh"

/* The last entry whose blocks do not begin behind this one. */
static __device__ const gp_kernel_update_entry &entry_find(const gp_kernel_update_args &args) {
    int64_t first = 0, last = args.entries;
    while (last - first > 1) {
        int64_t middle = (first + last) / 2;
        if (args.entry[middle].block <= blockIdx.x)
            first = middle;
        else
            last = middle;
    }
    return args.entry[first];
}

template <int count, typename numbers>
static __device__ void update_pack(const numbers &n, const gp_kernel_update_entry &entry, int64_t i) {
    gp_pack<count> param = gp_pack_load<count>(entry.param + i), state[GP_KERNEL_UPDATE_STATES] = {};
    gp_pack<count> grad = gp_pack_load<count>(entry.grad + i);
    for (int s = 0; s < GP_KERNEL_UPDATE_STATES; s++)
        if (entry.state[s]) state[s] = gp_pack_load<count>(entry.state[s] + i);
    for (int k = 0; k < count; k++)
        n.update(&param.at[k], grad.at[k], &state[0].at[k], &state[1].at[k], entry.state[0] != nullptr);
    gp_pack_store(entry.param + i, param);
    for (int s = 0; s < GP_KERNEL_UPDATE_STATES; s++)
        if (entry.state[s]) gp_pack_store(entry.state[s] + i, state[s]);
}

template <typename numbers> static __device__ void update(const numbers &n, const gp_kernel_update_entry &entry) {
    int64_t first = (int64_t)(blockIdx.x - entry.block) * GP_KERNEL_UPDATE_BLOCK;
    int64_t last = first + GP_KERNEL_UPDATE_BLOCK < entry.count ? first + GP_KERNEL_UPDATE_BLOCK : entry.count;
    for (int64_t i = first + 4 * (int64_t)threadIdx.x; i < last; i += 4 * (int64_t)blockDim.x) {
        if (entry.by_four && i + 4 <= last)
            update_pack<4>(n, entry, i);
        else
            for (int64_t k = i; k < i + 4 && k < last; k++) update_pack<1>(n, entry, k);
    }
}

struct sgd_numbers {
    float rate, momentum, decay, clip;
    bool nesterov;

    __device__ void update(float *param, float grad, float *state, float *, bool has_state) const {
        float step = clip * grad;
        if (decay != 0) step += decay * *param;
        if (has_state) {
            float velocity = momentum * *state + step;
            *state = velocity;
            step = nesterov ? step + momentum * velocity : velocity;
        }
        *param -= rate * step;
    }
};

__global__ void gp_kernel_sgd(gp_kernel_update_args args) {
    if (!*args.finite) return;
    sgd_numbers n;
    n.rate = (float)*args.rate;
    n.momentum = (float)args.momentum;
    n.decay = (float)args.decay;
    n.clip = (float)*args.clip;
    n.nesterov = args.nesterov != 0;
    update(n, entry_find(args));
}

/* What a step multiplies with; rounded to f32 once, as PyTorch's loops round their scalars. */
struct adam_numbers {
    float clip;
    float decay;       /* added to the gradient */
    float shrink;      /* of the parameter */
    float share, rest; /* of the new gradient in the mean: 1 − beta1, and 1 less that */
    float beta2, square;
    float root; /* of the second bias correction */
    float eps;
    float step; /* −rate / the first bias correction */

    __device__ void update(float *param, float grad, float *mean, float *squares, bool) const {
        float value = *param * shrink, gradient = clip * grad;
        if (decay != 0) gradient += decay * value;
        /* torch.lerp starts from whichever end is nearer. */
        *mean = share < 0.5F ? *mean + share * (gradient - *mean) : gradient - (gradient - *mean) * rest;
        *squares = *squares * beta2 + square * gradient * gradient;
        *param = value + step * *mean / (sqrtf(*squares) / root + eps);
    }
};

static __device__ adam_numbers adam_numbers_of(const gp_kernel_update_args &args) {
    double rate = *args.rate, steps = (double)*args.step;
    adam_numbers n;
    n.clip = (float)*args.clip;
    n.decay = args.decoupled ? 0 : (float)args.decay;
    n.shrink = args.decoupled ? (float)(1 - rate * args.decay) : 1;
    n.share = (float)(1 - args.beta[0]);
    n.rest = 1 - n.share;
    n.beta2 = (float)args.beta[1];
    n.square = (float)(1 - args.beta[1]);
    n.root = (float)sqrt(1 - pow(args.beta[1], steps));
    n.eps = (float)args.eps;
    n.step = (float)-(rate / (1 - pow(args.beta[0], steps)));
    return n;
}

__global__ void gp_kernel_adam(gp_kernel_update_args args) {
    __shared__ adam_numbers shared;
    if (!*args.finite) return;
    if (threadIdx.x == 0) shared = adam_numbers_of(args);
    __syncthreads();
    update(shared, entry_find(args));
}
