/* Inside the reference device: how its loops see tensors, and the loops by family. Called by ref_device.c in the
 * worker's thread; the descriptors have passed gp_op_desc_check.
 *
 * Every element is read as a double and rounded when it is written, so that each op is written once for f32 and f64.
 */
#ifndef GP_DEVICE_REF_REF_OPS_H
#define GP_DEVICE_REF_REF_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "device/op.h"

/* Elements of the blocks that square_sum adds up; small, so that small tests have several. */
enum { REF_SQUARE_BLOCK = 64 };

typedef struct ref_view {
    const gp_tensor *tensor;
    void *data; /* NULL: absent */
} ref_view;

/* One run of one op. Its operands by their names in op_table.inc; those that it lacks are absent. */
typedef struct ref_call {
    const gp_op_desc *desc;
    const gp_op_args *args;
    gp_status *status; /* GP_OK; a loop that fails sets both */
    gp_error *err;
    union {
        ref_view named[GP_NAMES]; /* by gp_operand_name */
        struct {
            ref_view none; /* GP_NAME_NONE */
#define REF_OPERAND(NAME, name) ref_view name;
            GP_OPERAND_NAMES(REF_OPERAND)
#undef REF_OPERAND
        };
    };
} ref_call;

/* What `value` becomes when it is stored in `dtype`. */
static inline double ref_round(gp_dtype dtype, double value) {
    return dtype == GP_F32 ? (double)(float)value : value;
}

/* offset: in elements from the tensor's address. Reals only. */
static inline double ref_get(const ref_view *view, int64_t offset) {
    return view->tensor->dtype == GP_F32 ? (double)((const float *)view->data)[offset]
                                         : ((const double *)view->data)[offset];
}

static inline void ref_put(const ref_view *view, int64_t offset, double value) {
    if (view->tensor->dtype == GP_F32) {
        ((float *)view->data)[offset] = (float)value;
    } else {
        ((double *)view->data)[offset] = value;
    }
}

/* Offset of element [a,b,c,d] of a tensor of rank 4; of [a,b]. */
static inline int64_t ref_at4(const ref_view *view, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t *stride = view->tensor->stride;
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
}
static inline int64_t ref_at2(const ref_view *view, int64_t a, int64_t b) {
    return a * view->tensor->stride[0] + b * view->tensor->stride[1];
}

/* Offset of element i in row-major order, of the first element of a row, and of element `element` of sample n in
 * channels-first order. */
int64_t ref_element(const gp_tensor *tensor, int64_t i);
int64_t ref_row(const gp_tensor *tensor, int64_t row);
int64_t ref_sample_element(const gp_tensor *tensor, int64_t n, int64_t element);

/* Element i in row-major order. */
static inline double ref_get_element(const ref_view *view, int64_t i) {
    return ref_get(view, ref_element(view->tensor, i));
}
/* Element c of a row. */
static inline double ref_get_row(const ref_view *view, int64_t row, int64_t c) {
    return ref_get(view, ref_row(view->tensor, row) + c);
}
static inline double ref_get4(const ref_view *view, int64_t a, int64_t b, int64_t c, int64_t d) {
    return ref_get(view, ref_at4(view, a, b, c, d));
}

/* Writes every element of an output, in row-major order: element i; element [a,b,c,d]. */
typedef double ref_value(const ref_call *call, int64_t i);
typedef double ref_value4(const ref_call *call, int64_t a, int64_t b, int64_t c, int64_t d);
void ref_write(const ref_call *call, const ref_view *out, ref_value *value);
void ref_write4(const ref_call *call, const ref_view *out, ref_value4 *value);

/* By family. GP_DATA from cross entropy where a target names no class; else nothing fails. */
#define GP_OP(NAME, name, ...) void ref_##name(const ref_call *call);
#include "device/op_table.inc"

#endif
