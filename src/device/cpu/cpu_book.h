/* The workspace of our own ops: what planning books, and where their loops find its parts. Internal to device/cpu; any
 * thread. */
#ifndef GP_DEVICE_CPU_CPU_BOOK_H
#define GP_DEVICE_CPU_CPU_BOOK_H

#include "device/rows.h"

/* Batch norm: partial sums, then the coefficients of each channel, in f32. */
void gp_cpu_book_norm(gp_prepared *prepared);
/* Bytes of the partial sums. */
size_t gp_cpu_norm_partial_bytes(gp_op_kind kind, gp_rows x);
/* How many of the coefficients an op needs for each channel. */
int gp_cpu_norm_coefficients(gp_op_kind kind);

/* Two f64 for each block of rows and column of operand 0: gp_cpu_column_bytes. */
void gp_cpu_book_columns(gp_prepared *prepared);

/* One f64 for each block of elements of operand 0: gp_cpu_sum_blocks. */
void gp_cpu_book_blocks(gp_prepared *prepared);

/* Two f64 for each block of rows of logits. */
enum { GP_CPU_LOSS_ROWS = 64 };
void gp_cpu_book_losses(gp_prepared *prepared);
int64_t gp_cpu_loss_blocks(gp_rows x);

#endif
