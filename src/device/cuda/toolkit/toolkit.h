/* The parts of the real table (cuda_api.h, which also says who owns what and which threads may call), by file. Only
 * these files know the toolkit's headers. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_TOOLKIT_H
#define GP_DEVICE_CUDA_TOOLKIT_TOOLKIT_H

#include "device/cuda/cuda_api.h"

extern const gp_cuda_api gp_cuda_toolkit;

/* kernel_table.cu: the kernels' handles for cudaLaunchKernel, by number. */
extern const void *const gp_cuda_kernel_functions[GP_CUDA_KERNEL_COUNT];
extern const char *const gp_cuda_kernel_names[GP_CUDA_KERNEL_COUNT];

/* library.c: see cuda_api.h. */
GP_MUST_USE gp_status gp_cuda_plan_create(gp_prepared *prepared, gp_error *err);
void gp_cuda_plan_destroy(gp_cuda_plan *plan);
GP_MUST_USE gp_status gp_cuda_library_open(gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err);
void gp_cuda_library_close(gp_cuda_library *library);
GP_MUST_USE gp_status gp_cuda_plan_run(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                                       void *workspace, gp_error *err);
const char *gp_cuda_libraries(void);

/* nccl.c: see cuda_api.h. Only in programs that are built with NCCL (GP_NCCL). */
GP_MUST_USE gp_status gp_cuda_comm_id(char id[GP_LINE_ID], gp_error *err);
GP_MUST_USE gp_status gp_cuda_comm_create(const char id[GP_LINE_ID], int rank, int ranks, int blocks,
                                          gp_cuda_comm **out, gp_error *err);
GP_MUST_USE gp_status gp_cuda_comm_busy(gp_cuda_comm *comm, bool *out, gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_begin(gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_end(gp_error *err);
GP_MUST_USE gp_status gp_cuda_comm_send(gp_cuda_comm *comm, int to, const void *address, size_t bytes,
                                        gp_cuda_stream *stream, gp_error *err);
GP_MUST_USE gp_status gp_cuda_comm_receive(gp_cuda_comm *comm, int from, void *address, size_t bytes,
                                           gp_cuda_stream *stream, gp_error *err);
GP_MUST_USE gp_status gp_cuda_comm_finish(gp_cuda_comm *comm, gp_error *err);
void gp_cuda_comm_destroy(gp_cuda_comm *comm);
void gp_cuda_comm_abort(gp_cuda_comm *comm);

/* An operand's address must be a multiple of this, in bytes: whole tensors begin where arenas allow, slices anywhere.
 */
static inline int64_t gp_cuda_alignment(const gp_tensor *tensor) {
    return gp_tensor_contiguous(tensor) ? 16 : (int64_t)gp_dtype_size(tensor->dtype);
}

#endif
