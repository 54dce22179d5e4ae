/* What the CPU device's files share: one run of one op, and tensors seen as rows. Internal to device/cpu.
 *
 * Every op has a prepare function (planning; any thread; fills what gp_device_kind.prepare promises) and a run function
 * (in the worker's thread, which may share out loops over the device's pool). No op allocates while it runs, but for
 * what oneDNN does itself.
 */
#ifndef GP_DEVICE_CPU_CPU_CALL_H
#define GP_DEVICE_CPU_CPU_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/cpu_pool.h"
#include "device/op.h"

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
    gp_status (*prepare)(gp_prepared *prepared, gp_error *err);
    gp_status (*run)(const gp_cpu_call *call, gp_error *err);
    void (*release)(gp_prepared *prepared); /* NULL: nothing to release */
} gp_cpu_op;

/* A tensor as rows of `width` contiguous elements that begin `pitch` elements apart: all that the loops know of one. */
typedef struct gp_rows {
    int64_t count, width, pitch;
} gp_rows;

/* False where the outer dimensions do not follow one another at one distance. */
bool gp_rows_find(const gp_tensor *tensor, gp_rows *out);
/* The same of a tensor of which that is known: gp_cpu_prepare_plain has seen it. */
gp_rows gp_rows_of(const gp_tensor *tensor);
static inline gp_rows gp_cpu_rows(const gp_cpu_call *call, int operand) {
    return gp_rows_of(&call->prepared->desc.operand[operand]);
}
/* No gaps: the rows are one run of count·width elements. */
static inline bool gp_rows_dense(gp_rows rows) {
    return rows.pitch == rows.width || rows.count == 1;
}

/* The storage of every operand, plain, and the checks that own loops need: rows of one pitch, and the dtypes that
 * `types` gives by operand, one letter each: f F32, d F64, l I64, i U8 or I32, * any, s the step's scalars. */
GP_MUST_USE gp_status gp_cpu_prepare_plain(gp_prepared *prepared, const char *types, gp_error *err);
/* States that the written operand may have the address of the read one, where the two lie alike in memory. */
void gp_cpu_allow_in_place(gp_prepared *prepared, int written, int read);
/* Aligned bytes at the end of the prepared op's workspace; returns their offset. */
size_t gp_cpu_book(gp_prepared *prepared, size_t bytes);

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
