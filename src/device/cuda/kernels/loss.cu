/* Losses: sums in f64, exponentials in f32. */
#include "device/cuda/kernels/loss.h"
#include "device/cuda/kernels/map.cuh"
#include "device/cuda/kernels/reduce.cuh"

/* ---- cross entropy ----------------------------------------------------------------------------------------------- */

/* A thread's share of a row: classes lane, lane + team, …; of a row behind the last one none. */
typedef struct team_place {
    int64_t row, lane, classes;
    const float *x;
} team_place;

static __device__ team_place team_place_find(const gp_kernel_cross_entropy_args &args) {
    team_place at;
    at.row = blockIdx.x * (blockDim.x / args.team) + threadIdx.x / args.team;
    at.lane = threadIdx.x % args.team;
    at.classes = at.row < args.rows ? args.classes : 0;
    at.x = args.x.at + at.row * args.x.pitch;
    return at;
}

typedef struct best {
    float value;
    int64_t index;
} best;

/* The first of the largest, NaN being none; of the whole row, in each thread of the team. */
static __device__ best largest(const gp_kernel_cross_entropy_args &args, team_place at) {
    best found = {-INFINITY, args.classes};
    for (int64_t c = at.lane; c < at.classes; c += args.team) {
        if (at.x[c] > found.value || (at.x[c] == found.value && c < found.index)) {
            found.value = at.x[c];
            found.index = c;
        }
    }
    for (int by = (int)args.team / 2; by > 0; by /= 2) {
        float value = __shfl_xor_sync(0xffffffffU, found.value, by);
        int64_t index = __shfl_xor_sync(0xffffffffU, found.index, by);
        if (value > found.value || (value == found.value && index < found.index)) {
            found.value = value;
            found.index = index;
        }
    }
    return found;
}

static __device__ double team_sum(const gp_kernel_cross_entropy_args &args, double own) {
    for (int by = (int)args.team / 2; by > 0; by /= 2) own += __shfl_xor_sync(0xffffffffU, own, by);
    return own;
}

static __device__ double exp_sum(const gp_kernel_cross_entropy_args &args, team_place at, float most) {
    double sum = 0;
    for (int64_t c = at.lane; c < at.classes; c += args.team) sum += (double)expf(at.x[c] - most);
    return team_sum(args, sum);
}

/* A sum that is left out where its weight is 0: an infinite logit must not make it NaN. All threads of the team. */
static __device__ double row_loss(const gp_kernel_cross_entropy_args &args, team_place at, float most, int64_t target) {
    double rest = log(exp_sum(args, at, most)), loss = 0, spread = 0;
    bool is_class = target >= 0 && target < at.classes;
    if (args.smoothing < 1)
        loss += (1 - args.smoothing) * (rest + ((double)most - (is_class ? (double)at.x[target] : 0)));
    if (args.smoothing != 0) {
        for (int64_t c = at.lane; c < at.classes; c += args.team) spread += rest + ((double)most - (double)at.x[c]);
        loss += args.smoothing / (double)args.classes * team_sum(args, spread);
    }
    return is_class ? loss : (double)NAN;
}

__global__ void gp_kernel_cross_entropy_forward(gp_kernel_cross_entropy_args args) {
    __shared__ double losses[GP_MOST_WARPS], rights[GP_MOST_WARPS];
    team_place at = team_place_find(args);
    int64_t target = at.classes ? args.target[at.row] : args.ignore;
    best found = largest(args, at);
    /* A NaN that comes first stays the largest of a search in order. */
    if (at.classes && at.x[0] != at.x[0]) {
        found.value = at.x[0];
        found.index = 0;
    }
    double loss = row_loss(args, at, found.value, target);
    bool counts = target != args.ignore && at.lane == 0;
    loss = gp_block_sum(losses, counts ? loss : 0);
    double right = gp_block_sum(rights, counts && found.index == target ? 1 : 0);
    if (threadIdx.x != 0) return;
    args.partial[2 * (int64_t)blockIdx.x] = loss;
    args.partial[2 * (int64_t)blockIdx.x + 1] = right;
}

__global__ void gp_kernel_cross_entropy_backward(gp_kernel_cross_entropy_args args) {
    team_place at = team_place_find(args);
    int64_t target = at.classes ? args.target[at.row] : args.ignore;
    float most = largest(args, at).value;
    double sum = exp_sum(args, at, most), divisor = *args.divisor, share = args.smoothing / (double)args.classes;
    float *dx = args.dx.at + at.row * args.dx.pitch;
    for (int64_t c = at.lane; c < at.classes; c += args.team) { /* x may lie where dx does */
        double wanted = (c == target ? 1 - args.smoothing : 0) + share;
        float gradient = (float)(((double)expf(at.x[c] - most) / sum - wanted) / divisor);
        dx[c] = target == args.ignore ? 0 : gradient;
    }
}

/* ---- losses of single elements ----------------------------------------------------------------------------------- */

static __device__ float squared_error_gradient(float x, float target, double divisor) {
    return (float)(((double)x - (double)target) * (2 / divisor));
}

static __device__ float bce_logits_gradient(float x, float target, double divisor) {
    double small = (double)expf(-fabsf(x)), sigmoid = (x >= 0 ? 1 : small) / (1 + small);
    return (float)((sigmoid - (double)target) / divisor);
}

__global__ void gp_kernel_element_loss_backward(gp_kernel_element_loss_args args) {
    const double divisor = *args.divisor;
    const bool squared = args.function == 0;
    gp_map<int64_t>(args.map, [=](float x, float target) {
        return squared ? squared_error_gradient(x, target, divisor) : bce_logits_gradient(x, target, divisor);
    });
}

__global__ void gp_kernel_loss_total(gp_kernel_loss_total_args args) {
    double loss = 0, right = 0;
    for (int64_t piece = 0; piece < args.pieces; piece++) {
        bool ends = piece / args.replicas == args.pieces / args.replicas - 1;
        if (piece % args.replicas >= (ends ? args.last : args.full)) continue;
        loss += args.partial[piece * args.pitch];
        right += args.partial[piece * args.pitch + 1];
    }
    *args.loss = loss;
    *args.right = right;
    *args.finite = *args.finite && loss - loss == 0 ? 1 : 0;
}
