/* Sums over all elements of a tensor in two launches (kernels/sums.h), or in one where a block suffices. Internal to
 * device/cuda; the thread of the op's stream. */
#ifndef GP_DEVICE_CUDA_CUDA_SUMS_H
#define GP_DEVICE_CUDA_CUDA_SUMS_H

#include "device/cuda/cuda_call.h"

/* Books what the blocks' `each` sums take, at the beginning of the workspace. */
void gp_cuda_sum_book(gp_prepared *prepared, int64_t blocks, int64_t each);
/* Where the blocks leave their sums: in the workspace, or where the result goes if there is only one. */
double *gp_cuda_sum_partial(const gp_cuda_call *call, int64_t blocks, double *out);
/* Adds the blocks' sums up, in the op's operand `out` of `each` ≤ 2 numbers. */
GP_MUST_USE gp_status gp_cuda_sum_combine(const gp_cuda_call *call, int64_t blocks, int64_t each, gp_operand_name out,
                                          gp_error *err);

/* Of element by element sums of x, or of x and the target. */
int64_t gp_cuda_sum_blocks(gp_rows x);
GP_MUST_USE gp_status gp_cuda_sum_elements(const gp_cuda_call *call, gp_cuda_kernel kernel, int64_t function,
                                           int64_t each, gp_operand_name out, gp_error *err);

#endif
