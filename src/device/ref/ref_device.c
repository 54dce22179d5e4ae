/* The reference device: opening, preparing, running. */
#include "device/ref/ref.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/host.h"
#include "device/op_info.h"
#include "device/ref/ref_ops.h"
#include "device/rows.h"

typedef void ref_loop(const ref_call *call);

static ref_loop *const loops[GP_OP_KINDS] = {
#define GP_OP(NAME, name, ...) [GP_OP_##NAME] = ref_##name,
#include "device/op_table.inc"
};

static gp_status ref_prepare(gp_prepared *prepared, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (tensor->format != GP_FORMAT_PLAIN && tensor->format != GP_FORMAT_ANY) {
            return gp_fail(err, GP_UNSUPPORTED, "ref cannot %s: %s has format %u, and it knows only plain ones",
                           gp_op_name(desc->kind), gp_op_operand_name(desc->kind, i), tensor->format);
        }
    }
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_operand_info *operand = &gp_op_info_of(desc->kind)->operand[i];
        gp_dtype dtype = desc->operand[i].dtype;
        if (operand->type <= GP_OPERAND_WEIGHTS && dtype != GP_F32 && dtype != GP_F64) {
            return gp_fail(err, GP_UNSUPPORTED, "ref: %s does not take %s as its operand %s", gp_op_name(desc->kind),
                           gp_dtype_name(dtype), operand->name);
        }
        prepared->operand[i] = (gp_operand_storage){GP_FORMAT_PLAIN, gp_tensor_bytes(&desc->operand[i])};
    }
    prepared->workspace = 0;
    gp_op_allow_in_place(prepared);
    return GP_OK;
}

static void ref_release(gp_prepared *prepared) {
    prepared->context = NULL;
}

static gp_status ref_open(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    gp_host host, *device;
    GP_RETURN_IF_FAILED(gp_host_init(&host, spec, err));
    if (spec->threads > 1) {
        return gp_fail(err, GP_UNSUPPORTED, "ref: %d threads: it has only 1", spec->threads);
    }
    GP_RETURN_IF_FAILED(GP_NEW(&device, 1, err));
    *device = host;
    *out = (gp_device *)device;
    return GP_OK;
}

static void ref_close(gp_device *device) {
    free(device);
}

/* A stream remembers nothing: its address tells it apart. */
static gp_status ref_stream_create(gp_device *device, bool copies, gp_stream **out, gp_error *err) {
    char *stream;
    (void)device;
    (void)copies;
    GP_RETURN_IF_FAILED(GP_NEW(&stream, 1, err));
    *out = (gp_stream *)(void *)stream;
    return GP_OK;
}

static void ref_stream_destroy(gp_stream *stream) {
    free(stream);
}

static gp_status ref_run(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    (void)stream;
    const gp_op_desc *desc = &op->prepared->desc;
    gp_status status = GP_OK;
    ref_call call = {.desc = desc, .args = args, .status = &status, .err = err};
    GP_RETURN_IF_FAILED(gp_device_op_check(op, err));
    for (int i = 0; i < (int)desc->operands; i++)
        call.named[gp_op_operand_named(desc->kind, i)] = (ref_view){&desc->operand[i], op->operands[i]};
    loops[desc->kind](&call);
    return status;
}

const gp_device_kind gp_ref_kind = {
    .name = "ref",
    .computes = 1U << GP_F32 | 1U << GP_F64,
    .square_block = REF_SQUARE_BLOCK,
    GP_HOST_FUNCTIONS,
    .prepare = ref_prepare,
    .release = ref_release,
    .open = ref_open,
    .close = ref_close,
    .stream_create = ref_stream_create,
    .stream_destroy = ref_stream_destroy,
    .run = ref_run,
};
