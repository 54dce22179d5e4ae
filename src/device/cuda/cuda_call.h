/* What the CUDA device's files share: one run of one op, and launches with the memory that they touch. Internal to
 * device/cuda.
 *
 * An op is prepared while planning, in any thread and without a device; its run function only enqueues, in the worker's
 * thread. The shape of a launch follows from the descriptor alone, and so do the bits of its result. */
#ifndef GP_DEVICE_CUDA_CUDA_CALL_H
#define GP_DEVICE_CUDA_CUDA_CALL_H

#include "device/cuda/cuda_api.h"
#include "device/rows.h"

typedef struct gp_cuda_call gp_cuda_call;

typedef struct gp_cuda_op {
    gp_status (*prepare)(gp_prepared *prepared, gp_error *err); /* NULL: gp_op_prepare_plain, then book */
    void (*book)(gp_prepared *prepared);                        /* the workspace; NULL: none */
    gp_status (*run)(const gp_cuda_call *call, gp_error *err);
    void (*release)(gp_prepared *prepared); /* NULL: nothing to release */
    /* For a run function that serves several ops: */
    gp_cuda_kernel kernel;
    gp_operand_name operands[3]; /* of the elements that are written; of those that are read */
} gp_cuda_op;

struct gp_cuda_call {
    const gp_cuda_op *op;
    const gp_prepared *prepared;
    void *const *operand;
    void *workspace;
    const gp_op_args *args;
    gp_cuda_stream *stream;
    gp_cuda_library *library;
};

/* The ops, one file for each family, all in f32. A file of kernels belongs to each family (kernels/). */
#define GP_OP(NAME, name, ...) extern const gp_cuda_op gp_cuda_##name;
#include "device/op_table.inc"

enum { GP_CUDA_BLOCK = 256 };

/* The op's operand of that name: its tensor, its address, its rows. An absent one has a tensor that is not present, the
 * address NULL, and no rows. */
const gp_tensor *gp_cuda_tensor(const gp_cuda_call *call, gp_operand_name name);
void *gp_cuda_at(const gp_cuda_call *call, gp_operand_name name);
gp_rows gp_cuda_rows(const gp_cuda_call *call, gp_operand_name name);
gp_kernel_rows gp_cuda_view(const gp_cuda_call *call, gp_operand_name name);

/* Of a kernel that is there twice (GP_CUDA_BOTH) the one for this call: the wide one where an operand has more
 * elements, gaps included, than 31 bits count. */
gp_cuda_kernel gp_cuda_kernel_for(const gp_cuda_call *call, gp_cuda_kernel kernel);
/* One thread for each of `items` ≥ 0, in blocks of GP_CUDA_BLOCK. `args` is borrowed until the launch. */
gp_cuda_launch gp_cuda_launch_items(gp_cuda_kernel kernel, int64_t items, const void *args, size_t args_bytes);
/* `blocks` blocks of `threads` threads. */
gp_cuda_launch gp_cuda_launch_blocks(gp_cuda_kernel kernel, int64_t blocks, uint32_t threads, const void *args,
                                     size_t args_bytes);
/* State that the kernel reads, or writes, an operand (no more than its elements; absent ones count as nothing), plain
 * bytes, or all that the op reads. */
void gp_cuda_reads(gp_cuda_launch *launch, const gp_cuda_call *call, gp_operand_name name);
void gp_cuda_writes(gp_cuda_launch *launch, const gp_cuda_call *call, gp_operand_name name);
void gp_cuda_reads_bytes(gp_cuda_launch *launch, const void *at, size_t bytes);
void gp_cuda_writes_bytes(gp_cuda_launch *launch, void *at, size_t bytes);
void gp_cuda_reads_inputs(gp_cuda_launch *launch, const gp_cuda_call *call);
/* Enqueues; a launch of no blocks is none. The sentence gets the op's name from those above. */
GP_MUST_USE gp_status gp_cuda_enqueue(const gp_cuda_call *call, const gp_cuda_launch *launch, gp_error *err);
/* Enqueues a launch that reads and writes the operands as the op does (op_table.inc). */
GP_MUST_USE gp_status gp_cuda_enqueue_op(const gp_cuda_call *call, gp_cuda_launch *launch, gp_error *err);

/* Does the runs of `count` ops sgd or adam, of one stream, whose memory but for the scalars is apart: as one after
 * another would, to the bit, in one launch for each kind, set of attributes and GP_KERNEL_UPDATE_ENTRIES parameters. */
GP_MUST_USE gp_status gp_cuda_update_many(const gp_cuda_call *calls, int count, gp_error *err);

/* Whether operands as rows may be read and written four elements at a time: addresses, pitches and width. Absent ones
 * are left out. Kernels give the same bits either way. */
bool gp_cuda_by_four(const gp_cuda_call *call, const gp_operand_name *name, int count);
/* Whether their addresses alone would allow it. */
bool gp_cuda_aligned(const gp_cuda_call *call, const gp_operand_name *name, int count);

#endif
