/* The ops that loops of our own compute, and what books the workspace of each. Internal to device/cpu; constants, for
 * any thread. */
#ifndef GP_DEVICE_CPU_CPU_OWN_H
#define GP_DEVICE_CPU_CPU_OWN_H

#include "device/cpu/cpu_book.h"

/* X(NAME, name, book): of op_table.inc; NULL: no workspace. */
#define GP_CPU_OWN_OPS(X)                                                                                              \
    X(NORM_STATISTICS, norm_statistics, gp_cpu_book_norm)                                                              \
    X(NORM_APPLY, norm_apply, gp_cpu_book_norm)                                                                        \
    X(NORM_BACKWARD_REDUCE, norm_backward_reduce, gp_cpu_book_norm)                                                    \
    X(NORM_BACKWARD_DATA, norm_backward_data, gp_cpu_book_norm)                                                        \
    X(NORM_APPLY_RELU, norm_apply_relu, gp_cpu_book_norm)                                                              \
    X(NORM_RELU_BACKWARD_REDUCE, norm_relu_backward_reduce, gp_cpu_book_norm)                                          \
    X(NORM_RELU_BACKWARD_DATA, norm_relu_backward_data, gp_cpu_book_norm)                                              \
    X(NORM_ADD_RELU_BACKWARD_REDUCE, norm_add_relu_backward_reduce, gp_cpu_book_norm)                                  \
    X(GROUP_NORM_FORWARD, group_norm_forward, NULL)                                                                    \
    X(GROUP_NORM_BACKWARD_DATA, group_norm_backward_data, NULL)                                                        \
    X(GROUP_NORM_BACKWARD_WEIGHTS, group_norm_backward_weights, gp_cpu_book_columns)                                   \
    X(RELU_FORWARD, relu_forward, NULL)                                                                                \
    X(RELU_BACKWARD, relu_backward, NULL)                                                                              \
    X(ACTIVATION_FORWARD, activation_forward, NULL)                                                                    \
    X(ACTIVATION_BACKWARD, activation_backward, NULL)                                                                  \
    X(MAX_POOL_FORWARD, max_pool_forward, NULL)                                                                        \
    X(MAX_POOL_BACKWARD, max_pool_backward, NULL)                                                                      \
    X(AVG_POOL_FORWARD, avg_pool_forward, NULL)                                                                        \
    X(AVG_POOL_BACKWARD, avg_pool_backward, NULL)                                                                      \
    X(UPSAMPLE_FORWARD, upsample_forward, NULL)                                                                        \
    X(UPSAMPLE_BACKWARD, upsample_backward, NULL)                                                                      \
    X(MEAN_POOL_FORWARD, mean_pool_forward, NULL)                                                                      \
    X(MEAN_POOL_BACKWARD, mean_pool_backward, NULL)                                                                    \
    X(FLATTEN, flatten, NULL)                                                                                          \
    X(UNFLATTEN, unflatten, NULL)                                                                                      \
    X(DROPOUT, dropout, NULL)                                                                                          \
    X(ADD, add, NULL)                                                                                                  \
    X(COPY, copy, NULL)                                                                                                \
    X(CROSS_ENTROPY_FORWARD, cross_entropy_forward, gp_cpu_book_losses)                                                \
    X(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, NULL)                                                            \
    X(ELEMENT_LOSS_FORWARD, element_loss_forward, gp_cpu_book_blocks)                                                  \
    X(ELEMENT_LOSS_BACKWARD, element_loss_backward, NULL)                                                              \
    X(LOSS_TOTAL, loss_total, NULL)                                                                                    \
    X(NORM_MERGE, norm_merge, NULL)                                                                                    \
    X(NORM_MERGE_SUMS, norm_merge_sums, NULL)                                                                          \
    X(NORM_COMMIT, norm_commit, NULL)                                                                                  \
    X(SQUARE_SUM, square_sum, gp_cpu_book_blocks)                                                                      \
    X(SQUARE_BLOCKS, square_blocks, NULL)                                                                              \
    X(BLOCKS_TOTAL, blocks_total, NULL)                                                                                \
    X(CLIP_TOTAL, clip_total, NULL)                                                                                    \
    X(SGD, sgd, NULL)                                                                                                  \
    X(ADAM, adam, NULL)                                                                                                \
    X(FILL, fill, NULL)

#endif
