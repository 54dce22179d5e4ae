#include "device/cpu/cpu_call.h"

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

gp_status gp_cpu_prepare_plain(gp_prepared *prepared, const char *types, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (!tensor->present) continue;
        const char *name = gp_op_operand_name(desc->kind, i);
        gp_rows rows;
        if (!dtype_fits(types[i], tensor->dtype)) {
            return gp_fail(err, GP_UNSUPPORTED, "cpu: %s does not take %s as its operand %s", gp_op_name(desc->kind),
                           gp_dtype_name(tensor->dtype), name);
        }
        if (tensor->format != GP_FORMAT_PLAIN && tensor->format != GP_FORMAT_ANY) {
            return gp_fail(err, GP_UNSUPPORTED, "cpu: %s takes its operand %s in the plain format only, not in %u",
                           gp_op_name(desc->kind), name, tensor->format);
        }
        if (!gp_rows_find(tensor, &rows)) {
            return gp_fail(err, GP_UNSUPPORTED, "cpu: %s: the rows of operand %s do not lie at one distance",
                           gp_op_name(desc->kind), name);
        }
        prepared->operand[i].format = GP_FORMAT_PLAIN;
        prepared->operand[i].bytes = gp_tensor_bytes(tensor);
    }
    return GP_OK;
}

void gp_cpu_allow_in_place(gp_prepared *prepared, int written, int read) {
    gp_rows to, from;
    const gp_tensor *tensor = prepared->desc.operand;
    if (!gp_rows_find(&tensor[written], &to) || !gp_rows_find(&tensor[read], &from)) return;
    if (tensor[written].dtype == tensor[read].dtype && memcmp(&to, &from, sizeof to) == 0)
        prepared->in_place[written] = (uint8_t)(prepared->in_place[written] | 1U << read);
}

size_t gp_cpu_book(gp_prepared *prepared, size_t bytes) {
    size_t offset = gp_align_up(prepared->workspace, GP_ALIGNMENT);
    prepared->workspace = offset + gp_align_up(bytes, GP_ALIGNMENT);
    return offset;
}

typedef struct span_loop {
    gp_cpu_span span;
    const void *context;
    float *base[GP_SPAN_OPERANDS];
    gp_rows rows[GP_SPAN_OPERANDS];
    int64_t width;
} span_loop;

static void span_elements(void *context, int64_t begin, int64_t end) {
    const span_loop *loop = context;
    float *at[GP_SPAN_OPERANDS];
    for (int i = 0; i < GP_SPAN_OPERANDS; i++) at[i] = loop->base[i] ? loop->base[i] + begin : NULL;
    loop->span(loop->context, at, end - begin);
}

static void span_rows(void *context, int64_t begin, int64_t end) {
    const span_loop *loop = context;
    for (int64_t row = begin; row < end; row++) {
        float *at[GP_SPAN_OPERANDS];
        for (int i = 0; i < GP_SPAN_OPERANDS; i++)
            at[i] = loop->base[i] ? loop->base[i] + row * loop->rows[i].pitch : NULL;
        loop->span(loop->context, at, loop->width);
    }
}

void gp_cpu_spans(const gp_cpu_call *call, const int operand[3], gp_cpu_span span, const void *context) {
    gp_cpu_spans_of_four(call, (const int[]){operand[0], operand[1], operand[2], -1}, span, context);
}

void gp_cpu_spans_of_four(const gp_cpu_call *call, const int operand[4], gp_cpu_span span, const void *context) {
    span_loop loop = {.span = span, .context = context};
    bool dense = true;
    int64_t count = 0;
    for (int i = 0; i < GP_SPAN_OPERANDS; i++) {
        if (operand[i] < 0) continue;
        loop.base[i] = call->operand[operand[i]];
        loop.rows[i] = gp_cpu_rows(call, operand[i]);
        loop.width = loop.rows[i].width;
        count = loop.rows[i].count;
        dense = dense && gp_rows_dense(loop.rows[i]);
    }
    if (dense)
        gp_cpu_pool_for(call->pool, count * loop.width, GP_CPU_GRAIN, span_elements, &loop);
    else
        gp_cpu_pool_for(call->pool, count, gp_cpu_grain(loop.width), span_rows, &loop);
}
