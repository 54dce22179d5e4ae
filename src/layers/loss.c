/* What all losses share: the STATS that they leave, the mini-batch's total, and the prediction kept where it is wanted.
 */
#include "layers/types.h"

gp_tensor gp_loss_partial(void) {
    return gp_layer_vector(GP_F64, 2);
}

gp_status gp_loss_declare(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    int index = 0;
    GP_RETURN_IF_FAILED(gp_lowering_stats(lowering, gp_loss_partial(), &index, err));
    if (!lowering->predict) return GP_OK;
    return gp_lowering_stats(lowering, gp_layer_samples(lowering, layer->inputs[GP_LOSS_PREDICTION]), &index, err);
}

gp_status gp_loss_keep_prediction(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const gp_ref from = {GP_ROLE_INPUT, GP_LOSS_PREDICTION, 0}, to = {GP_ROLE_STATS, GP_LOSS_STATS_PREDICTION, 0};
    if (!lowering->predict) return GP_OK;
    return gp_layer_copy(lowering, GP_PASS_EVALUATE, gp_layer_samples(lowering, layer->inputs[GP_LOSS_PREDICTION]),
                         from, to, err);
}

gp_status gp_loss_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_loss_declare(layer, lowering, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_TOTAL, 0, GP_OP_LOSS_TOTAL, &op, err));
    gp_lowered_operand(op, GP_LOSS_TOTAL_PARTIAL, gp_tensor_plain(GP_F64, 2, (const int64_t[]){lowering->pieces, 2}),
                       GP_ROLE_STATS_ALL, GP_LOSS_STATS_PARTIAL);
    gp_layer_scalars(op, GP_LOSS_TOTAL_SCALARS);
    return GP_OK;
}
