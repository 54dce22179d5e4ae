/* What an op is: the vocabulary between layers, which ask for computations, and devices, which do them.
 *
 * A layer lowers its passes to descriptors (gp_op_desc). At plan time a device kind turns a descriptor into a prepared
 * op (gp_prepared), which has stated its workspace, the storage that it wants for each operand, and what it can do in
 * place. At run time a device runs it on a stream with addresses. Layers know no device; devices know no layer.
 *
 * Tensors are written in the order of memory: pictures [n,h,w,c], token rows [n,t,w], vectors [n,w]; the last dimension
 * is contiguous, the others have strides in elements, so that a slice of channels is a tensor too. Parameters stand in
 * PyTorch's order: conv [out,in/groups,kh,kw], linear [out,in]; they may have a format of the device's own instead.
 *
 * Descriptors are plain data, compared and hashed by their first gp_op_desc_bytes: zero-initialise them, padding
 * included (gp_op_desc_init). The same descriptor gives the same kernel and so the same bits, whatever stands beside
 * it.
 *
 * Descriptors and tensors are plain values of the caller; prepared ops belong to a gp_op_cache. Any thread.
 */
#ifndef GP_DEVICE_OP_H
#define GP_DEVICE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/share.h"
#include "base/shape.h"
#include "base/status.h"
#include "device/op_each.h"

enum { GP_MAX_OPERANDS = 16 };

/* The ops and their operands: op_table.inc, which is also the list of what they compute. */
typedef enum gp_op_kind {
#define GP_OP(NAME, ...) GP_OP_##NAME,
#include "device/op_table.inc"
    GP_OP_KINDS
} gp_op_kind;

/* Positions of operands in gp_op_desc.operand, by op: GP_<OP>_<OPERAND>. */
#define GP_POSITION(OP, operand)                    GP_POSITION_NAMED(OP, GP_POSITION_NAME operand),
#define GP_POSITION_NAME(NAME, access, type, shape) NAME
#define GP_POSITION_NAMED(OP, NAME)                 GP_POSITION_JOINED(OP, NAME)
#define GP_POSITION_JOINED(OP, NAME)                GP_##OP##_##NAME
#define GP_OP(NAME, name, attributes, rule, flags, operations, of, gradients, meaning, ...)                            \
    enum { GP_EACH(GP_POSITION, NAME, __VA_ARGS__) };
#include "device/op_table.inc"

/* All names of operands. What several ops share finds its operands by name, wherever they stand; an op has at most one
 * of each. */
/* clang-format off */
#define GP_OPERAND_NAMES(EACH)                                                                                         \
    EACH(A, a) EACH(B, b) EACH(X, x) EACH(Y, y) EACH(W, w) EACH(DX, dx) EACH(DY, dy) EACH(DZ, dz) EACH(DW, dw)         \
    EACH(DB, db) EACH(STATS, stats) EACH(MEAN, mean) EACH(VARIANCE, variance) EACH(SUMS, sums) EACH(GAMMA, gamma)      \
    EACH(BETA, beta) EACH(DGAMMA, dgamma) EACH(DBETA, dbeta) EACH(ADDEND, addend) EACH(INDEX, index)                   \
    EACH(TARGET, target) EACH(PARTIAL, partial) EACH(PARTS, parts) EACH(SCALARS, scalars) EACH(SQUARES, squares) EACH(SUM, sum)           \
    EACH(GRAD, grad) EACH(MOMENTUM, momentum) EACH(M, m) EACH(V, v) EACH(PARAM, param)
/* clang-format on */

typedef enum gp_operand_name {
    GP_NAME_NONE, /* no operand's */
#define GP_NAMED(NAME, name) GP_NAME_##NAME,
    GP_OPERAND_NAMES(GP_NAMED)
#undef GP_NAMED
        GP_NAMES
} gp_operand_name;

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
    int64_t rows_full; /* norm_commit: rows (n·h·w) of every micro-batch but the last; norm_merge: likewise of parts */
    int64_t rows_last; /* norm_commit: rows of the last micro-batch; norm_merge: of the last part */
    /* norm_commit, if replicas share the samples of each micro-batch (base/share.h): how many replicas, each of which
     * has a piece, and how many rows a sample has. 0: one replica. */
    int64_t replicas, rows_sample;
    int64_t rows_summed; /* norm_backward_data, norm_relu_backward_data: rows that `sums` are over; 0: those of x */
} gp_norm_attributes;

