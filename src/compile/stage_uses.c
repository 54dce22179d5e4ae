#include "compile/stage_uses.h"

static void count_uses(const gp_staged_list *list, gp_thing_uses *uses) {
    for (size_t o = 0; o < list->count; o++) {
        const gp_staged_op *op = &list->items[o];
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            if (op->operand[i].thing < 0) continue;
            gp_thing_uses *its = &uses[op->operand[i].thing];
            if (gp_op_reads(op->prepared->desc.kind, i)) its->reads++;
            if (!gp_op_writes(op->prepared->desc.kind, i)) continue;
            its->writer = (int)o;
            its->writes++;
        }
    }
}

static void mark_placed(const gp_stage_compiler *c, const gp_staged_list *list, gp_thing_uses *uses) {
    bool backward = list == &c->backward;
    for (size_t i = 0; i < c->stage->gives.count; i++)
        uses[gp_compiler_value(c, c->stage->gives.items[i])].placed = true;
    for (size_t i = 0; i < c->stage->grad_in.count && backward; i++) uses[c->grad_in[i]].placed = true;
    for (size_t i = 0; i < c->stage->grad_out.count && backward; i++) uses[c->grad_out[i]].placed = true;
    for (int n = 0; n < c->stage->node_count && list == &c->forward; n++)
        if (gp_compiler_keeps(c, c->stage->first_node + n)) uses[gp_compiler_output(c, n)].placed = true;
}

void gp_thing_uses_find(const gp_stage_compiler *compiler, const gp_staged_list *list, gp_thing_uses *uses) {
    const gp_stage_compiler *c = compiler;
    count_uses(list, uses);
    mark_placed(c, list, uses);
    for (size_t t = 0; t < c->thing_count; t++) uses[t].elsewhere = uses[t].placed;
    for (size_t o = 0; o < c->backward.count && list == &c->forward; o++) {
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            int thing = c->backward.items[o].operand[i].thing;
            if (thing >= 0) uses[thing].elsewhere = true;
        }
    }
}

void gp_staged_remove(gp_staged_list *list, const bool *gone) {
    size_t left = 0;
    for (size_t o = 0; o < list->count; o++)
        if (!gone[o]) list->items[left++] = list->items[o];
    list->count = left;
}
