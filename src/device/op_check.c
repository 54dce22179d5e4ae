/* Checks a descriptor: operands, dtypes, formats, dimensions. */
#include <string.h>

#include "base/memory.h"
#include "device/op_info.h"
#include "device/op_shape.h"

static bool all_zero(const void *bytes, size_t count) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++) {
        if (byte[i]) return false;
    }
    return true;
}

static gp_status check_head(const gp_op_desc *desc, gp_error *err) {
    if ((int)desc->kind < 0 || desc->kind >= GP_OP_KINDS) {
        return gp_fail(err, GP_INTERNAL, "op: %d is not a kind of op", (int)desc->kind);
    }
    if (desc->operands != (uint32_t)gp_op_operand_count(desc->kind)) {
        return gp_op_refuse(desc, err, "%u operands where it takes %d", desc->operands,
                            gp_op_operand_count(desc->kind));
    }
    if (desc->flags & ~(uint32_t)(GP_OP_ACCUMULATE | GP_OP_TF32)) {
        return gp_op_refuse(desc, err, "unknown flags 0x%x", desc->flags);
    }
    unsigned flags = gp_op_info_of(desc->kind)->flags;
    if ((desc->flags & GP_OP_ACCUMULATE) && !(flags & GP_OP_ACCUMULATES)) {
        return gp_op_refuse(desc, err, "accumulates, which only gradients of weights can");
    }
    if ((desc->flags & GP_OP_TF32) && !(flags & GP_OP_PRODUCT)) {
        return gp_op_refuse(desc, err, "may round to TF32, which only convolutions and products can");
    }
    return GP_OK;
}

/* Descriptors are compared by their bytes: what has no meaning has to be zero, or equal ops would differ. */
static gp_status check_unused_bytes(const gp_op_desc *desc, gp_error *err) {
    size_t unused_operands = GP_MAX_OPERANDS - desc->operands;
    if (!all_zero(&desc->operand[desc->operands], unused_operands * sizeof desc->operand[0])) {
        return gp_op_refuse(desc, err, "operands after its last are not zero");
    }
    size_t used = gp_op_info_of(desc->kind)->attributes;
    if (!all_zero((const char *)&desc->attributes + used, sizeof desc->attributes - used)) {
        return gp_op_refuse(desc, err, "attributes that it does not have are not zero");
    }
    return GP_OK;
}

static gp_status check_absent(const gp_op_desc *desc, int i, gp_error *err) {
    const char *name = gp_op_operand_name(desc->kind, i);
    if (!gp_op_optional(desc->kind, i)) return gp_op_refuse(desc, err, "operand %s is absent", name);
    if (!all_zero(&desc->operand[i], sizeof desc->operand[i])) {
        return gp_op_refuse(desc, err, "operand %s is absent but not zero", name);
    }
    return GP_OK;
}

/* Elements must not overlap, and their distances in bytes must fit ptrdiff_t. */
static gp_status check_extent(const gp_op_desc *desc, int i, gp_error *err) {
    const char *name = gp_op_operand_name(desc->kind, i);
    const gp_tensor *tensor = &desc->operand[i];
    int64_t extent = 1; /* elements from the first to the last, of the dimensions seen so far */
    for (int d = tensor->rank - 1; d >= 0; d--) {
        if (tensor->dim[d] < 1) {
            return gp_op_refuse(desc, err, "dimension %d of %s is %lld, which must be at least 1", d, name,
                                (long long)tensor->dim[d]);
        }
        bool last = d == tensor->rank - 1;
        if (last ? tensor->stride[d] != 1 : tensor->stride[d] < extent) {
            return gp_op_refuse(desc, err, "stride %lld of dimension %d of %s %s", (long long)tensor->stride[d], d,
                                name, last ? "must be 1" : "makes its elements overlap");
        }
        int64_t step;
        if (!gp_int64_mul(tensor->dim[d] - 1, tensor->stride[d], &step) || !gp_int64_add(extent, step, &extent)) {
            return gp_op_refuse(desc, err, "%s is too large", name);
        }
    }
    int64_t bytes;
    if (!gp_int64_mul(extent, (int64_t)gp_dtype_size(tensor->dtype), &bytes)) {
        return gp_op_refuse(desc, err, "%s is too large", name);
    }
    return GP_OK;
}

static gp_status check_present(const gp_op_desc *desc, int i, gp_error *err) {
    const char *name = gp_op_operand_name(desc->kind, i);
    const gp_tensor *tensor = &desc->operand[i];
    if (tensor->present != 1) return gp_op_refuse(desc, err, "presence of %s is %u", name, tensor->present);
    if (tensor->rank < 0 || tensor->rank > GP_TENSOR_MAX_RANK) {
        return gp_op_refuse(desc, err, "rank of %s is %d, which must be 0 to %d", name, tensor->rank,
                            GP_TENSOR_MAX_RANK);
    }
    if (gp_dtype_size(tensor->dtype) == 0) {
        return gp_op_refuse(desc, err, "%d is not a dtype, in %s", (int)tensor->dtype, name);
    }
    for (int d = tensor->rank; d < GP_TENSOR_MAX_RANK; d++) {
        if (tensor->dim[d] || tensor->stride[d]) {
            return gp_op_refuse(desc, err, "dimension %d of %s is beyond its rank %d and not zero", d, name,
                                tensor->rank);
        }
    }
    return check_extent(desc, i, err);
}

