/* The ops of the CUDA device, one file per family. Internal to device/cuda; see cuda_call.h for threads and for what
 * prepare and run are. */
#ifndef GP_DEVICE_CUDA_CUDA_OPS_H
#define GP_DEVICE_CUDA_CUDA_OPS_H

#include "device/cuda/cuda_call.h"

/* cuda_elementwise.c */
GP_MUST_USE gp_status gp_cuda_relu_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_relu_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_relu_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_relu_backward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_add_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_add_run(const gp_cuda_call *call, gp_error *err);

/* cuda_activation.c */
GP_MUST_USE gp_status gp_cuda_activation_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_activation_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_activation_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_activation_backward_run(const gp_cuda_call *call, gp_error *err);

/* cuda_reorder.c */
GP_MUST_USE gp_status gp_cuda_reorder_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_reorder_run(const gp_cuda_call *call, gp_error *err);

#endif
