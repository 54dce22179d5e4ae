/* The state of a run between two of its configurations. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/trainer_internal.h"

void gp_carried_fini(gp_carried *carried) {
    gp_state_layout_fini(&carried->layout);
    free(carried->block);
    *carried = (gp_carried){0};
}

static const gp_state_tensor *find_tensor(const gp_state_layout *layout, const char *name) {
    for (int i = 0; i < layout->count; i++)
        if (strcmp(layout->tensors[i].name, name) == 0) return &layout->tensors[i];
    return NULL;
}

/* A state that there was not begins with zeros, as in the first step of a run. */
gp_status gp_carried_give(gp_carried *carried, gp_run *run, const gp_plan *plan, gp_error *err) {
    gp_state_layout layout;
    gp_tensor_copy *copies = NULL;
    int count = 0;
    GP_RETURN_IF_FAILED(gp_state_layout_init(&layout, plan, err));
    gp_status status = GP_NEW(&copies, layout.count, err);
    for (int i = 0; i < layout.count && status == GP_OK; i++) {
        const gp_state_tensor *to = &layout.tensors[i], *from = find_tensor(&carried->layout, to->name);
        if (from) copies[count++] = (gp_tensor_copy){to->param, to->state, carried->block + from->offset};
    }
    if (status == GP_OK) status = gp_run_write(run, copies, count, err);
    free(copies);
    gp_state_layout_fini(&layout);
    return status == GP_OK ? gp_run_refresh(run, err) : status;
}
