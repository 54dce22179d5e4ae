/* Tensors seen as rows, and what the devices' own loops and kernels share when they are prepared: checks, aliasing,
 * workspace. Pure; any thread. */
#ifndef GP_DEVICE_ROWS_H
#define GP_DEVICE_ROWS_H

#include "device/op.h"

/* A tensor as rows of `width` contiguous elements that begin `pitch` elements apart: all that the loops know of one. */
typedef struct gp_rows {
    int64_t count, width, pitch;
} gp_rows;

/* False where the outer dimensions do not follow one another at one distance. */
bool gp_rows_find(const gp_tensor *tensor, gp_rows *out);
/* The same of a tensor of which that is known: gp_op_prepare_plain has seen it. */
gp_rows gp_rows_of(const gp_tensor *tensor);
/* No gaps: the rows are one run of count·width elements. */
static inline bool gp_rows_dense(gp_rows rows) {
    return rows.pitch == rows.width || rows.count == 1;
}

/* The storage of every operand, plain, and the checks that own loops need: rows of one pitch, and the dtypes that
 * `types` gives by operand, one letter each: f F32, d F64, l I64, i U8 or I32, * any, s the step's scalars.
 * GP_UNSUPPORTED: the sentence begins with `device`. */
GP_MUST_USE gp_status gp_op_prepare_plain(gp_prepared *prepared, const char *device, const char *types, gp_error *err);
/* States that the written operand may have the address of the read one, where the two lie alike in memory. */
void gp_op_allow_in_place(gp_prepared *prepared, int written, int read);
/* Aligned bytes at the end of the prepared op's workspace; returns their offset. */
size_t gp_op_book(gp_prepared *prepared, size_t bytes);

#endif
