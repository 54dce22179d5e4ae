#include "compile/stage_plan.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_internal.h"

const char *gp_memory_kind_name(gp_memory_kind kind) {
#define GP_MEMORY_NAME(suffix, name) [GP_MEMORY_##suffix] = name,
    static const char *const names[] = {GP_MEMORY_MAP(GP_MEMORY_NAME)};
#undef GP_MEMORY_NAME
    return names[kind];
}

static gp_status compile_sizes(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&plan->sized, request->size_count, err));
    plan->sized_count = request->size_count;
    for (int i = 0; i < request->size_count; i++) {
        gp_sized *sized = &plan->sized[i];
        sized->micro_batch = request->sizes[i].samples;
        sized->samples = gp_stage_samples(plan, request, request->sizes[i].samples);
        sized->training = request->sizes[i].training;
        sized->evaluation = request->sizes[i].evaluation;
        if (sized->samples > 0) GP_RETURN_IF_FAILED(gp_stage_compile(plan, request, sized, err));
        GP_RETURN_IF_FAILED(gp_stage_find_users(plan, request, sized, err));
        const gp_routine *evaluate = &sized->routine[GP_ROUTINE_EVALUATE];
        if (evaluate->transient + evaluate->workspace > plan->evaluation)
            plan->evaluation = evaluate->transient + evaluate->workspace;
        if (evaluate->alive > plan->alive) plan->alive = evaluate->alive;
        for (int f = 0; f < GP_FRAMES; f++)
            if (sized->frame[f] > plan->frame_stride[f]) plan->frame_stride[f] = sized->frame[f];
    }
    return GP_OK;
}

gp_status gp_stage_plan_init(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    plan->consumes = request->consumes;
    GP_RETURN_IF_FAILED(gp_stage_choose_formats(plan, request, err));
    GP_RETURN_IF_FAILED(gp_stage_place_fixed(plan, request, err));
    GP_RETURN_IF_FAILED(gp_stage_place_received(plan, request, err));
    GP_RETURN_IF_FAILED(compile_sizes(plan, request, err));
    GP_RETURN_IF_FAILED(gp_stage_compile_refresh(plan, request, err));
    gp_stage_plan_fit(plan, &plan->refresh);
    GP_RETURN_IF_FAILED(gp_stage_compile_update(plan, request, err));
    gp_stage_plan_fit(plan, &plan->update);
    if (!request->stages->norms) return GP_OK;
    GP_RETURN_IF_FAILED(gp_stage_compile_norm(plan, request, err));
    gp_stage_plan_fit(plan, &plan->norm);
    gp_stage_plan_fit(plan, &plan->clip);
    return GP_OK;
}

void gp_stage_plan_fini(gp_stage_plan *plan) {
    for (int i = 0; plan->sized && i < plan->sized_count; i++) {
        gp_sized *sized = &plan->sized[i];
        free(sized->gives_outbox);
        free(sized->gives_saved);
        free(sized->take_users);
        free(sized->grad_users);
        for (int r = 0; r < GP_ROUTINES; r++) gp_routine_fini(&sized->routine[r]);
    }
    free(plan->takes);
    free(plan->grad_in);
    free(plan->grad_out);
    free(plan->sized);
    free(plan->choices);
    free(plan->params);
    free(plan->stats);
    free(plan->cuts);
    gp_routine_fini(&plan->refresh);
    gp_routine_fini(&plan->norm);
    gp_routine_fini(&plan->clip);
    gp_routine_fini(&plan->update);
    *plan = (gp_stage_plan){0};
}
