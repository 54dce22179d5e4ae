#include "device/rows.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "device/op_info.h"

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

gp_status gp_op_prepare_plain(gp_prepared *prepared, const char *device, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const gp_op_info *info = gp_op_info_of(desc->kind);
    for (int i = 0; i < info->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        gp_rows rows;
        if (!tensor->present) continue;
        if (info->operand[i].type <= GP_OPERAND_WEIGHTS && tensor->dtype != GP_F32) {
            return gp_fail(err, GP_UNSUPPORTED, "%s: %s does not take %s as its operand %s", device, info->name,
                           gp_dtype_name(tensor->dtype), info->operand[i].name);
        }
        if (tensor->format != GP_FORMAT_PLAIN && tensor->format != GP_FORMAT_ANY) {
            return gp_fail(err, GP_UNSUPPORTED, "%s: %s takes its operand %s in the plain format only, not in %u",
                           device, info->name, info->operand[i].name, tensor->format);
        }
        if (!gp_rows_find(tensor, &rows)) {
            return gp_fail(err, GP_UNSUPPORTED, "%s: %s: the rows of operand %s must have equal distances", device,
                           info->name, info->operand[i].name);
        }
        prepared->operand[i] = (gp_operand_storage){GP_FORMAT_PLAIN, gp_tensor_bytes(tensor)};
    }
    gp_op_allow_in_place(prepared);
    return GP_OK;
}

static bool lie_alike(const gp_tensor *a, const gp_tensor *b) {
    gp_rows rows_a, rows_b;
    return a->dtype == b->dtype && gp_tensor_same_dims(a, b) && gp_rows_find(a, &rows_a) && gp_rows_find(b, &rows_b) &&
           memcmp(&rows_a, &rows_b, sizeof rows_a) == 0;
}

void gp_op_allow_in_place(gp_prepared *prepared) {
    const gp_op_info *info = gp_op_info_of(prepared->desc.kind);
    const gp_tensor *tensor = prepared->desc.operand;
    int written = 0;
    while (!(info->operand[written].access & GP_OPERAND_WRITTEN)) written++;
    for (int read = 0; read < info->operands; read++) {
        if (info->operand[read].access & GP_OPERAND_REPLACED && lie_alike(&tensor[written], &tensor[read]))
            prepared->in_place[written] = (uint16_t)(prepared->in_place[written] | 1U << read);
    }
}

size_t gp_op_book(gp_prepared *prepared, size_t bytes) {
    size_t offset = gp_align_up(prepared->workspace, GP_ALIGNMENT);
    prepared->workspace = offset + gp_align_up(bytes, GP_ALIGNMENT);
    return offset;
}
