#include "device/device.h"

gp_status gp_device_run(const gp_device_kind *kind, gp_stream *stream, const gp_prepared *prepared,
                        void *const operands[], void *workspace, const gp_op_args *args, gp_error *err) {
    gp_device_op op = {.prepared = prepared, .workspace = workspace};
    for (uint32_t i = 0; i < prepared->desc.operands; i++) op.operands[i] = operands[i];
    if (kind->bind) GP_RETURN_IF_FAILED(kind->bind(prepared, &op.bound, err));
    gp_status status = kind->run(stream, &op, args, err);
    if (op.bound) kind->unbind(op.bound);
    return status;
}
