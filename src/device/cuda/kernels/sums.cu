/* Sums over all elements, in f64. */
#include "device/cuda/kernels/sums.h"
#include "device/cuda/kernels/pack.cuh"
#include "device/cuda/kernels/reduce.cuh"

/* Neither form of the exponential overflows, and no difference of large numbers is left. */
static __device__ double bce_logits(float x, float target) {
    double rest = (double)log1pf(expf(-fabsf(x)));
    return rest + ((double)(x > 0 ? x : 0) - (double)x * (double)target);
}

static __device__ double squared_error(float x, float target) {
    double difference = (double)x - (double)target;
    return difference * difference;
}

static __device__ const float *element(const gp_kernel_sum_args &args, const gp_kernel_rows &of, int64_t i) {
    if (args.rows == 1) return of.at + i;
    int64_t row = i / args.width;
    return of.at + row * of.pitch + (i - row * args.width);
}

template <typename function> static __device__ double sum_four(const gp_kernel_sum_args &args, function f, int64_t i) {
    gp_pack<4> a = gp_pack_load<4>(element(args, args.a, i)), b = {};
    if (args.b.at) b = gp_pack_load<4>(element(args, args.b, i));
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += f(a.at[k], b.at[k]);
    return sum;
}

template <typename function> static __device__ double sum_one(const gp_kernel_sum_args &args, function f, int64_t i) {
    return f(*element(args, args.a, i), args.b.at ? *element(args, args.b, i) : 0);
}

/* What the thread has of its block. */
template <typename function> static __device__ double sum_of(const gp_kernel_sum_args &args, function f) {
    int64_t first = (int64_t)blockIdx.x * GP_KERNEL_SUM_BLOCK, last = first + GP_KERNEL_SUM_BLOCK;
    if (last > args.rows * args.width) last = args.rows * args.width;
    double sum = 0;
    for (int64_t i = first + 4 * (int64_t)threadIdx.x; i < last; i += 4 * (int64_t)blockDim.x) {
        double four = 0;
        if (args.by_four)
            four = sum_four(args, f, i);
        else
            for (int64_t k = i; k < i + 4 && k < last; k++) four += sum_one(args, f, k);
        sum += four;
    }
    return sum;
}

__global__ void gp_kernel_square_sum(gp_kernel_sum_args args) {
    __shared__ double shared[GP_MOST_WARPS];
    double sum = gp_block_sum(shared, sum_of(args, [](float x, float) { return (double)x * (double)x; }));
    if (threadIdx.x == 0) args.partial[blockIdx.x] = sum;
}

__global__ void gp_kernel_element_loss_sum(gp_kernel_sum_args args) {
    __shared__ double shared[GP_MOST_WARPS];
    double own = args.function == 0 ? sum_of(args, [](float x, float target) { return squared_error(x, target); })
                                    : sum_of(args, [](float x, float target) { return bce_logits(x, target); });
    double sum = gp_block_sum(shared, own);
    if (threadIdx.x != 0) return;
    args.partial[2 * (int64_t)blockIdx.x] = sum;
    args.partial[2 * (int64_t)blockIdx.x + 1] = 0;
}

__global__ void gp_kernel_sum_partial(gp_kernel_sum_partial_args args) {
    __shared__ double first_shared[GP_MOST_WARPS], second_shared[GP_MOST_WARPS];
    double first = 0, second = 0;
    for (int64_t i = threadIdx.x; i < args.count; i += blockDim.x) {
        first += args.partial[i * args.each];
        if (args.each > 1) second += args.partial[i * args.each + 1];
    }
    first = gp_block_sum(first_shared, first);
    second = gp_block_sum(second_shared, second);
    if (threadIdx.x != 0) return;
    args.out[0] = first;
    if (args.each > 1) args.out[1] = second;
}

/* torch.nn.utils.clip_grad_norm_ has the same small number in its divisor. */
__global__ void gp_kernel_clip_total(gp_kernel_clip_total_args args) {
    double sum = 0;
    for (int64_t i = 0; i < args.count; i++) sum += args.squares[i];
    double norm = sqrt(sum), clip = args.limit / (norm + 1e-6);
    *args.norm = norm;
    *args.clip = args.limit > 0 && clip < 1 ? clip : 1;
    if (args.limit > 0 && !(norm - norm == 0)) *args.finite = 0;
}
