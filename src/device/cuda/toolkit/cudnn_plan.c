/* Convolutions through cuDNN. */
#include "device/cuda/toolkit/choices.h"
#include "device/cuda/toolkit/cudnn_device.h"
#include "device/cuda/toolkit/plan.h"

/* Position of the weights among the operands. */
static int weights_operand(gp_op_kind kind) {
    if (kind == GP_OP_CONV_FORWARD) return GP_CONV_FORWARD_W;
    return kind == GP_OP_CONV_BACKWARD_DATA ? (int)GP_CONV_BACKWARD_DATA_W : (int)GP_CONV_BACKWARD_WEIGHTS_DW;
}

static gp_status check_operands(const gp_op_desc *desc, gp_error *err) {
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *t = &desc->operand[i];
        if (t->present && t->dtype != GP_F32)
            return gp_fail(err, GP_UNSUPPORTED, "cuda: %s does not take %s as its operand %s", gp_op_name(desc->kind),
                           gp_dtype_name(t->dtype), gp_op_operand_name(desc->kind, i));
        if (t->present && t->format != GP_FORMAT_PLAIN && t->format != GP_CUDA_FORMAT_CHANNELS_LAST)
            return gp_fail(err, GP_UNSUPPORTED, "cuda: %s does not know format %u of its operand %s",
                           gp_op_name(desc->kind), t->format, gp_op_operand_name(desc->kind, i));
    }
    if (desc->kind == GP_OP_CONV_BACKWARD_WEIGHTS && desc->operand[GP_CONV_BACKWARD_WEIGHTS_DB].present)
        return gp_fail(err, GP_UNSUPPORTED, "cuda: cuDNN sums no gradient of a bias");
    return GP_OK;
}

/* Tensor cores want the channels last. The other engines turn pictures and weights themselves. */
static gp_format choose_format(const gp_op_desc *desc, const gp_tensor *w) {
    bool one_place = w->dim[2] * w->dim[3] == 1, one_channel = w->dim[1] == 1;
    if (one_place || one_channel) return GP_FORMAT_PLAIN; /* either way the same bytes */
    return desc->flags & GP_OP_TF32 ? GP_CUDA_FORMAT_CHANNELS_LAST : GP_FORMAT_PLAIN;
}

/* What was chosen before, as far as it still does; else what cuDNN proposes now. */
static gp_status choose_engine(const gp_op_desc *desc, const gp_cudnn_device *device, gp_cudnn_engine *engine,
                               gp_cudnn_built *built, gp_error *err) {
    gp_error refused;
    uint64_t key = gp_choice_key(desc, device->name, gp_cudnn.cudnnGetVersion());
    if (gp_choice_find(key, engine) &&
        gp_cudnn_engine_build(desc, device->properties, engine, built, &refused) == GP_OK)
        return GP_OK;
    GP_RETURN_IF_FAILED(gp_cudnn_engine_choose(desc, device->properties, engine, err));
    GP_RETURN_IF_FAILED(gp_cudnn_engine_build(desc, device->properties, engine, built, err));
    gp_choice_add(key, engine);
    return GP_OK;
}

/* A gradient that adds up is computed by the engine that overwrites it, so that no micro-batch falls to a slower one.
 * Where that engine does not add, the planner does (device.h). */
static gp_status choose_adding_engine(const gp_op_desc *desc, const gp_cudnn_device *device, gp_cudnn_engine *engine,
                                      gp_cudnn_built *built, gp_error *err) {
    gp_op_desc first = *desc;
    first.flags &= ~(uint32_t)GP_OP_ACCUMULATE;
    GP_RETURN_IF_FAILED(choose_engine(&first, device, engine, built, err));
    gp_cudnn_built_fini(built);
    return gp_cudnn_engine_build(desc, device->properties, engine, built, err);
}

gp_status gp_cudnn_plan_fill(gp_prepared *prepared, gp_cuda_plan *plan, gp_error *err) {
    gp_op_desc *desc = &plan->desc;
    const gp_cudnn_device *device;
    gp_tensor *w = &desc->operand[weights_operand(desc->kind)];
    if (w->format == GP_FORMAT_ANY) w->format = choose_format(desc, w);
    GP_RETURN_IF_FAILED(check_operands(desc, err));
    GP_RETURN_IF_FAILED(gp_cudnn_open(err));
    GP_RETURN_IF_FAILED(gp_cudnn_device_get(&device, err));
    gp_cudnn_built built = {0};
    bool adds = desc->flags & GP_OP_ACCUMULATE;
    GP_RETURN_IF_FAILED((adds ? choose_adding_engine : choose_engine)(desc, device, &plan->engine, &built, err));
    plan->workspace = built.workspace;
    gp_cudnn_built_fini(&built);
    for (int i = 0; i < (int)desc->operands; i++) {
        prepared->operand[i].format = desc->operand[i].format;
        prepared->operand[i].bytes = gp_tensor_bytes(&desc->operand[i]);
    }
    return GP_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

gp_status gp_cudnn_handle(gp_cuda_library *library, gp_error *err) {
    if (library->cudnn) return GP_OK;
    GP_RETURN_IF_FAILED(gp_cudnn_open(err));
    GP_RETURN_IF_FAILED(gp_cudnn_device_live(&library->parts, &library->device, err));
    GP_RETURN_IF_FAILED(gp_cudnn_check(gp_cudnn.cudnnCreate(&library->cudnn), "cudnnCreate", err));
    return gp_cudnn_check(gp_cudnn.cudnnSetStream(library->cudnn, library->stream), "cudnnSetStream", err);
}

static gp_status build(gp_cuda_library *library, const gp_cuda_plan *plan, gp_cudnn_built *out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cudnn_handle(library, err));
    gp_cudnn_built built = {0};
    GP_RETURN_IF_FAILED(gp_cudnn_engine_build(&plan->desc, library->device, &plan->engine, &built, err));
    if (built.workspace > plan->workspace) {
        gp_status status =
            gp_fail(err, GP_DEVICE, "cuda: %s needs %zu bytes of workspace on this device, but the plan has %zu",
                    gp_op_name(plan->desc.kind), built.workspace, plan->workspace);
        gp_cudnn_built_fini(&built);
        return status;
    }
    *out = built;
    return GP_OK;
}

gp_status gp_cudnn_run(gp_cuda_library *library, const gp_cuda_plan *plan, gp_cuda_ready *ready, void *const operands[],
                       void *workspace, gp_error *err) {
    gp_cudnn_part pack;
    if (!ready->convolution.plan) GP_RETURN_IF_FAILED(build(library, plan, &ready->convolution, err));
    GP_RETURN_IF_FAILED(
        gp_cudnn_packs_find(&library->packs, plan->number, &plan->desc, operands, workspace, &pack, err));
    return gp_cudnn_check(gp_cudnn.cudnnBackendExecute(library->cudnn, ready->convolution.plan, pack),
                          "cudnnBackendExecute", err);
}
