#include "device/cpu/cpu_call.h"

#include <assert.h>
#include <string.h>

#include "device/op_info.h"

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

void gp_cpu_spans(const gp_cpu_call *call, gp_cpu_span span, const void *context) {
    const gp_op_info *info = gp_op_info_of(call->prepared->desc.kind);
    span_loop loop = {.span = span, .context = context};
    bool dense = true;
    int64_t count = 0;
    assert(info->operands <= GP_SPAN_OPERANDS);
    for (int i = 0; i < info->operands; i++) {
        if (!call->operand[i] || info->operand[i].type != GP_OPERAND_REAL) continue;
        loop.base[i] = call->operand[i];
        loop.rows[i] = gp_cpu_rows(call, i);
        loop.width = loop.rows[i].width;
        count = loop.rows[i].count;
        dense = dense && gp_rows_dense(loop.rows[i]);
    }
    if (dense)
        gp_cpu_pool_for(call->pool, count * loop.width, GP_CPU_GRAIN, span_elements, &loop);
    else
        gp_cpu_pool_for(call->pool, count, gp_cpu_grain(loop.width), span_rows, &loop);
}

void gp_cpu_find_views(const gp_cpu_call *call, gp_cpu_views *out) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_op_info *info = gp_op_info_of(desc->kind);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < info->operands; i++)
        if (call->operand[i])
            out->named[info->operand[i].named] =
                (gp_cpu_view){call->operand[i], gp_rows_of(&desc->operand[i]), &desc->operand[i]};
}
