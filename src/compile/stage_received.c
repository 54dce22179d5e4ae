/* Where in its slots a stage receives values and gradients, and which routines touch them. The places are the same for
 * every size of micro-batch: what arrives in a slot's next lifetime overwrites what arrived in the last one, and
 * nothing else. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_internal.h"

_Static_assert(GP_ROUTINES <= 8, "a routine is a bit of a byte");

size_t gp_value_bytes(const gp_graph *graph, int value, int64_t samples) {
    const gp_value *v = &graph->values[value];
    gp_tensor tensor = gp_tensor_samples(v->dtype, samples, v->shape);
    return gp_tensor_bytes(&tensor);
}

int64_t gp_stage_samples(const gp_stage_plan *plan, const gp_stage_request *request, int64_t micro_batch) {
    const gp_stage *stage = gp_stage_of(plan, request);
    return gp_share_of(micro_batch, stage->replicas, stage->replica).count;
}

/* Of the largest micro-batch that is met, or that is trained, the first replica's, which is the largest share; 0:
 * none. */
static int64_t most_samples(const gp_stage_plan *plan, const gp_stage_request *request, bool trained) {
    int64_t most = 0;
    for (int i = 0; i < request->size_count; i++)
        if ((!trained || request->sizes[i].training) && request->sizes[i].samples > most)
            most = request->sizes[i].samples;
    return gp_share_of(most, gp_stage_of(plan, request)->replicas, 0).count;
}

static int value_at(const gp_stage_request *request, const gp_indices *list, bool edges, size_t i) {
    return edges ? request->stages->edges[list->items[i]].value : list->items[i];
}

/* Of values, or of those that edges carry, one behind the other from `start` on; last, where they end. Edges of one
 * value, which stand together, carry samples of one tensor. */
static gp_status place(const gp_stage_request *request, const gp_indices *list, bool edges, int64_t samples,
                       size_t start, size_t **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, list->count + 1, err));
    (*out)[0] = start;
    for (size_t i = 0; i < list->count; i++) {
        int value = value_at(request, list, edges, i);
        if (i > 0 && value_at(request, list, edges, i - 1) == value) (*out)[i] = (*out)[i - 1];
        size_t bytes = samples > 0 ? gp_value_bytes(request->stages->graph, value, samples) : 0;
        (*out)[i + 1] = (*out)[i] + gp_align_up(bytes, GP_ALIGNMENT);
    }
    return GP_OK;
}

gp_status gp_stage_place_received(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    int64_t met = most_samples(plan, request, false), trained = most_samples(plan, request, true);
    GP_RETURN_IF_FAILED(place(request, &stage->takes, false, met, 0, &plan->takes, err));
    GP_RETURN_IF_FAILED(place(request, &stage->grad_in, true, trained, 0, &plan->grad_in, err));
    size_t end = plan->grad_in[stage->grad_in.count];
    return place(request, &stage->grad_out, true, trained, end, &plan->grad_out, err);
}

/* An operand that begins at `offset` lies in one of them, or behind all. */
static void note_user(const size_t *places, size_t count, size_t offset, gp_routine_kind kind, uint8_t *users) {
    size_t low = 0, high = count;
    if (offset >= places[count]) return;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(places[middle] <= offset ? &low : &high) = middle;
    }
    for (size_t i = low + 1; i-- > 0 && places[i] == places[low];) users[i] = (uint8_t)(users[i] | 1U << kind);
}

gp_status gp_stage_find_users(const gp_stage_plan *plan, const gp_stage_request *request, gp_sized *sized,
                              gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    GP_RETURN_IF_FAILED(GP_NEW(&sized->take_users, stage->takes.count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&sized->grad_users, stage->grad_in.count, err));
    for (int r = 0; r < GP_ROUTINES; r++) {
        const gp_routine *routine = &sized->routine[r];
        for (size_t i = 0; i < routine->count * GP_MAX_OPERANDS; i++) {
            const gp_address *at = &routine->ops[i / GP_MAX_OPERANDS].operand[i % GP_MAX_OPERANDS];
            if (at->area == GP_AREA_STASH)
                note_user(plan->takes, stage->takes.count, at->offset, (gp_routine_kind)r, sized->take_users);
            if (at->area == GP_AREA_GRAD)
                note_user(plan->grad_in, stage->grad_in.count, at->offset, (gp_routine_kind)r, sized->grad_users);
        }
    }
    return GP_OK;
}