/* Rows of a piece of norm_commit, out of `pieces`: by micro-batch, then replica. Of a part of norm_merge. */
static inline int64_t gp_norm_rows(const gp_norm_attributes *norm, int64_t pieces, int64_t piece) {
    int64_t replicas = norm->replicas > 1 ? norm->replicas : 1;
    int64_t rows = piece / replicas == pieces / replicas - 1 ? norm->rows_last : norm->rows_full;
    if (replicas == 1) return rows;
    return gp_share_of(rows / norm->rows_sample, (int)replicas, (int)(piece % replicas)).count * norm->rows_sample;
}

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

typedef struct gp_blocks_attributes {
    int64_t elements; /* of each block but the last */
} gp_blocks_attributes;

typedef struct gp_clip_attributes {
    double max_norm; /* 0: the norm is found, and nothing is clipped */
} gp_clip_attributes;
/* loss_total, if replicas share the samples of each micro-batch: partials stand by micro-batch, then replica, and only
 * the first replicas have one. All 0: all are there. */
typedef struct gp_loss_total_attributes {
    int64_t replicas;
    int64_t full, last; /* partials of every micro-batch but the last; of the last */
} gp_loss_total_attributes;

/* Whether a partial is there, out of `pieces`. */
static inline bool gp_loss_total_has(const gp_loss_total_attributes *total, int64_t pieces, int64_t piece) {
    if (total->replicas == 0) return true;
    bool last = piece / total->replicas == pieces / total->replicas - 1;
    return piece % total->replicas < (last ? total->last : total->full);
}

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

/* The structs above, by the name that a row of op_table.inc gives. */
#define GP_ATTRIBUTES_MAP(X)                                                                                           \
    X(conv)                                                                                                            \
    X(pool)                                                                                                            \
    X(norm)                                                                                                            \
    X(group_norm)                                                                                                      \
    X(activation) X(dropout) X(blocks) X(clip) X(cross_entropy) X(element_loss) X(loss_total) X(sgd) X(adam)

enum gp_op_flags {
    GP_OP_ACCUMULATE = 1, /* weight gradients: add to what they write instead of overwriting it */
    GP_OP_TF32 = 2 /* convolutions, products: their factors may be rounded to TF32 (10 bits) where that is faster */
};

typedef union gp_op_attributes {
#define GP_ATTRIBUTES_MEMBER(name) gp_##name##_attributes name;
    GP_ATTRIBUTES_MAP(GP_ATTRIBUTES_MEMBER)
#undef GP_ATTRIBUTES_MEMBER
} gp_op_attributes;

typedef struct gp_op_desc {
    gp_op_kind kind;
    uint32_t flags;
    uint32_t threads; /* of the device: part of what is computed, since bits depend on it */
    uint32_t operands;
    gp_op_attributes attributes;
    gp_tensor operand[GP_MAX_OPERANDS]; /* last: gp_op_desc_bytes */
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
    double grad_norm; /* of all gradients together; 0: not asked for */
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
    uint16_t in_place[GP_MAX_OPERANDS]; /* of a written operand: bit i set: it may have the address of read operand i */
    double flops;                       /* counted: multiplications and additions */
    double bytes;                       /* counted: read and written once */
    double effort;                      /* of gp_device_kind: counted costs have effort · flops operations */
    void *context;                      /* the device kind's own */
};

/* What changes from run to run of one prepared op. */
typedef struct gp_op_args {
    int64_t first_sample; /* place of the micro-batch's first sample in the mini-batch (dropout) */
} gp_op_args;

const char *gp_op_name(gp_op_kind kind);
/* The kind's operands, as in op_table.inc. */
int gp_op_operand_count(gp_op_kind kind);
const char *gp_op_operand_name(gp_op_kind kind, int operand); /* static storage */
gp_operand_name gp_op_operand_named(gp_op_kind kind, int operand);
bool gp_op_reads(gp_op_kind kind, int operand);
bool gp_op_writes(gp_op_kind kind, int operand);
bool gp_op_optional(gp_op_kind kind, int operand);

/* Zeroes desc, padding included, and sets kind and operand count. */
void gp_op_desc_init(gp_op_desc *desc, gp_op_kind kind);
/* Bytes of desc that say something: to the end of its last operand. */
size_t gp_op_desc_bytes(const gp_op_desc *desc);
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
