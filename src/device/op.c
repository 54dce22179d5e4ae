#include "device/op.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "device/op_info.h"

/* How the table writes access, type and flags. */
enum {
    IN = GP_OPERAND_READ,
    OVER = GP_OPERAND_READ | GP_OPERAND_REPLACED,
    OUT = GP_OPERAND_WRITTEN,
    UPDATE = GP_OPERAND_READ | GP_OPERAND_WRITTEN,
    MAYBE_IN = IN | GP_OPERAND_OPTIONAL,
    MAYBE_OVER = OVER | GP_OPERAND_OPTIONAL,
    MAYBE_OUT = OUT | GP_OPERAND_OPTIONAL,
    MAYBE_UPDATE = UPDATE | GP_OPERAND_OPTIONAL
};
enum { ACCUMULATES = GP_OP_ACCUMULATES, PRODUCT = GP_OP_PRODUCT, FORMATS = GP_OP_FORMATS };

#define NAME_TEXT(NAME, name) static const char text_##NAME[] = #name;
GP_OPERAND_NAMES(NAME_TEXT)

#define OPERAND(context, operand) OPERAND_OF operand,
#define OPERAND_OF(NAME, access, type, shape)                                                                          \
    { text_##NAME, GP_NAME_##NAME, (access), GP_OPERAND_##type, shape }
#define BYTES(attributes) BYTES_##attributes = sizeof(gp_##attributes##_attributes),
enum { BYTES_none = 0, GP_ATTRIBUTES_MAP(BYTES) };
#define GP_OP(NAME, name_, attributes_, rule, flags_, operations, of, gradients, meaning, ...)                         \
    [GP_OP_##NAME] = {.name = #name_,                                                                                  \
                      .attributes = BYTES_##attributes_,                                                               \
                      .flags = flags_,                                                                                 \
                      .operands = GP_EACH_COUNT(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),   \
                      .operand = {GP_EACH(OPERAND, , __VA_ARGS__)}},
static const gp_op_info table[GP_OP_KINDS] = {
#include "device/op_table.inc"
};
const gp_op_info *gp_op_info_of(gp_op_kind kind) {
    assert((int)kind >= 0 && kind < GP_OP_KINDS);
    return &table[kind];
}

static const gp_operand_info *operand_of(gp_op_kind kind, int operand) {
    const gp_op_info *info = gp_op_info_of(kind);
    assert(operand >= 0 && operand < info->operands);
    return &info->operand[operand];
}

const char *gp_op_name(gp_op_kind kind) {
    return gp_op_info_of(kind)->name;
}

int gp_op_operand_count(gp_op_kind kind) {
    return gp_op_info_of(kind)->operands;
}

const char *gp_op_operand_name(gp_op_kind kind, int operand) {
    return operand_of(kind, operand)->name;
}

gp_operand_name gp_op_operand_named(gp_op_kind kind, int operand) {
    return operand_of(kind, operand)->named;
}

bool gp_op_reads(gp_op_kind kind, int operand) {
    return operand_of(kind, operand)->access & GP_OPERAND_READ;
}

bool gp_op_writes(gp_op_kind kind, int operand) {
    return operand_of(kind, operand)->access & GP_OPERAND_WRITTEN;
}

bool gp_op_optional(gp_op_kind kind, int operand) {
    return operand_of(kind, operand)->access & GP_OPERAND_OPTIONAL;
}

void gp_op_desc_init(gp_op_desc *desc, gp_op_kind kind) {
    memset(desc, 0, sizeof *desc);
    desc->kind = kind;
    desc->operands = (uint32_t)gp_op_operand_count(kind);
}

size_t gp_op_desc_bytes(const gp_op_desc *desc) {
    return offsetof(gp_op_desc, operand) + desc->operands * sizeof desc->operand[0];
}

/* Too large a tensor is refused by gp_op_desc_check; until then its numbers stand still at the end of the range. */
static int64_t multiply(int64_t a, int64_t b) {
    int64_t product;
    return gp_int64_mul(a, b, &product) ? product : INT64_MAX;
}

bool gp_activation_takes_output(gp_activation function) {
    return function == GP_SIGMOID || function == GP_TANH;
}

gp_tensor gp_tensor_plain(gp_dtype dtype, int rank, const int64_t *dim) {
    assert(rank >= 0 && rank <= GP_TENSOR_MAX_RANK);
    gp_tensor tensor = {.rank = rank, .present = 1, .dtype = dtype, .format = GP_FORMAT_PLAIN};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        tensor.dim[d] = dim[d];
        tensor.stride[d] = stride;
        stride = multiply(stride, dim[d]);
    }
    return tensor;
}

