/* What an op is: the vocabulary between layers, which ask for computations, and devices, which do them.
 *
 * A layer lowers its passes to descriptors (gp_op_desc). At plan time a device kind turns a descriptor into a prepared
 * op (gp_prepared), which has stated its workspace, the storage that it wants for each operand, and what it can do in
 * place. At run time a device runs it on a stream with addresses. Layers know no device; devices know no layer.
 *
 * Tensors are written in the order of memory: pictures [n,h,w,c], token rows [n,t,w], vectors [n,w]; the last dimension
 * is contiguous, the others have strides in elements, so that a slice of channels is a tensor too. Parameters stand in
 * PyTorch's order: conv [out,in/groups,kh,kw], linear [out,in]; they may have a format of the device's own instead
 * (working copies, gradients of weights).
 *
 * Descriptors are plain data, compared and hashed by their bytes: zero-initialise them, padding included
 * (gp_op_desc_init). The same descriptor gives the same kernel and so the same bits, whatever stands beside it.
 *
 * Descriptors and tensors are plain values of whoever fills them; prepared ops belong to a gp_op_cache. Any thread.
 */
#ifndef GP_DEVICE_OP_H
#define GP_DEVICE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"

enum { GP_MAX_OPERANDS = 8 };

/* X(suffix, name, operands in order: '<' read, '>' written, '+' added to, '?' may be absent, each with its name)
 *
 * Shapes and meaning; N rows = all dimensions but the last multiplied (n·h·w, or n·t, or n); C = the last dimension:
 *
 * conv_forward            y = conv(x, w) + b. PyTorch's cross-correlation; groups, dilation, symmetric zero padding.
 * conv_backward_data      dx from dy, w (overwrites)
 * conv_backward_weights   dw, db from x, dy
 * linear_forward          y[..,out] = x[..,in]·wᵀ + b
 * linear_backward_data    dx = dy·w
 * linear_backward_weights dw[out,in] = dyᵀ·x, db = Σ dy
 * norm_statistics         of the N rows of x: stats [3,C]: mean, variance (biased), and what rounding took from the
 *                         mean: the first and the third together are the mean to twice the digits
 * norm_apply              y = (x−mean)/√(variance+eps)·gamma + beta; mean and variance in two operands
 * norm_backward_reduce    sums [2,C]: Σ dy·x̂ (gradient of gamma), Σ dy (gradient of beta)
 * norm_backward_data      dx = gamma/√(variance+eps)·(dy − (Σ dy + x̂·Σ dy·x̂)/N)
 * norm_apply_relu         y = max(z,0), z = norm_apply's y, + addend: bit for bit norm_apply, add and relu_forward,
 * which may also be done one after another in y; so y may stand in x's place, never in addend's
 * norm_relu_backward_reduce, _data
 *                         norm_backward_reduce, _data on dz = dy where z > 0, else 0; z as above, without an addend,
 *                         found again from x
 * norm_add_relu_backward_reduce
 *                         dz = dy where y > 0, else 0, and norm_backward_reduce's sums on dz
 * group_norm_forward      each sample's rows by themselves, in `groups` of neighbouring channels:
 *                         y = (x−m)·d·gamma + beta, m the mean of the sample's rows of that group, biased variance,
 *                         d = 1/√(variance+eps); stats [n,groups,2]: m, d; gamma, beta [C]
 * group_norm_backward_data, _weights
 *                         dx; dgamma = Σ dy·x̂, dbeta = Σ dy over all rows, x̂ = (x−m)·d
 * relu_forward, _backward y = max(x,0); dx = dy where y > 0, else 0
 * activation_forward      y = f(x) for the function of its attributes, element by element
 * activation_backward     dx = dy·f′; a is y for sigmoid and tanh, else x
 * max_pool_forward        y and, where present, index (row-major place of the maximum in its window; the first of
 *                         equals; NaN wins, as in PyTorch; gp_pool_index_dtype); padding never wins;
 *                         y's height and width are those of either rounding (PyTorch's ceil_mode)
 * max_pool_backward       dx (overwrites; overlapping windows add up) from index, dy
 * avg_pool_forward        y = sum over the window / its places: those in the input and, where count_pad, in the
 *                         padding, but never those beyond, where ceil_mode lets a window reach; y as for max_pool
 * avg_pool_backward       dx (overwrites) from dy
 * upsample_forward        y[n,h·a,w·b,c]: each element of x a·b times (nearest); upsample_backward: dx = their sum
 * mean_pool_forward       y[n,1,1,c] = mean over h,w of x[n,h,w,c]; mean_pool_backward: dx = dy/(h·w)
 * flatten                 y[n, c·h·w] in PyTorch's order from x[n,h,w,c]; unflatten: the reverse
 * dropout                 y = x·mask/(1−p), the mask drawn from counters (base/philox.h), one for each element or, with
 *                         `channels`, for each channel of a sample; its own backward, on dy
 * add                     y = a + b;  copy: y = x;  (both may be strided)
 * cross_entropy_forward   logits x [rows, classes], target i64 [rows] → partial f64 [2]: Σ loss, number right
 *                         (argmax, the first of equals). A row's loss, lse = log Σ exp x:
 *                         (1−smoothing)·(lse − x[target]) + smoothing/classes·Σ(lse − x); 0 where target is `ignore`
 * cross_entropy_backward  dx = (softmax(x) − (1−smoothing)·onehot(target) − smoothing/classes) / scalars.divisor;
 *                         0 in ignored rows
 * element_loss_forward    x, target of one shape → partial f64 [2]: Σ f(x,target), 0
 *                         mse: (x−t)²; bce_logits: log(1+exp(−|x|)) + max(x,0) − x·t
 * element_loss_backward   dx = f′ / scalars.divisor
 * loss_total              partial f64 [pieces,2] → scalars.loss_sum, .right (added in order of index); .finite:
 *                         1, or 0 where the sum is not, and where it was 0 before
 * norm_commit             running mean and variance from stats [pieces,3,C]: merged in index order by Chan's formula
 *                         (Chan, Golub, LeVeque 1979), unbiased variance; running = (1−momentum)·running + momentum·new
 * square_sum              sum f64 [1]: Σ x², added in blocks that follow from the shape
 * clip_total              squares f64 [params] → scalars.grad_norm = √Σ (added in order), .clip = min(1, max_norm /
 *                         (grad_norm + 1e-6)) as torch.nn.utils.clip_grad_norm_, .finite becomes 0 where the norm
 *                         is not; where max_norm is 0 .grad_norm is found, .clip 1, and .finite left as it is
 * sgd                     PyTorch's SGD on one parameter; changes nothing where scalars.finite is 0; so norm_commit
 * adam                    PyTorch's Adam or AdamW on one parameter in step scalars.step; changes nothing likewise
 * reorder                 y = x in another format
 * fill                    y = 0
 */
