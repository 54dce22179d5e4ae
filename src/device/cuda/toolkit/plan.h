/* What library.c and the libraries' files share: a plan, which is numbers only, and what a stream's library makes of it
 * when it is first run. Internal to device/cuda/toolkit.
 *
 * cuDNN's plans may be run by one thread at a time: so each stream builds its own from the numbers. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_PLAN_H
#define GP_DEVICE_CUDA_TOOLKIT_PLAN_H

#include <cuda_runtime_api.h>

#include "device/cuda/toolkit/cudnn_engine.h"
#include "device/cuda/toolkit/cudnn_packs.h"
#include "device/cuda/toolkit/toolkit.h"

struct gp_cuda_plan {
    size_t number;          /* of no other plan of this process */
    gp_op_desc desc;        /* with formats that are known */
    size_t workspace;       /* bytes that a run may use */
    gp_cudnn_engine engine; /* of a convolution */
};

/* A product made ready for one device. Zero-initialised: not yet. */
typedef struct gp_cublaslt_built {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
} gp_cublaslt_built;

typedef struct gp_cuda_ready {
    gp_cudnn_built convolution;
    gp_cublaslt_built product;
} gp_cuda_ready;

struct gp_cuda_library {
    cudaStream_t stream;
    cudnnHandle_t cudnn; /* NULL: no convolution was planned before the stream was made, or run yet; so cublaslt */
    gp_cudnn_parts parts;
    gp_cudnn_packs packs;
    gp_cudnn_part device; /* the properties of the stream's device */
    cublasLtHandle_t cublaslt;
    char model[288];       /* with cublaslt: what its algorithms depend on of the device */
    gp_cuda_ready **ready; /* by number of plan; NULL: not run yet */
    size_t capacity;
};

/* Makes the stream's handle, where it has none yet. */
GP_MUST_USE gp_status gp_cudnn_handle(gp_cuda_library *library, gp_error *err);
GP_MUST_USE gp_status gp_cublaslt_handle(gp_cuda_library *library, gp_error *err);

/* Convolutions; planning: any thread, no device. prepared's storage and plan's workspace are filled. */
GP_MUST_USE gp_status gp_cudnn_plan_fill(gp_prepared *prepared, gp_cuda_plan *plan, gp_error *err);
GP_MUST_USE gp_status gp_cudnn_run(gp_cuda_library *library, const gp_cuda_plan *plan, gp_cuda_ready *ready,
                                   void *const operands[], void *workspace, gp_error *err);

/* Products, likewise. */
GP_MUST_USE gp_status gp_cublaslt_plan_fill(gp_prepared *prepared, gp_cuda_plan *plan, gp_error *err);
GP_MUST_USE gp_status gp_cublaslt_run(gp_cuda_library *library, const gp_cuda_plan *plan, gp_cuda_ready *ready,
                                      void *const operands[], void *workspace, gp_error *err);
void gp_cublaslt_built_fini(gp_cublaslt_built *built);

#endif