gp_tensor gp_tensor_samples(gp_dtype dtype, int64_t n, gp_shape sample) {
    assert(sample.rank >= 0 && sample.rank < GP_TENSOR_MAX_RANK);
    if (sample.rank == 3) {
        return gp_tensor_plain(dtype, 4, (const int64_t[]){n, sample.dim[1], sample.dim[2], sample.dim[0]});
    }
    return gp_tensor_plain(dtype, sample.rank + 1, (const int64_t[]){n, sample.dim[0], sample.dim[1]});
}

gp_tensor gp_tensor_param(gp_dtype dtype, gp_shape shape) {
    return gp_tensor_plain(dtype, shape.rank, shape.dim);
}

gp_tensor gp_tensor_scalars(void) {
    return gp_tensor_plain(GP_U8, 1, (const int64_t[]){sizeof(gp_step_scalars)});
}

gp_tensor gp_tensor_channels(gp_tensor whole, int64_t count) {
    assert(whole.rank > 0 && count >= 1 && count <= whole.dim[whole.rank - 1]);
    whole.dim[whole.rank - 1] = count;
    return whole;
}

int64_t gp_pool_outputs(int64_t input, int64_t kernel, int64_t stride, int64_t pad, bool ceil) {
    int64_t spare = input + 2 * pad - kernel + (ceil ? stride - 1 : 0);
    if (spare < 0) return 0;
    int64_t outputs = spare / stride + 1;
    return ceil && (outputs - 1) * stride >= input + pad ? outputs - 1 : outputs;
}

gp_dtype gp_pool_index_dtype(const gp_pool_attributes *pool) {
    return multiply(pool->kernel[0], pool->kernel[1]) <= UINT8_MAX + 1 ? GP_U8 : GP_I32;
}

int64_t gp_tensor_elements(const gp_tensor *tensor) {
    if (!tensor->present) return 0;
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) elements = multiply(elements, tensor->dim[d]);
    return elements;
}

int64_t gp_tensor_rows(const gp_tensor *tensor) {
    if (!tensor->present) return 0;
    int64_t rows = 1;
    for (int d = 0; d < tensor->rank - 1; d++) rows = multiply(rows, tensor->dim[d]);
    return rows;
}

size_t gp_tensor_bytes(const gp_tensor *tensor) {
    if (!tensor->present) return 0;
    size_t last = 0;
    for (int d = 0; d < tensor->rank; d++) {
        size_t step;
        if (!gp_size_mul((size_t)(tensor->dim[d] - 1), (size_t)tensor->stride[d], &step)) return SIZE_MAX;
        if (!gp_size_add(last, step, &last)) return SIZE_MAX;
    }
    size_t bytes;
    if (!gp_size_add(last, 1, &last)) return SIZE_MAX;
    return gp_size_mul(last, gp_dtype_size(tensor->dtype), &bytes) ? bytes : SIZE_MAX;
}

bool gp_tensor_contiguous(const gp_tensor *tensor) {
    int64_t stride = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        if (tensor->dim[d] != 1 && tensor->stride[d] != stride) return false;
        stride = multiply(stride, tensor->dim[d]);
    }
    return true;
}

bool gp_tensor_same_dims(const gp_tensor *a, const gp_tensor *b) {
    if (a->present != b->present || a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++) {
        if (a->dim[d] != b->dim[d]) return false;
    }
    return true;
}
