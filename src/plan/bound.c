#include "plan/bound.h"

#include <stdlib.h>

#include "base/memory.h"

/* ---- the ops of a worker ----------------------------------------------------------------------------------------- */

typedef struct cursor {
    const gp_plan *plan;
    int worker; /* negative: all */
    int stage, routine;
    size_t op;
} cursor;

/* The routines of a stage, by number; NULL: there are no more. */
static const gp_routine *routine_at(const gp_plan *plan, int stage, int n) {
    const gp_stage_plan *its = &plan->stage[stage];
    const gp_routine *const others[] = {&its->norm, &its->clip, &its->refresh};
    enum { OTHERS = sizeof others / sizeof *others };
    if (n < its->sized_count * GP_ROUTINES) return &its->sized[n / GP_ROUTINES].routine[n % GP_ROUTINES];
    n -= its->sized_count * GP_ROUTINES;
    if (n < OTHERS) return others[n];
    n -= OTHERS;
    if (n >= 2 * plan->mini_count) return NULL;
    return n % 2 ? &plan->minis[n / 2].step[stage] : &plan->minis[n / 2].total[stage];
}

/* The next op; NULL: there are no more. The same prepared op may come several times. */
static const gp_prepared *next_op(cursor *c) {
    for (; c->stage < c->plan->stages->count; c->stage++, c->routine = 0) {
        if (c->worker >= 0 && c->plan->stage[c->stage].worker != c->worker) continue;
        const gp_routine *routine;
        for (; (routine = routine_at(c->plan, c->stage, c->routine)); c->routine++, c->op = 0)
            if (c->op < routine->count) return routine->ops[c->op++].prepared;
    }
    return NULL;
}

/* ---- bindings ---------------------------------------------------------------------------------------------------- */

/* Makes the table. Bindings without a table stay empty: nothing of this kind is bound. */
static gp_status make_table(const gp_plan *plan, int worker, gp_bindings *out, gp_error *err) {
    const gp_prepared *op;
    uint32_t first = UINT32_MAX, last = 0;
    *out = (gp_bindings){.kind = plan->devices[worker < 0 ? 0 : worker].kind};
    for (cursor c = {.plan = plan, .worker = worker}; out->kind->bind && (op = next_op(&c));) {
        if (op->number < first) first = op->number;
        if (op->number > last) last = op->number;
    }
    if (first > last) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&out->bound, last - first + 1, err));
    out->first = first;
    out->count = last - first + 1;
    return GP_OK;
}

gp_status gp_bindings_init(const gp_plan *plan, int worker, gp_bindings *out, gp_error *err) {
    const gp_prepared *op;
    GP_RETURN_IF_FAILED(make_table(plan, worker, out, err));
    for (cursor c = {.plan = plan, .worker = worker}; out->count > 0 && (op = next_op(&c));) {
        gp_bound **bound = &out->bound[op->number - out->first];
        if (*bound) continue;
        gp_status status = out->kind->bind(op, bound, err);
        if (status == GP_OK) continue;
        gp_bindings_fini(out);
        return status;
    }
    return GP_OK;
}

void gp_bindings_fini(gp_bindings *bindings) {
    for (uint32_t i = 0; i < bindings->count; i++)
        if (bindings->bound[i]) bindings->kind->unbind(bindings->bound[i]);
    free(bindings->bound);
    *bindings = (gp_bindings){0};
}

static gp_status plan_worker(const gp_plan *plan, int worker, size_t *bytes, gp_error *err) {
    gp_bindings table;
    bool *counted = NULL;
    const gp_prepared *op;
    GP_RETURN_IF_FAILED(make_table(plan, worker, &table, err));
    *bytes = table.count * sizeof *table.bound;
    gp_status status = GP_NEW(&counted, table.count, err);
    for (cursor c = {.plan = plan, .worker = worker}; status == GP_OK && table.count > 0 && (op = next_op(&c));) {
        if (!counted[op->number - table.first]) *bytes += table.kind->bound_bytes(op);
        counted[op->number - table.first] = true;
    }
    free(counted);
    gp_bindings_fini(&table);
    return status;
}

gp_status gp_bindings_plan(gp_plan *plan, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&plan->bound, plan->workers, err));
    for (int w = 0; w < plan->workers; w++) GP_RETURN_IF_FAILED(plan_worker(plan, w, &plan->bound[w], err));
    return GP_OK;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

gp_bases gp_bases_of(const gp_plan *plan, const gp_stage_plan *stage, const gp_slot_choice *slots, int micro,
                     char *arena) {
    gp_bases bases = {.micro = (size_t)micro};
    for (int area = GP_AREA_NONE + 1; area <= GP_AREA_TRANSIENT; area++)
        bases.area[area] = arena + gp_plan_offset(plan, stage, slots, 0, (gp_address){.area = (gp_area)area});
    return bases;
}
