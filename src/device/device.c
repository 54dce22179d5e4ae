#include "device/device.h"

#include <stdio.h>
#include <string.h>

gp_status gp_device_op_check(const gp_device_op *op, gp_error *err) {
    const gp_op_desc *desc = &op->prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++)
        if ((op->operands[i] != NULL) != (desc->operand[i].present != 0))
            return gp_fail(err, GP_INTERNAL, "%s: operand %s %s", gp_op_name(desc->kind),
                           gp_op_operand_name(desc->kind, i),
                           op->operands[i] ? "has an address but is absent" : "has no address");
    return GP_OK;
}

gp_status gp_device_run(const gp_device_kind *kind, gp_stream *stream, const gp_prepared *prepared,
                        void *const operands[], void *workspace, const gp_op_args *args, gp_error *err) {
    gp_device_op op = {.prepared = prepared, .workspace = workspace};
    for (uint32_t i = 0; i < prepared->desc.operands; i++) op.operands[i] = operands[i];
    if (kind->bind) GP_RETURN_IF_FAILED(kind->bind(prepared, &op.bound, err));
    gp_status status = kind->run(stream, &op, args, err);
    if (op.bound) kind->unbind(op.bound);
    return status;
}

const char *gp_device_libraries(const gp_device_spec *devices, int count, char text[GP_LIBRARIES_TEXT]) {
    text[0] = '\0';
    for (int d = 0; d < count; d++) {
        const gp_device_kind *kind = devices[d].kind;
        bool before = false;
        for (int e = 0; e < d; e++) before = before || devices[e].kind == kind;
        if (before || !kind->libraries) continue;
        size_t used = strlen(text);
        snprintf(text + used, GP_LIBRARIES_TEXT - used, "%s%s", used ? ", " : "", kind->libraries());
    }
    return text;
}

void gp_device_count(const gp_device_kind *kind, const gp_op_desc *desc, double *flops, double *bytes) {
    gp_op_count(desc, flops, bytes);
    if (kind && kind->effort) *flops *= kind->effort(desc);
}
