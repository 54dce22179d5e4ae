#include "device/rows.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

bool gp_rows_find(const gp_tensor *tensor, gp_rows *out) {
    gp_rows rows = {1, 1, 1};
    if (tensor->rank > 0) {
        rows.width = tensor->dim[tensor->rank - 1];
        rows.pitch = rows.width;
    }
    bool known = false; /* whether a dimension longer than 1 has told the pitch */
    for (int d = tensor->rank - 2; d >= 0; d--) {
        if (tensor->dim[d] == 1) continue;
        if (!known) {
            rows.pitch = tensor->stride[d];
            known = true;
        }
        if (tensor->stride[d] != rows.pitch * rows.count) return false;
        rows.count *= tensor->dim[d];
    }
    *out = rows;
    return true;
}

gp_rows gp_rows_of(const gp_tensor *tensor) {
    gp_rows rows = {0, 0, 0};
    bool found = gp_rows_find(tensor, &rows);
    assert(found);
    (void)found;
    return rows;
}

static bool dtype_fits(char letter, gp_dtype dtype) {
    switch (letter) {
    case 'f': return dtype == GP_F32;
    case 'd': return dtype == GP_F64;
    case 'l': return dtype == GP_I64;
    case 'i': return dtype == GP_U8 || dtype == GP_I32;
    case 's': return dtype == GP_U8;
    default: return letter == '*';
    }
}

gp_status gp_op_prepare_plain(gp_prepared *prepared, const char *device, const char *types, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (!tensor->present) continue;
        const char *name = gp_op_operand_name(desc->kind, i);
        gp_rows rows;
        if (!dtype_fits(types[i], tensor->dtype)) {
            return gp_fail(err, GP_UNSUPPORTED, "%s: %s does not take %s as its operand %s", device,
                           gp_op_name(desc->kind), gp_dtype_name(tensor->dtype), name);
        }
        if (tensor->format != GP_FORMAT_PLAIN && tensor->format != GP_FORMAT_ANY) {
            return gp_fail(err, GP_UNSUPPORTED, "%s: %s takes its operand %s in the plain format only, not in %u",
                           device, gp_op_name(desc->kind), name, tensor->format);
        }
        if (!gp_rows_find(tensor, &rows)) {
            return gp_fail(err, GP_UNSUPPORTED, "%s: %s: the rows of operand %s must have equal distances", device,
                           gp_op_name(desc->kind), name);
        }
        prepared->operand[i].format = GP_FORMAT_PLAIN;
        prepared->operand[i].bytes = gp_tensor_bytes(tensor);
    }
    return GP_OK;
}

void gp_op_allow_in_place(gp_prepared *prepared, int written, int read) {
    gp_rows to, from;
    const gp_tensor *tensor = prepared->desc.operand;
    if (!gp_rows_find(&tensor[written], &to) || !gp_rows_find(&tensor[read], &from)) return;
    if (tensor[written].dtype == tensor[read].dtype && memcmp(&to, &from, sizeof to) == 0)
        prepared->in_place[written] = (uint8_t)(prepared->in_place[written] | 1U << read);
}

size_t gp_op_book(gp_prepared *prepared, size_t bytes) {
    size_t offset = gp_align_up(prepared->workspace, GP_ALIGNMENT);
    prepared->workspace = offset + gp_align_up(bytes, GP_ALIGNMENT);
    return offset;
}
