/* How tensors as rows are cut into blocks for the kernels that go down columns (kernels/columns.h); follows from the
 * shape alone. Internal to device/cuda; pure but for what it enqueues. */
#ifndef GP_DEVICE_CUDA_CUDA_COLUMNS_H
#define GP_DEVICE_CUDA_CUDA_COLUMNS_H

#include "device/cuda/cuda_call.h"

/* For sums: no more blocks of rows than a second launch likes to combine. */
gp_kernel_columns gp_cuda_columns_summed(int64_t samples, int64_t rows, int64_t width);
/* For what goes over all elements, `width` counting columns, or fours of them. */
gp_kernel_columns gp_cuda_columns_mapped(int64_t samples, int64_t rows, int64_t width);
/* The two for all rows of operand 0 together; by_four: in fours of columns. */
gp_kernel_columns gp_cuda_columns_of(const gp_op_desc *desc);
gp_kernel_columns gp_cuda_columns_over(const gp_cuda_call *call, bool by_four);
/* Of the partial results: two f64 for each block and column. */
size_t gp_cuda_columns_bytes(const gp_kernel_columns *columns);
/* Books those of gp_cuda_columns_of. */
void gp_cuda_columns_book(gp_prepared *prepared);
/* A launch over all blocks; a launch over the tiles only, which combines the blocks of one sample. */
gp_cuda_launch gp_cuda_columns_launch(gp_cuda_kernel kernel, const gp_kernel_columns *columns, const void *args,
                                      size_t args_bytes);
gp_cuda_launch gp_cuda_columns_combine(gp_cuda_kernel kernel, const gp_kernel_columns *columns, const void *args,
                                       size_t args_bytes);
/* The moments of every block of rows of x go to the beginning of the workspace. */
GP_MUST_USE gp_status gp_cuda_columns_moments(const gp_cuda_call *call, const gp_kernel_columns *columns,
                                              gp_error *err);
/* The second launch of the gradients of gamma and beta: adds up what the blocks left in the workspace. Batch norm's go
 * to the operand `sums`, the first divided by the deviation; group norm's to dgamma and dbeta. */
GP_MUST_USE gp_status gp_cuda_columns_totals(const gp_cuda_call *call, const gp_kernel_columns *columns, gp_error *err);

#endif
