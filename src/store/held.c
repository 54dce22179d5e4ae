#include "store/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/follow.h"
#include "store/snapshot.h"

struct gp_held {
    gp_state_layout layout; /* of the run that it was taken from. A tensor without a place is held by another process */
    int *home;              /* [tensor] the process that holds it */
    char *memory;
};

static gp_status place(gp_held *its, const gp_plan *plan, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_state_layout_init(&its->layout, plan, err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->home, its->layout.count, err));
    GP_RETURN_IF_FAILED(gp_new_array((void **)&its->memory, 1, gp_state_own_bytes(plan), err));
    gp_state_layout_place_own(&its->layout, its->memory);
    for (int i = 0; i < its->layout.count; i++) its->home[i] = gp_run_home(plan, its->layout.copies[i].param);
    return GP_OK;
}

static gp_status take(gp_held *its, gp_run *run, const gp_plan *plan, gp_error *err) {
    GP_RETURN_IF_FAILED(place(its, plan, err));
    for (int i = 0; i < its->layout.count; i++) {
        const gp_tensor_copy *copy = &its->layout.copies[i];
        GP_RETURN_IF_FAILED(gp_run_gather(run, copy, 1, its->home[i], err));
        if (copy->host) GP_RETURN_IF_FAILED(gp_state_check_tensor(&its->layout, i, copy->host, err));
    }
    return GP_OK;
}

/* The others would wait for this process. */
static gp_status settle(gp_run *run, gp_status status, const gp_error *err) {
    if (status != GP_OK) (void)gp_cancel_raise(gp_run_cancel(run), err);
    return status;
}

gp_status gp_held_take(gp_run *run, const gp_plan *plan, gp_held **out, gp_error *err) {
    gp_held *its = NULL;
    gp_status status = GP_NEW(&its, 1, err);
    if (status == GP_OK) status = take(its, run, plan, err);
    if (status == GP_OK)
        *out = its;
    else
        gp_held_destroy(&its);
    return settle(run, status, err);
}

static int find(const gp_state_layout *layout, const char *name) {
    int i = 0;
    while (i < layout->count && strcmp(layout->items[i].name, name) != 0) i++;
    return i;
}

static gp_status give(const gp_held *held, gp_run *run, const gp_state_layout *to, gp_error *err) {
    for (int i = 0; i < to->count; i++) {
        int from = find(&held->layout, to->items[i].name);
        if (from == held->layout.count) continue;
        const gp_tensor_copy copy = {to->copies[i].param, to->copies[i].state, held->layout.copies[from].host};
        GP_RETURN_IF_FAILED(gp_run_spread(run, &copy, 1, held->home[from], err));
    }
    return GP_OK;
}

gp_status gp_held_give(const gp_held *held, gp_run *run, const gp_plan *plan, gp_error *err) {
    gp_state_layout to;
    gp_status status = gp_state_layout_init(&to, plan, err);
    if (status == GP_OK) {
        status = give(held, run, &to, err);
        gp_state_layout_fini(&to);
    }
    return settle(run, status, err);
}

void gp_held_destroy(gp_held **held) {
    gp_held *its = *held;
    if (!its) return;
    gp_state_layout_fini(&its->layout);
    free(its->home);
    free(its->memory);
    free(its);
    *held = NULL;
}
