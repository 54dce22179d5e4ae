/* What the files of layers share: the table's entries, reading of options, operands that many lowerings use.
 *
 * Only src/layers includes this. Pure functions and constants; any thread.
 */
#ifndef GP_LAYERS_TYPES_H
#define GP_LAYERS_TYPES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "config/keys.h"
#include "layers/layer.h"
#include "layers/lowering.h"

/* All types, in the order of messages: each is a gp_<name>_type. */
/* clang-format off */
#define GP_LAYER_TYPES(EACH)                                                                                           \
    EACH(conv) EACH(linear) EACH(batch_norm) EACH(instance_norm) EACH(layer_norm) EACH(group_norm) EACH(relu)          \
    EACH(leaky_relu) EACH(gelu) EACH(silu) EACH(sigmoid) EACH(tanh) EACH(max_pool) EACH(avg_pool)                      \
    EACH(global_avg_pool) EACH(upsample) EACH(identity) EACH(dropout) EACH(flatten) EACH(add) EACH(concat)
#define GP_LOSS_TYPES(EACH) EACH(cross_entropy) EACH(mse) EACH(bce_logits)
/* clang-format on */

#define GP_DECLARE_TYPE(name) extern const gp_layer_type gp_##name##_type;
GP_LAYER_TYPES(GP_DECLARE_TYPE)
GP_LOSS_TYPES(GP_DECLARE_TYPE)

enum {
    GP_LAYER_MAX_WINDOW = 1 << 20
}; /* of kernel, stride, pad, dilation: sums of them fit int64 with room to spare */

/* The node that holds an option; NULL where it was not given. `main`: the option is the layer's main one, which may
 * stand alone (max_pool: 2). */
const gp_yaml *gp_layer_option(const gp_choice *choice, const char *name, bool main);
/* Rows of gp_layer_type.options: 1 … GP_LAYER_MAX_DIMENSION into an int64_t; one number or [height, width], from `low`
 * to GP_LAYER_MAX_WINDOW, into two. */
#define GP_LAYER_COUNT(option, offset, ...)                                                                            \
    { (option), &gp_int64_type, (offset), .integer = {1, GP_LAYER_MAX_DIMENSION}, __VA_ARGS__ }
#define GP_LAYER_PAIR(option, offset, low, ...)                                                                        \
    { (option), &gp_pair_type, (offset), .integer = {(low), GP_LAYER_MAX_WINDOW}, __VA_ARGS__ }
#define GP_LAYER_EPS(offset)                                                                                           \
    {                                                                                                                  \
        "eps", &gp_number_type, (offset), .unsaid = "1e-5", .number = { 0, INFINITY, 1 }                               \
    }
/* The option `pad` of a window; "same" and "valid" are refused with the number to write. */
GP_MUST_USE gp_status gp_layer_read_pad(const gp_yaml *pad, const gp_key_context *at, const int64_t kernel[2],
                                        const int64_t dilation[2], int64_t out[2], gp_error *err);
/* A single value of a normalising layer is eps; one of 1 or more is refused, since it is meant as the number of
 * channels. */
GP_MUST_USE gp_status gp_layer_check_eps(const gp_choice *choice, double eps, gp_error *err);

/* GP_CONFIG where the shape is no picture. */
GP_MUST_USE gp_status gp_layer_check_picture(gp_shape input, gp_error *err);
/* Size of a window's output along one axis, at least 1. GP_CONFIG where the kernel does not fit. `axis` is 0 (height)
 * or 1 (width); `padded` is the whole padded input, for the message. */
GP_MUST_USE gp_status gp_layer_window(gp_shape input, const int64_t kernel[2], const int64_t stride[2],
                                      const int64_t pad[2], const int64_t dilation[2], int64_t out[2], gp_error *err);

enum { GP_WEIGHT, GP_BIAS };
/* gp_layer_type.params of products: a weight, and a bias [out] where it has one, both in [−bound, bound). */
int gp_layer_weights(gp_shape weight, bool bias, double bound, gp_param_spec specs[GP_LAYER_MAX_PARAMS]);
/* The same of norms: 1 and 0, one for each channel. Returns 2. */
int gp_layer_affine(int64_t channels, gp_param_spec specs[GP_LAYER_MAX_PARAMS]);

/* "kernel 7" or "kernel 7x5", for messages. */
enum { GP_PAIR_TEXT = 48 };
const char *gp_pair_text(char buffer[GP_PAIR_TEXT], const int64_t pair[2]);

/* GP_CONFIG where `samples` of the layer's largest value would not fit an address. Every lowering begins with it. */
GP_MUST_USE gp_status gp_layer_fits(const gp_layer *layer, const gp_lowering *lowering, gp_error *err);
/* The tensor of the micro-batch for the shape of one sample, in the model's real type. */
gp_tensor gp_layer_samples(const gp_lowering *lowering, gp_shape shape);
/* [C]. */
gp_tensor gp_layer_vector(gp_dtype dtype, int64_t count);

/* What the ops of one layer share. An op takes what its operands' names say here; a name that is not set is an operand
 * that is absent. */
typedef struct gp_layer_ops {
    gp_lowering *lowering;
    uint32_t flags; /* gp_op_flags of every op */
    gp_op_attributes attributes;
    gp_tensor tensor[GP_NAMES];
    gp_ref ref[GP_NAMES];
} gp_layer_ops;

/* Begins with gp_layer_fits. Sets x (the first input), y (the output), dx, dy and scalars. */
GP_MUST_USE gp_status gp_layer_begin(const gp_layer *layer, gp_lowering *lowering, gp_layer_ops *out, gp_error *err);
void gp_layer_set(gp_layer_ops *ops, gp_operand_name name, gp_tensor tensor, gp_role role, int index);
/* The same for a slice that begins `first` elements into the whole. */
void gp_layer_set_slice(gp_layer_ops *ops, gp_operand_name name, gp_tensor tensor, gp_role role, int index,
                        int64_t first);
/* Sets w, b, dw, db by the layer's params, and the flags of its products. `format`: of w and dw. */
void gp_layer_set_weights(gp_layer_ops *ops, const gp_layer *layer, gp_format format);
/* The backward pass of an op that is its own: x is dy, and y is dx. */
gp_layer_ops gp_layer_reversed(const gp_layer_ops *ops);
/* Adds an op. `flags`: gp_lowered_flags. */
GP_MUST_USE gp_status gp_layer_op(const gp_layer_ops *ops, gp_pass pass, unsigned flags, gp_op_kind kind,
                                  gp_error *err);
/* Adds it to FORWARD and to EVALUATE. */
GP_MUST_USE gp_status gp_layer_forward(const gp_layer_ops *ops, gp_op_kind kind, gp_error *err);
/* Adds y = x for two tensors of equal dimensions. */
GP_MUST_USE gp_status gp_layer_copy(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_ref from, gp_ref to,
                                    gp_error *err);

/* Inputs of losses. */
enum { GP_LOSS_PREDICTION, GP_LOSS_TARGET };

/* A loss of ops with the operands x, target, partial, dx: declares its STATS, and adds all passes of a micro-batch.
 * Where lowering->predict, EVALUATE copies the prediction to its STATS. */
GP_MUST_USE gp_status gp_loss_lower(const gp_layer *layer, gp_lowering *lowering, gp_tensor target, gp_op_kind forward,
                                    gp_op_kind backward, gp_op_attributes attributes, gp_error *err);
/* The loss's total: gp_layer_type.lower_mini_batch of every loss. */
GP_MUST_USE gp_status gp_loss_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err);

#endif
