/* What all losses share: their passes, the STATS that they leave, the mini-batch's total, and the prediction kept where
 * it is wanted. */
#include "base/share.h"
#include "layers/types.h"

/* A micro-batch's Σ loss and number right; then the prediction. */
static gp_status declare_stats(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    int index = 0;
    GP_RETURN_IF_FAILED(
        gp_lowering_stats(lowering, gp_layer_vector(GP_F64, 2), GP_STATS_PARTS | GP_STATS_MERGED, &index, err));
    if (!lowering->predict) return GP_OK;
    return gp_lowering_stats(lowering, gp_layer_samples(lowering, layer->inputs[GP_LOSS_PREDICTION]), 0, &index, err);
}

gp_status gp_loss_lower(const gp_layer *layer, gp_lowering *lowering, gp_tensor target, gp_op_kind forward,
                        gp_op_kind backward, gp_op_attributes attributes, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    GP_RETURN_IF_FAILED(declare_stats(layer, lowering, err));
    ops.attributes = attributes;
    gp_layer_set(&ops, GP_NAME_TARGET, target, GP_ROLE_INPUT, GP_LOSS_TARGET);
    gp_layer_set(&ops, GP_NAME_PARTIAL, gp_layer_vector(GP_F64, 2), GP_ROLE_STATS, GP_LOSS_STATS_PARTIAL);
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_FORWARD, GP_LOWERED_ONCE, forward, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_EVALUATE, 0, forward, err));
    if (lowering->predict)
        GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_EVALUATE, ops.tensor[GP_NAME_X],
                                          (gp_ref){GP_ROLE_INPUT, GP_LOSS_PREDICTION, 0},
                                          (gp_ref){GP_ROLE_STATS, GP_LOSS_STATS_PREDICTION, 0}, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, backward, err);
}

/* Of empty shares there is none. */
static void set_partials(const gp_lowering *lowering, gp_op_desc *desc) {
    int replicas = lowering->replicas;
    int full = gp_share_takers(lowering->samples, replicas), last = gp_share_takers(lowering->last, replicas);
    if (full < replicas || last < replicas)
        desc->attributes.loss_total = (gp_loss_total_attributes){replicas, full, last};
}

gp_status gp_loss_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(declare_stats(layer, lowering, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_TOTAL, 0, GP_OP_LOSS_TOTAL, &op, err));
    set_partials(lowering, &op->desc);
    gp_lowered_operand(op, GP_LOSS_TOTAL_PARTIAL,
                       gp_tensor_plain(GP_F64, 2, (const int64_t[]){lowering->pieces * lowering->replicas, 2}),
                       GP_ROLE_STATS_ALL, GP_LOSS_STATS_PARTIAL);
    gp_lowered_operand(op, GP_LOSS_TOTAL_SCALARS, gp_tensor_scalars(), GP_ROLE_SCALARS, 0);
    return GP_OK;
}
