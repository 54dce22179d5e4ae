#include "store/params.h"

#include <stdlib.h>

#include "base/memory.h"

static size_t bytes_of(const gp_plan *plan, const gp_tensor_copy *copy) {
    int stage = plan->stages->stage_of_node[plan->graph->params[copy->param].node];
    return gp_stage_plan_param(&plan->stage[stage], copy->param)->bytes;
}

int gp_params_group(const gp_plan *plan, gp_tensor_copy *copies, int first, int count, char *buffer) {
    size_t room = gp_run_largest_param(plan), used = 0;
    int next = first;
    for (size_t bytes; next < count && (bytes = bytes_of(plan, &copies[next])) <= room - used; next++) {
        copies[next].host = buffer + used;
        used += bytes;
    }
    return next;
}

static gp_status visit_group(const gp_plan *plan, const gp_tensor_copy *copies, int first, int next,
                             gp_params_visit visit, void *context, gp_error *err) {
    for (int i = first; i < next; i++)
        GP_RETURN_IF_FAILED(visit(context, i, copies[i].host, bytes_of(plan, &copies[i]), err));
    return GP_OK;
}

static gp_status copy_groups(gp_run *run, const gp_plan *plan, bool write, gp_tensor_copy *copies, int count,
                             gp_params_visit visit, void *context, gp_error *err) {
    void *buffer = NULL;
    GP_RETURN_IF_FAILED(gp_new_array(&buffer, 1, gp_run_largest_param(plan), err));
    gp_status status = GP_OK;
    for (int first = 0, next; first < count && status == GP_OK; first = next) {
        next = gp_params_group(plan, copies, first, count, buffer);
        if (!write) status = gp_run_read(run, &copies[first], next - first, err);
        if (status == GP_OK) status = visit_group(plan, copies, first, next, visit, context, err);
        if (status == GP_OK && write) status = gp_run_write(run, &copies[first], next - first, err);
    }
    free(buffer);
    return status;
}

static gp_status copy_all(gp_run *run, const gp_plan *plan, bool write, gp_params_visit visit, void *context,
                          gp_error *err) {
    gp_tensor_copy *copies = NULL;
    int count = plan->graph->param_count;
    GP_RETURN_IF_FAILED(GP_NEW(&copies, count, err));
    for (int p = 0; p < count; p++) copies[p] = (gp_tensor_copy){.param = p, .state = -1};
    gp_status status = copy_groups(run, plan, write, copies, count, visit, context, err);
    free(copies);
    return status;
}

gp_status gp_params_read(gp_run *run, const gp_plan *plan, gp_params_visit visit, void *context, gp_error *err) {
    return copy_all(run, plan, false, visit, context, err);
}

gp_status gp_params_write(gp_run *run, const gp_plan *plan, gp_tensor_copy *copies, int count, gp_params_visit visit,
                          void *context, gp_error *err) {
    GP_RETURN_IF_FAILED(copies ? copy_groups(run, plan, true, copies, count, visit, context, err)
                               : copy_all(run, plan, true, visit, context, err));
    return gp_run_refresh(run, err);
}
