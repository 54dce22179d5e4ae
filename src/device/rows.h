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

/* What loops and kernels of our own need: real operands are F32, formats plain, rows of one pitch. States the storage
 * of every operand, and gp_op_allow_in_place. GP_UNSUPPORTED: the sentence begins with `device`. */
GP_MUST_USE gp_status gp_op_prepare_plain(gp_prepared *prepared, const char *device, gp_error *err);
/* States which operands the first output may replace (OVER in op_table.inc): those that lie like it in memory. */
void gp_op_allow_in_place(gp_prepared *prepared);
/* Aligned bytes at the end of the prepared op's workspace; returns their offset. */
size_t gp_op_book(gp_prepared *prepared, size_t bytes);

#endif
