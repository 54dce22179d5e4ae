/* cuDNN, cuBLASLt and NCCL, opened late: what runs on CPUs loads none of them (together more than a gigabyte). Each is
 * opened once, by the first thread that needs it, and stays. Internal to device/cuda/toolkit; any thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_LIBRARIES_H
#define GP_DEVICE_CUDA_TOOLKIT_LIBRARIES_H

#include <cublasLt.h>
#include <cudnn.h>
#ifdef GP_NCCL
#include <nccl.h>
#endif

#include "base/status.h"

#define GP_CUDNN_CALLS(X)                                                                                              \
    X(cudnnGetVersion)                                                                                                 \
    X(cudnnGetErrorString)                                                                                             \
    X(cudnnGetLastErrorString)                                                                                         \
    X(cudnnCreate)                                                                                                     \
    X(cudnnDestroy)                                                                                                    \
    X(cudnnSetStream)                                                                                                  \
    X(cudnnBackendCreateDescriptor)                                                                                    \
    X(cudnnBackendDestroyDescriptor)                                                                                   \
    X(cudnnBackendSetAttribute)                                                                                        \
    X(cudnnBackendGetAttribute)                                                                                        \
    X(cudnnBackendFinalize)                                                                                            \
    X(cudnnBackendExecute)

#define GP_CUBLASLT_CALLS(X)                                                                                           \
    X(cublasLtGetStatusString)                                                                                         \
    X(cublasLtGetVersion)                                                                                              \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulAlgoCheck)                                                                                         \
    X(cublasLtMatmul)

#define GP_NCCL_CALLS(X)                                                                                               \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetLastError)                                                                                                \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommAbort)                                                                                                   \
    X(ncclGroupStart)                                                                                                  \
    X(ncclGroupEnd)                                                                                                    \
    X(ncclSend)                                                                                                        \
    X(ncclRecv)

#define GP_LIBRARY_CALL(name) __typeof__(name) *name;
typedef struct gp_cudnn_calls {
    GP_CUDNN_CALLS(GP_LIBRARY_CALL)
} gp_cudnn_calls;
typedef struct gp_cublaslt_calls {
    GP_CUBLASLT_CALLS(GP_LIBRARY_CALL)
} gp_cublaslt_calls;
#ifdef GP_NCCL
typedef struct gp_nccl_calls {
    GP_NCCL_CALLS(GP_LIBRARY_CALL)
} gp_nccl_calls;
#endif
#undef GP_LIBRARY_CALL

/* Filled once the library is open; not to be looked at before. */
extern gp_cudnn_calls gp_cudnn;
extern gp_cublaslt_calls gp_cublaslt;
#ifdef GP_NCCL
extern gp_nccl_calls gp_nccl;
GP_MUST_USE gp_status gp_nccl_open(gp_error *err);
#endif

/* GP_DEVICE with the library's name and the loader's cause. */
GP_MUST_USE gp_status gp_cudnn_open(gp_error *err);
GP_MUST_USE gp_status gp_cublaslt_open(gp_error *err);

/* GP_OK, or the sentence "cudnnBackendFinalize: <cause>": GP_MEMORY where memory is out, else GP_DEVICE. */
GP_MUST_USE gp_status gp_cudnn_check(cudnnStatus_t code, const char *call, gp_error *err);
GP_MUST_USE gp_status gp_cublaslt_check(cublasStatus_t code, const char *call, gp_error *err);

#endif
