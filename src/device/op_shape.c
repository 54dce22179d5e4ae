#include "device/op_shape.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/op_info.h"

gp_status gp_op_refuse(const gp_op_desc *desc, gp_error *err, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gp_fail(err, GP_INTERNAL, "op %s: %s", gp_op_name(desc->kind), text);
}

const char *gp_op_dims_text(char buffer[GP_SHAPE_TEXT], const gp_tensor *tensor) {
    gp_shape shape = {.rank = tensor->rank};
    for (int d = 0; d < tensor->rank; d++) shape.dim[d] = tensor->dim[d];
    return gp_shape_text(buffer, shape);
}

static bool sets_sizes(const char *shape) {
    while (*shape && *shape != '*' && !islower((unsigned char)*shape)) shape++;
    return *shape != 0;
}

static gp_status check_rank(const gp_op_desc *desc, int i, int least, int most, gp_error *err) {
    const char *name = gp_op_operand_name(desc->kind, i);
    int rank = desc->operand[i].rank;
    if (rank >= least && rank <= most) return GP_OK;
    if (least == most) return gp_op_refuse(desc, err, "rank of %s is %d, which must be %d", name, rank, least);
    return gp_op_refuse(desc, err, "rank of %s is %d, which must be %d to %d", name, rank, least, most);
}

static gp_status take_operand(const gp_op_desc *desc, int i, const char *shape, gp_op_sizes *out, gp_error *err) {
    const gp_tensor *tensor = &desc->operand[i];
    bool open = strchr(shape, '*') != NULL;
    int single = (int)strlen(shape) - open;
    GP_RETURN_IF_FAILED(check_rank(desc, i, single, open ? GP_TENSOR_MAX_RANK : single, err));
    int d = 0;
    for (; *shape; shape++) {
        if (*shape == '*') {
            out->rest.rank = tensor->rank - single;
            for (int r = 0; r < out->rest.rank; r++) out->rest.dim[r] = tensor->dim[d++];
        } else {
            if (islower((unsigned char)*shape)) *gp_op_size(out, *shape) = tensor->dim[d];
            d++;
        }
    }
    return GP_OK;
}

gp_status gp_op_sizes_take(const gp_op_desc *desc, gp_op_sizes *out, gp_error *err) {
    const gp_op_info *info = gp_op_info_of(desc->kind);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < info->operands; i++) {
        const char *shape = info->operand[i].shape;
        if (desc->operand[i].present && sets_sizes(shape)) GP_RETURN_IF_FAILED(take_operand(desc, i, shape, out, err));
    }
    return GP_OK;
}

static gp_tensor expected_tensor(const char *shape, const gp_op_sizes *sizes) {
    gp_tensor expected = {.present = 1};
    for (; *shape; shape++) {
        if (*shape == '*' || *shape == '&') {
            for (int r = 0; r < sizes->rest.rank; r++) expected.dim[expected.rank++] = sizes->rest.dim[r];
        } else {
            bool digit = isdigit((unsigned char)*shape);
            expected.dim[expected.rank++] = digit ? *shape - '0' : sizes->of[(*shape | ' ') - 'a'];
        }
    }
    return expected;
}

gp_status gp_op_sizes_check(const gp_op_desc *desc, const gp_op_sizes *sizes, gp_error *err) {
    const gp_op_info *info = gp_op_info_of(desc->kind);
    for (int i = 0; i < info->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (!tensor->present || info->operand[i].shape[0] == '?') continue;
        gp_tensor expected = expected_tensor(info->operand[i].shape, sizes);
        if (gp_tensor_same_dims(tensor, &expected)) continue;
        char is[GP_SHAPE_TEXT], must[GP_SHAPE_TEXT];
        return gp_op_refuse(desc, err, "%s is %s, which must be %s", info->operand[i].name, gp_op_dims_text(is, tensor),
                            gp_op_dims_text(must, &expected));
    }
    return GP_OK;
}
