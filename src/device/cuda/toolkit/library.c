/* Plans of libraries for the ops that have no kernel of their own. */
#include <stdlib.h>

#include "base/memory.h"
#include "device/cuda/toolkit/toolkit.h"

struct gp_cuda_library {
    gp_cuda_stream *stream;
};

gp_status gp_cuda_plan_create(gp_prepared *prepared, gp_error *err) {
    return gp_fail(err, GP_UNSUPPORTED, "cuda: %s is not available yet", gp_op_name(prepared->desc.kind));
}

void gp_cuda_plan_destroy(gp_cuda_plan *plan) {
    (void)plan;
}

gp_status gp_cuda_library_open(gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err) {
    gp_cuda_library *library;
    GP_RETURN_IF_FAILED(GP_NEW(&library, 1, err));
    library->stream = stream;
    *out = library;
    return GP_OK;
}

void gp_cuda_library_close(gp_cuda_library *library) {
    free(library);
}

gp_status gp_cuda_plan_run(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                           void *workspace, gp_error *err) {
    (void)library;
    (void)operands;
    (void)workspace;
    return gp_fail(err, GP_INTERNAL, "cuda: no plan for %s", gp_op_name(prepared->desc.kind));
}
