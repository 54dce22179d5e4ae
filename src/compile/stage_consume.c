/* Updates within the backward pass: each gradient is used as soon as it is complete, and lives no longer.
 *
 * Only where nothing else needs the gradients (gp_stage_request.consumes): one micro-batch, so that nothing adds up;
 * one stage, whose loss is known to be finite or not before its backward begins; no norms. An update has the same
 * operands as at the end of the step, so it has the same bits. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_things.h"

enum { NONE = -1 };

/* Of a parameter of the stage. */
typedef struct gradient {
    int thing; /* NONE: no op makes it */
    int last;  /* the last op of the backward that touches the gradient, or reads the parameter */
} gradient;

typedef struct consumer {
    gp_stage_compiler *compiler;
    gradient *gradients; /* [parameter of the stage] */
    gp_staged_list list; /* the backward with its updates */
} consumer;

/* The parameter whose gradient the operand is; NONE: it is something else. */
static int gradient_of(const consumer *c, const gp_staged_op *op, const gp_staged_operand *operand) {
    const gp_stage_plan *plan = c->compiler->plan;
    if (operand->thing >= 0 || operand->fixed.area == GP_AREA_NONE || operand->role.role != GP_ROLE_GRAD_PARAM)
        return NONE;
    const int param = c->compiler->graph->nodes[op->node].first_param + operand->role.index;
    return (int)(gp_stage_plan_param(plan, param) - plan->params);
}

static bool is_at(const gp_address *address, size_t offset, size_t bytes) {
    return address->area == GP_AREA_FIXED && bytes > 0 && address->offset >= offset && address->offset < offset + bytes;
}

static void note_readers(consumer *c, const gp_staged_op *op, int place) {
    const gp_stage_plan *plan = c->compiler->plan;
    for (int i = 0; i < GP_MAX_OPERANDS; i++)
        for (int p = 0; p < plan->param_count && op->operand[i].thing < 0; p++) {
            const gp_param_plan *param = &plan->params[p];
            const gp_address *at = &op->operand[i].fixed;
            if (is_at(at, param->master, param->stored) || is_at(at, param->copy.offset, param->copy.bytes))
                c->gradients[p].last = place;
        }
}

/* What stood for a place among the gradients becomes a thing. */
static gp_status name_gradients(consumer *c, gp_staged_op *op, int place, gp_error *err) {
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        gp_staged_operand *operand = &op->operand[i];
        int p = gradient_of(c, op, operand);
        if (p < 0) continue;
        gradient *its = &c->gradients[p];
        if (its->thing < 0)
            GP_RETURN_IF_FAILED(
                gp_compiler_thing(c->compiler, c->compiler->plan->params[p].grad_bytes, &its->thing, err));
        operand->thing = its->thing;
        operand->first = operand->fixed.offset - c->compiler->plan->params[p].grad;
        operand->fixed = (gp_address){GP_AREA_NONE, 0, 0};
        its->last = place;
    }
    return GP_OK;
}

/* Ops that only later micro-batches run are left out: there are none. */
static gp_status find_gradients(consumer *c, gp_error *err) {
    gp_staged_list *list = &c->compiler->backward;
    size_t kept = 0;
    for (size_t o = 0; o < list->count; o++) {
        gp_staged_op op = list->items[o];
        if (op.when == GP_WHEN_REST) continue;
        GP_RETURN_IF_FAILED(name_gradients(c, &op, (int)kept, err));
        note_readers(c, &op, (int)kept);
        list->items[kept++] = op;
    }
    list->count = kept;
    return GP_OK;
}

static gp_status add_update(consumer *c, int p, gp_error *err) {
    const gp_param_plan *param = &c->compiler->plan->params[p];
    const gp_staged_operand grad = {.thing = c->gradients[p].thing};
    int ordered;
    GP_RETURN_IF_FAILED(gp_compiler_thing(c->compiler, param->stored, &ordered, err));
    return gp_stage_update(c->compiler->plan, c->compiler->request, param, grad, ordered, &c->list, err);
}

/* The backward again, each update after the last op that touches its gradient or reads its parameter. */
static gp_status add_updates(consumer *c, gp_error *err) {
    const gp_stage_plan *plan = c->compiler->plan;
    const gp_staged_list *backward = &c->compiler->backward;
    for (size_t o = 0; o < backward->count; o++) {
        GP_RETURN_IF_FAILED(gp_staged_add(&c->list, backward->items[o], err));
        for (int p = 0; p < plan->param_count; p++)
            if (c->gradients[p].thing >= 0 && c->gradients[p].last == (int)o)
                GP_RETURN_IF_FAILED(add_update(c, p, err));
    }
    for (int p = 0; p < plan->param_count; p++)
        if (plan->params[p].trained && c->gradients[p].thing < 0)
            return gp_fail(err, GP_INTERNAL, "no op makes the gradient of parameter %s",
                           c->compiler->graph->params[plan->params[p].param].name);
    return GP_OK;
}

gp_status gp_compiler_consume(gp_stage_compiler *compiler, gp_error *err) {
    consumer c = {.compiler = compiler};
    GP_RETURN_IF_FAILED(GP_NEW(&c.gradients, compiler->plan->param_count, err));
    for (int p = 0; p < compiler->plan->param_count; p++) c.gradients[p] = (gradient){NONE, NONE};
    gp_status status = find_gradients(&c, err);
    if (status == GP_OK) status = add_updates(&c, err);
    free(c.gradients);
    if (status != GP_OK) {
        free(c.list.items);
        return status;
    }
    free(compiler->backward.items);
    compiler->backward = c.list;
    return GP_OK;
}
