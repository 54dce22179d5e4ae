#include "plan/bound.h"

#include <stdlib.h>

#include "base/memory.h"

typedef struct cursor {
    const gp_plan *plan;
    int worker; /* negative: all */
    int stage, routine;
    size_t op;
} cursor;

/* The routines of a stage, by number; NULL: there are no more. */
static const gp_routine *routine_at(const gp_plan *plan, int stage, int n) {
    static const gp_routine none;
    const gp_stage_plan *its = &plan->stage[stage];
    const gp_routine *const others[] = {&its->norm, &its->clip, &its->update, &its->refresh};
    enum { OTHERS = sizeof others / sizeof *others };
    if (n < its->sized_count * GP_ROUTINES) return &its->sized[n / GP_ROUTINES].routine[n % GP_ROUTINES];
    n -= its->sized_count * GP_ROUTINES;
    if (n < OTHERS) return others[n];
    n -= OTHERS;
    int buckets = plan->stages->stage[stage].buckets, each = 2 + buckets;
    if (n >= each * plan->mini_count) return NULL;
    const gp_mini_plan *mini = &plan->minis[n / each];
    n %= each;
    if (n < 2) return n == 0 ? &mini->total[stage] : &mini->step[stage];
    return mini->reduce[stage] ? &mini->reduce[stage][n - 2] : &none;
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

/* The ops of a worker that a device binds, each once, by number: [number − out->first]. Bindings without ops stay
 * empty.
 */
static gp_status list_ops(const gp_plan *plan, int worker, gp_bindings *out, const gp_prepared ***ops, gp_error *err) {
    const gp_prepared *op;
    uint32_t first = UINT32_MAX, last = 0;
    *out = (gp_bindings){.kind = plan->devices[worker < 0 ? 0 : worker].kind};
    for (cursor c = {.plan = plan, .worker = worker}; out->kind->bind && (op = next_op(&c));) {
        if (op->number < first) first = op->number;
        if (op->number > last) last = op->number;
    }
    if (first > last) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(ops, last - first + 1, err));
    out->first = first;
    out->count = last - first + 1;
    for (cursor c = {.plan = plan, .worker = worker}; (op = next_op(&c));) (*ops)[op->number - first] = op;
    return GP_OK;
}

gp_status gp_bindings_init(const gp_plan *plan, int worker, gp_bindings *out, gp_error *err) {
    const gp_prepared **ops = NULL;
    GP_RETURN_IF_FAILED(list_ops(plan, worker, out, &ops, err));
    gp_status status = out->count > 0 ? GP_NEW(&out->bound, out->count, err) : GP_OK;
    for (uint32_t i = 0; i < out->count && status == GP_OK; i++)
        if (ops[i]) status = out->kind->bind(ops[i], &out->bound[i], err);
    free(ops);
    if (status != GP_OK) gp_bindings_fini(out);
    return status;
}

void gp_bindings_fini(gp_bindings *bindings) {
    for (uint32_t i = 0; bindings->bound && i < bindings->count; i++)
        if (bindings->bound[i]) bindings->kind->unbind(bindings->bound[i]);
    free(bindings->bound);
    *bindings = (gp_bindings){0};
}

gp_status gp_bindings_plan(gp_plan *plan, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&plan->bound, plan->workers, err));
    for (int w = 0; w < plan->workers; w++) {
        gp_bindings table;
        const gp_prepared **ops = NULL;
        GP_RETURN_IF_FAILED(list_ops(plan, w, &table, &ops, err));
        plan->bound[w] = table.count * sizeof *table.bound;
        for (uint32_t i = 0; i < table.count; i++)
            if (ops[i]) plan->bound[w] += table.kind->bound_bytes(ops[i]);
        free(ops);
    }
    return GP_OK;
}

gp_bases gp_bases_of(const gp_plan *plan, const gp_stage_plan *stage, const gp_slot_choice *slots, int micro,
                     char *arena) {
    gp_bases bases = {.micro = (size_t)micro};
    for (int area = GP_AREA_NONE + 1; area < GP_AREAS; area++)
        bases.area[area] = arena + gp_plan_offset(plan, stage, slots, 0, (gp_address){.area = (gp_area)area});
    return bases;
}