static gp_status check_format(const gp_op_desc *desc, int i, gp_error *err) {
    const gp_op_info *info = gp_op_info_of(desc->kind);
    const gp_tensor *tensor = &desc->operand[i];
    const char *name = info->operand[i].name;
    bool weights = info->operand[i].type == GP_OPERAND_WEIGHTS, moves = info->flags & GP_OP_FORMATS;
    if (tensor->format == GP_FORMAT_PLAIN) return GP_OK;
    if (tensor->format == GP_FORMAT_ANY) {
        return weights ? GP_OK : gp_op_refuse(desc, err, "%s has an open format, which only weights may have", name);
    }
    if (!weights && !moves) return gp_op_refuse(desc, err, "%s must be plain", name);
    if (!gp_tensor_contiguous(tensor)) return gp_op_refuse(desc, err, "%s is neither plain nor contiguous", name);
    if (desc->kind != GP_OP_REORDER && moves && tensor->format != desc->operand[0].format) {
        return gp_op_refuse(desc, err, "formats %u of %s and %u of %s differ", tensor->format, name,
                            desc->operand[0].format, info->operand[0].name);
    }
    return GP_OK;
}

static gp_status check_fixed_dtype(const gp_op_desc *desc, int i, gp_operand_type type, gp_error *err) {
    const gp_dtype fixed[] = {[GP_OPERAND_INDEX] = gp_pool_index_dtype(&desc->attributes.pool),
                              [GP_OPERAND_I64] = GP_I64,
                              [GP_OPERAND_F64] = GP_F64,
                              [GP_OPERAND_SCALARS] = GP_U8};
    const gp_tensor *tensor = &desc->operand[i], scalars = gp_tensor_scalars();
    if (tensor->dtype != fixed[type]) {
        return gp_op_refuse(desc, err, "%s is %s, which must be %s", gp_op_operand_name(desc->kind, i),
                            gp_dtype_name(tensor->dtype), gp_dtype_name(fixed[type]));
    }
    if (type == GP_OPERAND_SCALARS && memcmp(tensor, &scalars, sizeof scalars) != 0) {
        return gp_op_refuse(desc, err, "scalars must be u8 [%zu]", sizeof(gp_step_scalars));
    }
    return GP_OK;
}

/* All real operands of an op have one dtype, in which it computes; ops that only move bytes take any. */
static gp_status check_dtypes(const gp_op_desc *desc, gp_error *err) {
    int first = -1;
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        const gp_operand_info *operand = &gp_op_info_of(desc->kind)->operand[i];
        if (!tensor->present) continue;
        if (operand->type >= GP_OPERAND_INDEX) {
            GP_RETURN_IF_FAILED(check_fixed_dtype(desc, i, operand->type, err));
            continue;
        }
        if (operand->type != GP_OPERAND_ANY && !gp_dtype_is_real(tensor->dtype)) {
            return gp_op_refuse(desc, err, "%s is %s, which must be F32, F64, BF16 or F16", operand->name,
                                gp_dtype_name(tensor->dtype));
        }
        if (first < 0) first = i;
        if (tensor->dtype != desc->operand[first].dtype) {
            return gp_op_refuse(desc, err, "%s is %s and %s is %s, which must be equal", operand->name,
                                gp_dtype_name(tensor->dtype), gp_op_operand_name(desc->kind, first),
                                gp_dtype_name(desc->operand[first].dtype));
        }
    }
    return GP_OK;
}

gp_status gp_op_desc_check(const gp_op_desc *desc, gp_error *err) {
    GP_RETURN_IF_FAILED(check_head(desc, err));
    GP_RETURN_IF_FAILED(check_unused_bytes(desc, err));
    for (int i = 0; i < (int)desc->operands; i++) {
        bool present = desc->operand[i].present;
        GP_RETURN_IF_FAILED(present ? check_present(desc, i, err) : check_absent(desc, i, err));
    }
    GP_RETURN_IF_FAILED(check_dtypes(desc, err));
    for (int i = 0; i < (int)desc->operands; i++) {
        if (desc->operand[i].present) GP_RETURN_IF_FAILED(check_format(desc, i, err));
    }
    gp_op_sizes sizes;
    GP_RETURN_IF_FAILED(gp_op_sizes_take(desc, &sizes, err));
    GP_RETURN_IF_FAILED(gp_op_apply_rule(desc, &sizes, err));
    return gp_op_sizes_check(desc, &sizes, err);
}
