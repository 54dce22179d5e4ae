/* Parameters between the host, in PyTorch's order, and the arena, in the format that their ops use. The device reorders
 * them: from or to the host's memory itself, or the transient area, which is free between steps. */
#include "base/memory.h"
#include "pipeline/run_internal.h"

gp_status gp_worker_copy_block(gp_worker *worker, const gp_block *block, bool in, gp_error *err) {
    const gp_device_kind *kind = gp_worker_kind(worker);
    const gp_prepared *move = !block->param ? NULL : in ? block->param->load : block->param->save;
    gp_stream *queue = worker->queue[GP_QUEUE_COMPUTE];
    char *stored = worker->arena + block->offset;
    char *transient = worker->arena + worker->run->plan->transient_base[worker->index];
    char *ordered = !move ? stored : kind->on_host ? block->host : transient;
    void *operands[GP_MAX_OPERANDS] = {in ? ordered : stored, in ? stored : ordered};
    void *workspace = kind->on_host ? transient : transient + gp_align_up(block->bytes, GP_ALIGNMENT);
    const gp_op_args args = {0};
    if (block->worker != worker->index) return GP_OK;
    if (in && ordered != block->host)
        GP_RETURN_IF_FAILED(kind->copy_in(queue, ordered, block->host, block->bytes, err));
    if (move) GP_RETURN_IF_FAILED(gp_device_run(kind, queue, move, operands, workspace, &args, err));
    if (in || ordered == block->host) return GP_OK;
    return kind->copy_out(queue, block->host, ordered, block->bytes, err);
}
