/* What the CPU device's files share: one run of one op, and loops over it. Internal to device/cpu.
 *
 * An op is prepared while planning, in any thread, and runs in the worker's thread, which may share out loops over the
 * device's pool. No op allocates while it runs, but for what oneDNN does itself.
 */
#ifndef GP_DEVICE_CPU_CPU_CALL_H
#define GP_DEVICE_CPU_CPU_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/cpu_pool.h"
#include "device/rows.h"

struct dnnl_stream;

typedef struct gp_cpu_call {
    const gp_prepared *prepared;
    void *const *operand;
    void *workspace;
    const gp_op_args *args;
    gp_cpu_pool *pool;
    struct dnnl_stream *onednn;
} gp_cpu_call;

typedef struct gp_cpu_op {
    gp_status (*prepare)(gp_prepared *prepared, gp_error *err); /* NULL: gp_op_prepare_plain, then book */
    void (*book)(gp_prepared *prepared);                        /* the workspace; NULL: none */
    gp_status (*run)(const gp_cpu_call *call, gp_error *err);
    void (*release)(gp_prepared *prepared); /* NULL: nothing to release */
} gp_cpu_op;

static inline gp_rows gp_cpu_rows(const gp_cpu_call *call, int operand) {
    return gp_rows_of(&call->prepared->desc.operand[operand]);
}
/* Elements that are worth a thread. */
enum { GP_CPU_GRAIN = 16384 };
/* The same for items of `elements` elements each. */
static inline int64_t gp_cpu_grain(int64_t elements) {
    return GP_CPU_GRAIN / (elements < 1 ? 1 : elements) + 1;
}

enum { GP_SPAN_OPERANDS = 4 };
/* Does `count` elements of up to four operands, each contiguous from at[i] on. */
typedef void (*gp_cpu_span)(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count);
/* Covers operands of equal dimensions with spans, over the pool. operand[i] < 0: none, at[i] is not to be used. */
void gp_cpu_spans(const gp_cpu_call *call, const int operand[3], gp_cpu_span span, const void *context);
void gp_cpu_spans_of_four(const gp_cpu_call *call, const int operand[4], gp_cpu_span span, const void *context);

/* Tells the compiler that the iterations of the next loop are independent though its pointers may be equal (in place).
 */
#if defined(__clang__)
#define GP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GP_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
