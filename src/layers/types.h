/* What the files of layers share: the table's entries, reading of options, operands that many lowerings use.
 *
 * Only src/layers includes this. Pure functions and constants; any thread.
 */
#ifndef GP_LAYERS_TYPES_H
#define GP_LAYERS_TYPES_H

#include <stdint.h>

#include "config/read.h"
#include "layers/layer.h"
#include "layers/lowering.h"

extern const gp_layer_type gp_conv_type;
extern const gp_layer_type gp_linear_type;
extern const gp_layer_type gp_batch_norm_type;
extern const gp_layer_type gp_relu_type;
extern const gp_layer_type gp_instance_norm_type;
extern const gp_layer_type gp_layer_norm_type;
extern const gp_layer_type gp_group_norm_type;
extern const gp_layer_type gp_leaky_relu_type;
extern const gp_layer_type gp_gelu_type;
extern const gp_layer_type gp_silu_type;
extern const gp_layer_type gp_sigmoid_type;
extern const gp_layer_type gp_tanh_type;
extern const gp_layer_type gp_max_pool_type;
extern const gp_layer_type gp_avg_pool_type;
extern const gp_layer_type gp_global_avg_pool_type;
extern const gp_layer_type gp_upsample_type;
extern const gp_layer_type gp_identity_type;
extern const gp_layer_type gp_dropout_type;
extern const gp_layer_type gp_flatten_type;
extern const gp_layer_type gp_add_type;
extern const gp_layer_type gp_concat_type;
extern const gp_layer_type gp_cross_entropy_type;
extern const gp_layer_type gp_mse_type;
extern const gp_layer_type gp_bce_logits_type;

enum {
    GP_LAYER_MAX_WINDOW = 1 << 20
}; /* of kernel, stride, pad, dilation: sums of them fit int64 with room to spare */

/* The node that holds an option; NULL where it was not given. `main`: the option is the layer's main one, which may
 * stand alone (max_pool: 2). */
const gp_yaml *gp_layer_option(const gp_choice *choice, const char *name, bool main);
/* For layers without a main option: GP_CONFIG where a value stands after the layer's name. */
GP_MUST_USE gp_status gp_layer_no_main(const gp_choice *choice, gp_error *err);
/* GP_CONFIG with the place of the layer, where the node is NULL: "conv: kernel is missing: …". */
GP_MUST_USE gp_status gp_layer_required(const gp_choice *choice, const gp_yaml *option, const char *name,
                                        const char *example, gp_error *err);
/* eps of a normalising layer, 1e-5 if it is not given. `main`: a single value is eps; one of 1 or more is refused,
 * since it is meant as the number of channels. */
GP_MUST_USE gp_status gp_layer_read_eps(const gp_choice *choice, bool main, double *eps, gp_error *err);
/* The option `pad` of a window; "same" and "valid" are refused with the number to write. */
GP_MUST_USE gp_status gp_layer_read_pad(const gp_yaml *pad, const char *what, const int64_t kernel[2],
                                        const int64_t dilation[2], int64_t out[2], gp_error *err);
/* A boolean option whose other value comes later: it may be given as false. */
GP_MUST_USE gp_status gp_layer_only_false(const gp_choice *choice, const char *name, gp_error *err);

/* GP_CONFIG where the shape is no picture. */
GP_MUST_USE gp_status gp_layer_check_picture(gp_shape input, gp_error *err);
/* Size of a window's output along one axis, at least 1. GP_CONFIG where the kernel does not fit. `axis` is 0 (height)
 * or 1 (width); `padded` is the whole padded input, for the message. */
GP_MUST_USE gp_status gp_layer_window(gp_shape input, const int64_t kernel[2], const int64_t stride[2],
                                      const int64_t pad[2], const int64_t dilation[2], int64_t out[2], gp_error *err);

/* "kernel 7" or "kernel 7x5", for messages. */
enum { GP_PAIR_TEXT = 48 };
const char *gp_pair_text(char buffer[GP_PAIR_TEXT], const int64_t pair[2]);

/* GP_CONFIG where `samples` of the layer's largest value would not fit an address. Every lowering begins with it. */
GP_MUST_USE gp_status gp_layer_fits(const gp_layer *layer, const gp_lowering *lowering, gp_error *err);
/* The tensor of the micro-batch for the shape of one sample, in the model's real type. */
gp_tensor gp_layer_samples(const gp_lowering *lowering, gp_shape shape);
/* gp_op_flags of its convolutions and products. */
static inline uint32_t gp_layer_op_flags(const gp_layer *layer) {
    return layer->tf32 ? GP_OP_TF32 : 0;
}
/* [C]. */
gp_tensor gp_layer_vector(gp_dtype dtype, int64_t count);
/* The step's scalars as operand `position`. */
void gp_layer_scalars(gp_lowered_op *op, int position);
/* Adds y = x for two tensors of equal dimensions. */
GP_MUST_USE gp_status gp_layer_copy(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_ref from, gp_ref to,
                                    gp_error *err);

/* Inputs of losses. */
enum { GP_LOSS_PREDICTION, GP_LOSS_TARGET };

/* A micro-batch's Σ loss and number right. */
gp_tensor gp_loss_partial(void);
/* Declares a loss's STATS; first in its `lower`. */
GP_MUST_USE gp_status gp_loss_declare(const gp_layer *layer, gp_lowering *lowering, gp_error *err);
/* Where lowering->predict: EVALUATE copies the prediction to its STATS. */
GP_MUST_USE gp_status gp_loss_keep_prediction(const gp_layer *layer, gp_lowering *lowering, gp_error *err);
/* The loss's total: gp_layer_type.lower_mini_batch of every loss. */
GP_MUST_USE gp_status gp_loss_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err);

#endif
