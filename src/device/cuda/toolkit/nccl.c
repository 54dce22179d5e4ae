/* Messages between processes: NCCL's part of the real table. */
#include "device/cuda/toolkit/toolkit.h"

#ifdef GP_NCCL

#include <string.h>

#include "device/cuda/toolkit/libraries.h"

_Static_assert(GP_LINE_ID == NCCL_UNIQUE_ID_BYTES, "an id of a line is one of NCCL");

/* `comm`: NULL: not known yet. */
static gp_status check(ncclResult_t code, const char *call, ncclComm_t comm, gp_error *err) {
    if (code == ncclSuccess || code == ncclInProgress) return GP_OK;
    const char *said = gp_nccl.ncclGetLastError(comm);
    return gp_fail(err, GP_DEVICE, "%s: %s%s%s", call, gp_nccl.ncclGetErrorString(code), said && said[0] ? ": " : "",
                   said ? said : "");
}

gp_status gp_cuda_comm_id(char id[GP_LINE_ID], gp_error *err) {
    ncclUniqueId unique;
    GP_RETURN_IF_FAILED(gp_nccl_open(err));
    GP_RETURN_IF_FAILED(check(gp_nccl.ncclGetUniqueId(&unique), "ncclGetUniqueId", NULL, err));
    memcpy(id, unique.internal, GP_LINE_ID);
    return GP_OK;
}

/* No call waits for another process (blocking 0), so that each can be left. */
gp_status gp_cuda_comm_create(const char id[GP_LINE_ID], int rank, int ranks, int blocks, gp_cuda_comm **out,
                              gp_error *err) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    ncclComm_t comm = NULL;
    GP_RETURN_IF_FAILED(gp_nccl_open(err));
    memcpy(unique.internal, id, GP_LINE_ID);
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = blocks;
    ncclResult_t code = gp_nccl.ncclCommInitRankConfig(&comm, ranks, unique, rank, &config);
    gp_status status = check(code, "ncclCommInitRankConfig", comm, err);
    if (status != GP_OK) {
        if (comm) (void)gp_nccl.ncclCommAbort(comm);
        return status;
    }
    *out = comm;
    return GP_OK;
}

gp_status gp_cuda_comm_busy(gp_cuda_comm *comm, bool *out, gp_error *err) {
    ncclResult_t state = ncclSuccess;
    GP_RETURN_IF_FAILED(check(gp_nccl.ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm, err));
    GP_RETURN_IF_FAILED(check(state, "NCCL, in earlier work of this GPU", comm, err));
    *out = state == ncclInProgress;
    return GP_OK;
}

gp_status gp_cuda_group_begin(gp_error *err) {
    return check(gp_nccl.ncclGroupStart(), "ncclGroupStart", NULL, err);
}

gp_status gp_cuda_group_end(gp_error *err) {
    return check(gp_nccl.ncclGroupEnd(), "ncclGroupEnd", NULL, err);
}

gp_status gp_cuda_comm_send(gp_cuda_comm *comm, int to, const void *address, size_t bytes, gp_cuda_stream *stream,
                            gp_error *err) {
    return check(gp_nccl.ncclSend(address, bytes, ncclInt8, to, comm, stream), "ncclSend", comm, err);
}

gp_status gp_cuda_comm_receive(gp_cuda_comm *comm, int from, void *address, size_t bytes, gp_cuda_stream *stream,
                               gp_error *err) {
    return check(gp_nccl.ncclRecv(address, bytes, ncclInt8, from, comm, stream), "ncclRecv", comm, err);
}

gp_status gp_cuda_comm_finish(gp_cuda_comm *comm, gp_error *err) {
    return check(gp_nccl.ncclCommFinalize(comm), "ncclCommFinalize", comm, err);
}

void gp_cuda_comm_destroy(gp_cuda_comm *comm) {
    (void)gp_nccl.ncclCommDestroy(comm);
}

void gp_cuda_comm_abort(gp_cuda_comm *comm) {
    (void)gp_nccl.ncclCommAbort(comm);
}

#endif
