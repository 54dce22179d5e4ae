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

/* cuda_dropout.c */
GP_MUST_USE gp_status gp_cuda_dropout_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_dropout_run(const gp_cuda_call *call, gp_error *err);

/* cuda_pool.c */
GP_MUST_USE gp_status gp_cuda_max_pool_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_max_pool_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_max_pool_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_max_pool_backward_run(const gp_cuda_call *call, gp_error *err);
/* Of both directions. */
GP_MUST_USE gp_status gp_cuda_avg_pool_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_avg_pool_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_avg_pool_backward_run(const gp_cuda_call *call, gp_error *err);

/* cuda_resize.c */
/* Of all four. */
GP_MUST_USE gp_status gp_cuda_resize_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_upsample_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_upsample_backward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_mean_pool_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_mean_pool_backward_run(const gp_cuda_call *call, gp_error *err);

/* cuda_move.c */
GP_MUST_USE gp_status gp_cuda_copy_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_copy_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_fill_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_fill_run(const gp_cuda_call *call, gp_error *err);
/* Of flatten and of unflatten. */
GP_MUST_USE gp_status gp_cuda_flatten_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_flatten_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_unflatten_run(const gp_cuda_call *call, gp_error *err);

/* cuda_weights.c */
GP_MUST_USE gp_status gp_cuda_weights_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_weights_run(const gp_cuda_call *call, gp_error *err);
void gp_cuda_weights_release(gp_prepared *prepared);

/* cuda_reorder.c */
GP_MUST_USE gp_status gp_cuda_reorder_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_reorder_run(const gp_cuda_call *call, gp_error *err);

/* cuda_norm.c */
GP_MUST_USE gp_status gp_cuda_norm_statistics_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_statistics_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_apply_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_apply_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_backward_reduce_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_backward_reduce_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_backward_data_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_backward_data_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_commit_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_commit_run(const gp_cuda_call *call, gp_error *err);

/* cuda_norm_relu.c */
GP_MUST_USE gp_status gp_cuda_norm_apply_relu_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_apply_relu_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_relu_backward_reduce_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_relu_backward_reduce_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_relu_backward_data_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_relu_backward_data_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_add_relu_backward_reduce_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_norm_add_relu_backward_reduce_run(const gp_cuda_call *call, gp_error *err);

/* cuda_group_norm.c */
GP_MUST_USE gp_status gp_cuda_group_norm_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_norm_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_norm_backward_data_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_norm_backward_data_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_norm_backward_weights_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_group_norm_backward_weights_run(const gp_cuda_call *call, gp_error *err);

/* cuda_clip.c */
GP_MUST_USE gp_status gp_cuda_square_sum_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_square_sum_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_clip_total_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_clip_total_run(const gp_cuda_call *call, gp_error *err);

/* cuda_loss.c */
GP_MUST_USE gp_status gp_cuda_cross_entropy_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_cross_entropy_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_cross_entropy_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_cross_entropy_backward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_element_loss_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_element_loss_forward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_element_loss_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_element_loss_backward_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_loss_total_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_loss_total_run(const gp_cuda_call *call, gp_error *err);

/* cuda_update.c */
GP_MUST_USE gp_status gp_cuda_sgd_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_sgd_run(const gp_cuda_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cuda_adam_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cuda_adam_run(const gp_cuda_call *call, gp_error *err);

#endif
