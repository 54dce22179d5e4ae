#include "device/cpu/cpu_call.h"

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
