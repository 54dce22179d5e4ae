/* What the CPU device's files share: one run of one op, and loops over it. Internal to device/cpu.
 *
 * An op is prepared while planning, in any thread, and runs in the worker's thread, which may share out loops over the
 * device's pool. No op allocates while it runs, but oneDNN does: it keeps the arguments of a primitive in a hash table.
 */
#ifndef GP_DEVICE_CPU_CPU_CALL_H
#define GP_DEVICE_CPU_CPU_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/cpu_pool.h"
#include "device/device.h"
#include "device/rows.h"

struct dnnl_stream;
typedef struct gp_cpu_loops gp_cpu_loops; /* cpu_loops.h */

typedef struct gp_cpu_call {
    const gp_prepared *prepared;
    void *const *operand;
    void *workspace;
    const gp_op_args *args;
    gp_cpu_pool *pool;
    struct dnnl_stream *onednn;
    gp_bound *bound;
    const gp_cpu_loops *loops;
} gp_cpu_call;

enum { GP_SPAN_OPERANDS = 5 };
/* Does `count` elements of an op's real operands, each contiguous from at[its position] on. */
typedef void (*gp_cpu_span)(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count);

typedef struct gp_cpu_op {
    gp_status (*prepare)(gp_prepared *prepared, gp_error *err); /* NULL: gp_op_prepare_plain, then book */
    void (*book)(gp_prepared *prepared);                        /* the workspace; NULL: none */
    gp_status (*run)(const gp_cpu_call *call, gp_error *err);   /* NULL: gp_cpu_loop_run */
    void (*release)(gp_prepared *prepared);                     /* NULL: nothing to release */
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

/* Covers the real operands, of equal dimensions, with spans, over the pool. */
void gp_cpu_spans(const gp_cpu_call *call, gp_cpu_span span, const void *context);

typedef struct gp_cpu_view {
    float *at; /* NULL: absent; of another type where the op's table says so */
    gp_rows rows;
    const gp_tensor *tensor;
} gp_cpu_view;
/* The operands of one op by their names in op_table.inc. */
typedef union gp_cpu_views {
    gp_cpu_view named[GP_NAMES]; /* by gp_operand_name */
    struct {
        gp_cpu_view none; /* GP_NAME_NONE */
#define GP_CPU_VIEW(NAME, name) gp_cpu_view name;
        GP_OPERAND_NAMES(GP_CPU_VIEW)
#undef GP_CPU_VIEW
    };
} gp_cpu_views;
void gp_cpu_find_views(const gp_cpu_call *call, gp_cpu_views *out);

/* Tells the compiler that the iterations of the next loop are independent though its pointers may be equal (in place).
 */
#if defined(__clang__)
#define GP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GP_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