#define GP_OP_MAP(X)                                                                                                   \
    X(CONV_FORWARD, "conv_forward", "<x <w <?b >y")                                                                    \
    X(CONV_BACKWARD_DATA, "conv_backward_data", "<dy <w >dx")                                                          \
    X(CONV_BACKWARD_WEIGHTS, "conv_backward_weights", "<x <dy >dw >?db")                                               \
    X(LINEAR_FORWARD, "linear_forward", "<x <w <?b >y")                                                                \
    X(LINEAR_BACKWARD_DATA, "linear_backward_data", "<dy <w >dx")                                                      \
    X(LINEAR_BACKWARD_WEIGHTS, "linear_backward_weights", "<x <dy >dw >?db")                                           \
    X(NORM_STATISTICS, "norm_statistics", "<x >stats")                                                                 \
    X(NORM_APPLY, "norm_apply", "<x <mean <variance <?gamma <?beta >y")                                                \
    X(NORM_BACKWARD_REDUCE, "norm_backward_reduce", "<x <dy <mean <variance >sums")                                    \
    X(NORM_BACKWARD_DATA, "norm_backward_data", "<x <dy <mean <variance <?gamma <sums >dx")                            \
    X(NORM_APPLY_RELU, "norm_apply_relu", "<x <mean <variance <?gamma <?beta <?addend >y")                             \
    X(NORM_RELU_BACKWARD_REDUCE, "norm_relu_backward_reduce", "<x <dy <mean <variance <?gamma <?beta >sums")           \
    X(NORM_RELU_BACKWARD_DATA, "norm_relu_backward_data", "<x <dy <mean <variance <?gamma <?beta <sums >dx")           \
    X(NORM_ADD_RELU_BACKWARD_REDUCE, "norm_add_relu_backward_reduce", "<x <y <dy <mean <variance >dz >sums")           \
    X(GROUP_NORM_FORWARD, "group_norm_forward", "<x <?gamma <?beta >y >?stats")                                        \
    X(GROUP_NORM_BACKWARD_DATA, "group_norm_backward_data", "<x <dy <stats <?gamma >dx")                               \
    X(GROUP_NORM_BACKWARD_WEIGHTS, "group_norm_backward_weights", "<x <dy <stats >dgamma >dbeta")                      \
    X(RELU_FORWARD, "relu_forward", "<x >y")                                                                           \
    X(RELU_BACKWARD, "relu_backward", "<y <dy >dx")                                                                    \
    X(ACTIVATION_FORWARD, "activation_forward", "<x >y")                                                               \
    X(ACTIVATION_BACKWARD, "activation_backward", "<a <dy >dx")                                                        \
    X(MAX_POOL_FORWARD, "max_pool_forward", "<x >y >?index")                                                           \
    X(MAX_POOL_BACKWARD, "max_pool_backward", "<index <dy >dx")                                                        \
    X(AVG_POOL_FORWARD, "avg_pool_forward", "<x >y")                                                                   \
    X(AVG_POOL_BACKWARD, "avg_pool_backward", "<dy >dx")                                                               \
    X(UPSAMPLE_FORWARD, "upsample_forward", "<x >y")                                                                   \
    X(UPSAMPLE_BACKWARD, "upsample_backward", "<dy >dx")                                                               \
    X(MEAN_POOL_FORWARD, "mean_pool_forward", "<x >y")                                                                 \
    X(MEAN_POOL_BACKWARD, "mean_pool_backward", "<dy >dx")                                                             \
    X(FLATTEN, "flatten", "<x >y")                                                                                     \
    X(UNFLATTEN, "unflatten", "<x >y")                                                                                 \
    X(DROPOUT, "dropout", "<x <scalars >y")                                                                            \
    X(ADD, "add", "<a <b >y")                                                                                          \
    X(COPY, "copy", "<x >y")                                                                                           \
    X(CROSS_ENTROPY_FORWARD, "cross_entropy_forward", "<x <target >partial")                                           \
    X(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", "<x <target <scalars >dx")                                     \
    X(ELEMENT_LOSS_FORWARD, "element_loss_forward", "<x <target >partial")                                             \
    X(ELEMENT_LOSS_BACKWARD, "element_loss_backward", "<x <target <scalars >dx")                                       \
    X(LOSS_TOTAL, "loss_total", "<partial +scalars")                                                                   \
    X(NORM_COMMIT, "norm_commit", "<scalars <stats +mean +variance")                                                   \
    X(SQUARE_SUM, "square_sum", "<x >sum")                                                                             \
    X(CLIP_TOTAL, "clip_total", "<squares +scalars")                                                                   \
    X(SGD, "sgd", "<scalars <grad +?momentum +param")                                                                  \
    X(ADAM, "adam", "<scalars <grad +m +v +param")                                                                     \
    X(REORDER, "reorder", "<x >y")                                                                                     \
    X(FILL, "fill", ">y")

typedef enum gp_op_kind {
#define GP_OP_ENUM(suffix, name, operands) GP_OP_##suffix,
    GP_OP_MAP(GP_OP_ENUM)
#undef GP_OP_ENUM
        GP_OP_KINDS
} gp_op_kind;

/* Positions of operands in gp_op_desc.operand, by op: GP_<OP>_<OPERAND>. */
enum { GP_CONV_FORWARD_X, GP_CONV_FORWARD_W, GP_CONV_FORWARD_B, GP_CONV_FORWARD_Y };
enum { GP_CONV_BACKWARD_DATA_DY, GP_CONV_BACKWARD_DATA_W, GP_CONV_BACKWARD_DATA_DX };
enum {
    GP_CONV_BACKWARD_WEIGHTS_X,
    GP_CONV_BACKWARD_WEIGHTS_DY,
    GP_CONV_BACKWARD_WEIGHTS_DW,
    GP_CONV_BACKWARD_WEIGHTS_DB
};
enum { GP_LINEAR_FORWARD_X, GP_LINEAR_FORWARD_W, GP_LINEAR_FORWARD_B, GP_LINEAR_FORWARD_Y };
enum { GP_LINEAR_BACKWARD_DATA_DY, GP_LINEAR_BACKWARD_DATA_W, GP_LINEAR_BACKWARD_DATA_DX };
enum {
    GP_LINEAR_BACKWARD_WEIGHTS_X,
    GP_LINEAR_BACKWARD_WEIGHTS_DY,
    GP_LINEAR_BACKWARD_WEIGHTS_DW,
    GP_LINEAR_BACKWARD_WEIGHTS_DB
};
enum { GP_NORM_STATISTICS_X, GP_NORM_STATISTICS_STATS };
enum {
    GP_NORM_APPLY_X,
    GP_NORM_APPLY_MEAN,
    GP_NORM_APPLY_VARIANCE,
    GP_NORM_APPLY_GAMMA,
    GP_NORM_APPLY_BETA,
    GP_NORM_APPLY_Y
};
enum {
    GP_NORM_BACKWARD_REDUCE_X,
    GP_NORM_BACKWARD_REDUCE_DY,
    GP_NORM_BACKWARD_REDUCE_MEAN,
    GP_NORM_BACKWARD_REDUCE_VARIANCE,
    GP_NORM_BACKWARD_REDUCE_SUMS
};
enum {
    GP_NORM_BACKWARD_DATA_X,
    GP_NORM_BACKWARD_DATA_DY,
    GP_NORM_BACKWARD_DATA_MEAN,
    GP_NORM_BACKWARD_DATA_VARIANCE,
    GP_NORM_BACKWARD_DATA_GAMMA,
    GP_NORM_BACKWARD_DATA_SUMS,
    GP_NORM_BACKWARD_DATA_DX
};
enum {
    GP_NORM_APPLY_RELU_X,
    GP_NORM_APPLY_RELU_MEAN,
    GP_NORM_APPLY_RELU_VARIANCE,
    GP_NORM_APPLY_RELU_GAMMA,
    GP_NORM_APPLY_RELU_BETA,
    GP_NORM_APPLY_RELU_ADDEND,
    GP_NORM_APPLY_RELU_Y
};
enum {
    GP_NORM_RELU_BACKWARD_REDUCE_X,
    GP_NORM_RELU_BACKWARD_REDUCE_DY,
    GP_NORM_RELU_BACKWARD_REDUCE_MEAN,
    GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE,
    GP_NORM_RELU_BACKWARD_REDUCE_GAMMA,
    GP_NORM_RELU_BACKWARD_REDUCE_BETA,
    GP_NORM_RELU_BACKWARD_REDUCE_SUMS
};
enum {
    GP_NORM_RELU_BACKWARD_DATA_X,
    GP_NORM_RELU_BACKWARD_DATA_DY,
    GP_NORM_RELU_BACKWARD_DATA_MEAN,
    GP_NORM_RELU_BACKWARD_DATA_VARIANCE,
    GP_NORM_RELU_BACKWARD_DATA_GAMMA,
    GP_NORM_RELU_BACKWARD_DATA_BETA,
    GP_NORM_RELU_BACKWARD_DATA_SUMS,
    GP_NORM_RELU_BACKWARD_DATA_DX
};
enum {
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_X,
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y,
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY,
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN,
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_VARIANCE,
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ,
    GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS
};
enum {
    GP_GROUP_NORM_FORWARD_X,
    GP_GROUP_NORM_FORWARD_GAMMA,
    GP_GROUP_NORM_FORWARD_BETA,
    GP_GROUP_NORM_FORWARD_Y,
    GP_GROUP_NORM_FORWARD_STATS
};
enum {
    GP_GROUP_NORM_BACKWARD_DATA_X,
    GP_GROUP_NORM_BACKWARD_DATA_DY,
    GP_GROUP_NORM_BACKWARD_DATA_STATS,
    GP_GROUP_NORM_BACKWARD_DATA_GAMMA,
    GP_GROUP_NORM_BACKWARD_DATA_DX
};
enum {
    GP_GROUP_NORM_BACKWARD_WEIGHTS_X,
    GP_GROUP_NORM_BACKWARD_WEIGHTS_DY,
    GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS,
    GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA,
    GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA
};
enum { GP_RELU_FORWARD_X, GP_RELU_FORWARD_Y };
enum { GP_RELU_BACKWARD_Y, GP_RELU_BACKWARD_DY, GP_RELU_BACKWARD_DX };
enum { GP_ACTIVATION_FORWARD_X, GP_ACTIVATION_FORWARD_Y };
enum { GP_ACTIVATION_BACKWARD_A, GP_ACTIVATION_BACKWARD_DY, GP_ACTIVATION_BACKWARD_DX };
enum { GP_MAX_POOL_FORWARD_X, GP_MAX_POOL_FORWARD_Y, GP_MAX_POOL_FORWARD_INDEX };
enum { GP_MAX_POOL_BACKWARD_INDEX, GP_MAX_POOL_BACKWARD_DY, GP_MAX_POOL_BACKWARD_DX };
enum { GP_AVG_POOL_FORWARD_X, GP_AVG_POOL_FORWARD_Y };
enum { GP_AVG_POOL_BACKWARD_DY, GP_AVG_POOL_BACKWARD_DX };
enum { GP_UPSAMPLE_FORWARD_X, GP_UPSAMPLE_FORWARD_Y };
enum { GP_UPSAMPLE_BACKWARD_DY, GP_UPSAMPLE_BACKWARD_DX };
enum { GP_MEAN_POOL_FORWARD_X, GP_MEAN_POOL_FORWARD_Y };
enum { GP_MEAN_POOL_BACKWARD_DY, GP_MEAN_POOL_BACKWARD_DX };
enum { GP_FLATTEN_X, GP_FLATTEN_Y }; /* unflatten likewise */
enum { GP_DROPOUT_X, GP_DROPOUT_SCALARS, GP_DROPOUT_Y };
enum { GP_ADD_A, GP_ADD_B, GP_ADD_Y };
enum { GP_COPY_X, GP_COPY_Y }; /* reorder likewise */
enum { GP_CROSS_ENTROPY_FORWARD_X, GP_CROSS_ENTROPY_FORWARD_TARGET, GP_CROSS_ENTROPY_FORWARD_PARTIAL };
enum {
    GP_CROSS_ENTROPY_BACKWARD_X,
    GP_CROSS_ENTROPY_BACKWARD_TARGET,
    GP_CROSS_ENTROPY_BACKWARD_SCALARS,
    GP_CROSS_ENTROPY_BACKWARD_DX
};
enum { GP_ELEMENT_LOSS_FORWARD_X, GP_ELEMENT_LOSS_FORWARD_TARGET, GP_ELEMENT_LOSS_FORWARD_PARTIAL };
enum {
    GP_ELEMENT_LOSS_BACKWARD_X,
    GP_ELEMENT_LOSS_BACKWARD_TARGET,
    GP_ELEMENT_LOSS_BACKWARD_SCALARS,
    GP_ELEMENT_LOSS_BACKWARD_DX
};
enum { GP_LOSS_TOTAL_PARTIAL, GP_LOSS_TOTAL_SCALARS };
enum { GP_NORM_COMMIT_SCALARS, GP_NORM_COMMIT_STATS, GP_NORM_COMMIT_MEAN, GP_NORM_COMMIT_VARIANCE };
enum { GP_SQUARE_SUM_X, GP_SQUARE_SUM_SUM };
enum { GP_CLIP_TOTAL_SQUARES, GP_CLIP_TOTAL_SCALARS };
enum { GP_SGD_SCALARS, GP_SGD_GRAD, GP_SGD_MOMENTUM, GP_SGD_PARAM };
enum { GP_ADAM_SCALARS, GP_ADAM_GRAD, GP_ADAM_M, GP_ADAM_V, GP_ADAM_PARAM };
enum { GP_FILL_Y };

/* A format of a device kind's own (a blocked layout of weights), by number; 0 is plain: dimensions and strides as the
 * tensor says. Equal numbers are equal layouts within one device kind. */
typedef uint32_t gp_format;
enum {
    GP_FORMAT_PLAIN = 0,
    GP_FORMAT_ANY =
        UINT32_MAX /* in a descriptor: the device may choose, and says in gp_prepared.operand what it chose */
};

enum { GP_TENSOR_MAX_RANK = 4 };

typedef struct gp_tensor {
    int32_t rank;     /* 0: this operand is absent, unless `present` (a number) */
    uint32_t present; /* 1 or 0 */
    gp_dtype dtype;
    gp_format format;
    int64_t dim[GP_TENSOR_MAX_RANK];
    int64_t stride[GP_TENSOR_MAX_RANK]; /* elements; the last is 1 */
} gp_tensor;

typedef struct gp_conv_attributes { /* [0] is height, [1] is width */
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t groups;
} gp_conv_attributes;

typedef struct gp_pool_attributes {
    int64_t kernel[2], stride[2], pad[2]; /* kernel[0]·kernel[1] ≤ GP_POOL_MAX_PLACES; pad ≤ kernel/2 */
    int64_t count_pad;                    /* avg_pool: 1 or 0; max_pool: 0 */
} gp_pool_attributes;

enum { GP_POOL_MAX_PLACES = INT32_MAX };

typedef struct gp_norm_attributes {
    double eps;
    double momentum;   /* norm_commit */
    int64_t rows_full; /* norm_commit: rows (n·h·w) of every micro-batch but the last */
    int64_t rows_last; /* norm_commit: rows of the last micro-batch */
} gp_norm_attributes;

typedef struct gp_group_norm_attributes {
    double eps;
    int64_t groups; /* divides the channels */
} gp_group_norm_attributes;

typedef enum gp_activation {
    GP_LEAKY_RELU, /* x where x > 0, else slope·x */
    GP_GELU,       /* x·Φ(x), Φ the normal distribution function */
    GP_GELU_TANH,  /* x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))) */
    GP_SILU,       /* x/(1 + e^−x) */
    GP_SIGMOID,    /* 1/(1 + e^−x) */
    GP_TANH,
    GP_ACTIVATIONS
} gp_activation;

typedef struct gp_activation_attributes {
    uint32_t function; /* gp_activation */
    uint32_t reserved;
    double slope; /* of leaky_relu; else 0 */
} gp_activation_attributes;

typedef struct gp_dropout_attributes {
    double p;      /* 0 ≤ p < 1: the share that is dropped */
    uint32_t node; /* index in the expanded graph */
    uint32_t purpose;
    uint32_t channels; /* 1: whole channels of a picture are dropped; 0: single elements */
    uint32_t reserved;
} gp_dropout_attributes;

typedef struct gp_clip_attributes {
    double max_norm; /* 0: the norm is found, and nothing is clipped */
} gp_clip_attributes;
typedef struct gp_cross_entropy_attributes {
    double smoothing; /* 0 … 1 */
    int64_t ignore;   /* the target that does not count */
} gp_cross_entropy_attributes;

typedef enum gp_element_loss { GP_ELEMENT_MSE, GP_ELEMENT_BCE_LOGITS, GP_ELEMENT_LOSSES } gp_element_loss;

typedef struct gp_element_loss_attributes {
    uint32_t function; /* gp_element_loss */
    uint32_t reserved;
} gp_element_loss_attributes;

typedef struct gp_sgd_attributes {
    double momentum; /* 0: no state */
    double decay;
    uint32_t nesterov;
    uint32_t reserved;
} gp_sgd_attributes;

typedef struct gp_adam_attributes {
    double beta1, beta2; /* 0 ≤ beta < 1 */
    double eps;
    double decay;
    uint32_t decoupled; /* 1: AdamW, the parameter shrinks by rate·decay; 0: the decay is added to the gradient */
    uint32_t reserved;
} gp_adam_attributes;

enum gp_op_flags {
    GP_OP_ACCUMULATE = 1, /* weight gradients: add to what they write instead of overwriting it */
    GP_OP_TF32 = 2 /* convolutions, products: their factors may be rounded to TF32 (10 bits) where that is faster */
};

typedef struct gp_op_desc {
    gp_op_kind kind;
    uint32_t flags;
    uint32_t threads; /* of the device: part of what is computed, since bits depend on it */
    uint32_t operands;
    gp_tensor operand[GP_MAX_OPERANDS];
    union {
        gp_conv_attributes conv;
        gp_pool_attributes pool;
        gp_norm_attributes norm;
        gp_group_norm_attributes group_norm;
        gp_activation_attributes activation;
        gp_dropout_attributes dropout;
        gp_clip_attributes clip;
        gp_cross_entropy_attributes cross_entropy;
        gp_element_loss_attributes element_loss;
        gp_sgd_attributes sgd;
        gp_adam_attributes adam;
    } attributes;
} gp_op_desc;

/* Numbers that change from step to step. One block per stage, in its arena; the worker writes it when a step starts
 * (but for the members from loss_sum on, which the last stage finds out and copies carry to the others). */
typedef struct gp_step_scalars {
    uint64_t seed;
    uint32_t step; /* from 1 */
    uint32_t reserved;
    double rate;    /* learning rate */
    double divisor; /* number of targets that count in the mini-batch; ≥ 1 */
    double loss_sum;
    double right;
    /* 1: the mini-batch's loss is finite, the update may be applied; 0 stays 0 until the host writes it. */
    uint64_t finite;
    double grad_norm; /* of all gradients together; 0 where nobody asked */
    double clip;      /* what updates multiply gradients by first; 1: nothing is clipped */
} gp_step_scalars;

/* What a device says of one operand. */
typedef struct gp_operand_storage {
    gp_format format;
    size_t bytes; /* of the whole operand in that format, strides included: from its first to its last element */
} gp_operand_storage;

/* A descriptor made ready by a device kind. Owned by the gp_op_cache that made it; immutable, so that any number of
 * threads may run one at the same time, each with its own workspace. */
typedef struct gp_prepared gp_prepared;
struct gp_prepared {
    gp_op_desc desc;
    uint32_t number;  /* among the ops of its cache, from 0 */
    size_t workspace; /* bytes, aligned to GP_ALIGNMENT; contents need not survive a run */
    gp_operand_storage operand[GP_MAX_OPERANDS];
    uint8_t in_place[GP_MAX_OPERANDS]; /* of a written operand: bit i set: it may have the address of read operand i */
    double flops;                      /* counted: multiplications and additions */
    double bytes;                      /* counted: read and written once */
    void *context;                     /* the device kind's own */
};

/* What changes from run to run of one prepared op. */
typedef struct gp_op_args {
    int64_t first_sample; /* place of the micro-batch's first sample in the mini-batch (dropout) */
} gp_op_args;

const char *gp_op_name(gp_op_kind kind);
/* The kind's operands, as in GP_OP_MAP. */
int gp_op_operand_count(gp_op_kind kind);
const char *gp_op_operand_name(gp_op_kind kind, int operand); /* static storage */
bool gp_op_reads(gp_op_kind kind, int operand);
bool gp_op_writes(gp_op_kind kind, int operand);
bool gp_op_optional(gp_op_kind kind, int operand);

/* Zeroes desc, padding included, and sets kind and operand count. */
void gp_op_desc_init(gp_op_desc *desc, gp_op_kind kind);
/* A plain contiguous tensor of `rank` dimensions, outermost first. rank 0 gives a present number. */
gp_tensor gp_tensor_plain(gp_dtype dtype, int rank, const int64_t *dim);
/* The tensor of n samples of a PyTorch-order sample shape: [C,h,w] → [n,h,w,C]; [t,w] → [n,t,w]; [w] → [n,w]; [] → [n].
 */
gp_tensor gp_tensor_samples(gp_dtype dtype, int64_t n, gp_shape sample);
/* The tensor of a parameter, in PyTorch's order. */
gp_tensor gp_tensor_param(gp_dtype dtype, gp_shape shape);
/* The tensor of a gp_step_scalars block, operand `scalars` of the ops that have it: u8 [sizeof(gp_step_scalars)]. */
gp_tensor gp_tensor_scalars(void);
/* Channels [first, first+count) of a tensor: the same strides, a smaller last dimension. Its address is that of the
 * whole plus `first` elements. */
gp_tensor gp_tensor_channels(gp_tensor whole, int64_t count);
/* Windows along one side, PyTorch's rule: rounded down, or up where `ceil`, but none that would begin in the padding
 * behind the input; below 1 where not even one fits. */
int64_t gp_pool_outputs(int64_t input, int64_t kernel, int64_t stride, int64_t pad, bool ceil);
/* Of max_pool's index: U8 where every place of the window fits one, else I32. */
gp_dtype gp_pool_index_dtype(const gp_pool_attributes *pool);
int64_t gp_tensor_elements(const gp_tensor *tensor);
/* All dimensions but the last, multiplied. */
int64_t gp_tensor_rows(const gp_tensor *tensor);
/* Bytes from the first to the last element of a plain tensor. */
size_t gp_tensor_bytes(const gp_tensor *tensor);
bool gp_tensor_contiguous(const gp_tensor *tensor);
bool gp_tensor_same_dims(const gp_tensor *a, const gp_tensor *b);
/* Checks what holds for every device: operands present, ranks, dimensions that fit each other, attributes in range.
 * GP_INTERNAL with the op's name and the rule where not. */
GP_MUST_USE gp_status gp_op_desc_check(const gp_op_desc *desc, gp_error *err);
/* Whether activation_backward of this function takes the output; else it takes the input. */
bool gp_activation_takes_output(gp_activation function);
/* Floating-point operations and bytes of a descriptor, counted from its shapes. */
void gp_op_count(const gp_op_desc *desc, double *flops, double *bytes);

#endif
