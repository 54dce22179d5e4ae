/* The CPU device's own loops, one file per family, all in f32. Internal to device/cpu; see cpu_call.h for the threads.
 *
 * No result depends on the number of threads: what is summed is summed in blocks whose bounds follow from the shapes.
 */
#ifndef GP_DEVICE_CPU_CPU_OPS_H
#define GP_DEVICE_CPU_CPU_OPS_H

#include "device/cpu/cpu_call.h"

/* cpu_elementwise.c */
GP_MUST_USE gp_status gp_cpu_relu_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_relu_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_relu_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_relu_backward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_add_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_add_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_copy_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_copy_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_fill_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_fill_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_flatten_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_flatten_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_unflatten_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_dropout_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_dropout_run(const gp_cpu_call *call, gp_error *err);

/* cpu_weights.c */
GP_MUST_USE gp_status gp_cpu_conv_weights_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_conv_weights_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_linear_weights_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_linear_weights_run(const gp_cpu_call *call, gp_error *err);

/* cpu_activation.c */
GP_MUST_USE gp_status gp_cpu_activation_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_activation_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_activation_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_activation_backward_run(const gp_cpu_call *call, gp_error *err);

/* cpu_group_norm.c */
GP_MUST_USE gp_status gp_cpu_group_norm_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_group_norm_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_group_norm_backward_data_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_group_norm_backward_data_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_group_norm_backward_weights_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_group_norm_backward_weights_run(const gp_cpu_call *call, gp_error *err);

/* cpu_norm.c */
GP_MUST_USE gp_status gp_cpu_norm_statistics_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_statistics_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_apply_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_apply_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_backward_reduce_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_backward_reduce_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_backward_data_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_backward_data_run(const gp_cpu_call *call, gp_error *err);

/* cpu_norm_relu.c */
GP_MUST_USE gp_status gp_cpu_norm_apply_relu_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_apply_relu_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_relu_backward_reduce_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_relu_backward_reduce_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_relu_backward_data_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_relu_backward_data_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_add_relu_backward_reduce_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_add_relu_backward_reduce_run(const gp_cpu_call *call, gp_error *err);

/* cpu_pool2d.c */
GP_MUST_USE gp_status gp_cpu_max_pool_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_max_pool_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_max_pool_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_max_pool_backward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_avg_pool_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_avg_pool_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_avg_pool_backward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_mean_pool_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_mean_pool_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_mean_pool_backward_run(const gp_cpu_call *call, gp_error *err);

/* cpu_upsample.c */
GP_MUST_USE gp_status gp_cpu_upsample_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_upsample_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_upsample_backward_run(const gp_cpu_call *call, gp_error *err);

/* cpu_element_loss.c */
GP_MUST_USE gp_status gp_cpu_element_loss_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_element_loss_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_element_loss_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_element_loss_backward_run(const gp_cpu_call *call, gp_error *err);

/* cpu_loss.c; GP_DATA where a target is neither a class nor the one to ignore. */
GP_MUST_USE gp_status gp_cpu_cross_entropy_forward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_cross_entropy_forward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_cross_entropy_backward_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_cross_entropy_backward_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_loss_total_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_loss_total_run(const gp_cpu_call *call, gp_error *err);

/* cpu_adam.c */
GP_MUST_USE gp_status gp_cpu_adam_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_adam_run(const gp_cpu_call *call, gp_error *err);

/* cpu_clip.c */
GP_MUST_USE gp_status gp_cpu_square_sum_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_square_sum_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_clip_total_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_clip_total_run(const gp_cpu_call *call, gp_error *err);

/* cpu_update.c */
GP_MUST_USE gp_status gp_cpu_sgd_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_sgd_run(const gp_cpu_call *call, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_commit_prepare(gp_prepared *prepared, gp_error *err);
GP_MUST_USE gp_status gp_cpu_norm_commit_run(const gp_cpu_call *call, gp_error *err);

#endif
