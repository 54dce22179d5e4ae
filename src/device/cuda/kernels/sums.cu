/* Sums over all elements, in f64. */
#include "device/cuda/kernels/sums.h"
#include "device/cuda/kernels/pack.cuh"
#include "device/cuda/kernels/reduce.cuh"

struct square_of {
    static __device__ double of(float a, float) {
        return (double)a * (double)a;
    }
};

struct squared_error_of { /* a is x, b the target */
    static __device__ double of(float a, float b) {
        double difference = (double)a - (double)b;
        return difference * difference;
    }
};

/* Neither form of the exponential overflows, and no difference of large numbers is left. */
struct bce_logits_of {
    static __device__ double of(float a, float b) {
        double rest = (double)log1pf(expf(-fabsf(a)));
        return rest + ((double)(a > 0 ? a : 0) - (double)a * (double)b);
    }
};

static __device__ const float *element(const gp_kernel_sum_args &args, const gp_kernel_rows &of, int64_t i) {
    if (args.rows == 1) return of.at + i;
    int64_t row = i / args.width;
    return of.at + row * of.pitch + (i - row * args.width);
}

template <typename function> static __device__ double sum_four(const gp_kernel_sum_args &args, int64_t i) {
    gp_pack<4> a = gp_pack_load<4>(element(args, args.a, i)), b = {};
    if (args.b.at) b = gp_pack_load<4>(element(args, args.b, i));
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += function::of(a.at[k], b.at[k]);
    return sum;
}

template <typename function> static __device__ double sum_one(const gp_kernel_sum_args &args, int64_t i) {
    return function::of(*element(args, args.a, i), args.b.at ? *element(args, args.b, i) : 0);
}

/* What the thread has of its block. */
template <typename function> static __device__ double sum_of(const gp_kernel_sum_args &args) {
    int64_t first = (int64_t)blockIdx.x * GP_KERNEL_SUM_BLOCK, last = first + GP_KERNEL_SUM_BLOCK;
    if (last > args.rows * args.width) last = args.rows * args.width;
    double sum = 0;
    for (int64_t i = first + 4 * (int64_t)threadIdx.x; i < last; i += 4 * (int64_t)blockDim.x) {
        double four = 0;
        if (args.by_four)
            four = sum_four<function>(args, i);
        else
            for (int64_t k = i; k < i + 4 && k < last; k++) four += sum_one<function>(args, k);
        sum += four;
    }
    return sum;
}

__global__ void gp_kernel_square_sum(gp_kernel_sum_args args) {
    __shared__ double shared[GP_MOST_WARPS];
    double sum = gp_block_sum(shared, sum_of<square_of>(args));
    if (threadIdx.x == 0) args.partial[blockIdx.x] = sum;
}

__global__ void gp_kernel_element_loss_sum(gp_kernel_sum_args args) {
    __shared__ double shared[GP_MOST_WARPS];
    double own = args.function == 0 ? sum_of<squared_error_of>(args) : sum_of<bce_logits_of>(args);
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
