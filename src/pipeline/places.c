#include "pipeline/places.h"

#include <stdio.h>
#include <string.h>

enum { LIST = 1024 };

static gp_status note(gp_worker *worker, const gp_instr *instr, uint32_t number, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_device_kind *kind = plan->devices[worker->index].kind;
    /* What gives its queue nothing to do. */
    if (!kind->stream_note || instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_BARRIER) return GP_OK;
    return kind->stream_note(worker->queue[gp_instr_queue(plan->stages, instr)], number, err);
}

gp_status gp_places_begin(gp_worker *worker, const gp_site *site, gp_error *err) {
    return note(worker, site->instr, (uint32_t)site->pc + 1, err);
}

gp_status gp_places_end(gp_worker *worker, const gp_site *site, gp_error *err) {
    return note(worker, site->instr, 0, err);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static bool same_device(const gp_plan *plan, int a, int b) {
    return plan->devices[a].kind == plan->devices[b].kind && plan->devices[a].index == plan->devices[b].index;
}

static void add_place(const gp_plan *plan, int worker, const gp_instr *instr, char list[LIST]) {
    const gp_stage *stage = &plan->stages->stage[instr->stage];
    const gp_node *nodes = &plan->graph->nodes[stage->first_node];
    size_t at = strlen(list);
    char text[GP_INSTR_TEXT];
    snprintf(list + at, LIST - at, "%s%s (worker %d, stage %d, layer%s \"%s\"", at > 0 ? ", or in " : "",
             gp_instr_text(text, instr), worker, instr->stage, stage->node_count > 1 ? "s" : "", nodes[0].name);
    at = strlen(list);
    if (stage->node_count > 1)
        snprintf(list + at, LIST - at, " to \"%s\")", nodes[stage->node_count - 1].name);
    else
        snprintf(list + at, LIST - at, ")");
}

/* What the queues of all workers on the device of `first` were at. */
static void list_places(const gp_run *run, int first, char list[LIST]) {
    const gp_plan *plan = run->plan;
    const gp_programs *programs = plan->minis[run->command.mini].programs;
    list[0] = '\0';
    for (int w = first; w < plan->workers; w++) {
        for (int q = 0; q < GP_QUEUES && same_device(plan, first, w); q++) {
            uint32_t noted = plan->devices[w].kind->stream_noted(run->workers[w].queue[q]);
            if (noted > 0 && noted <= programs->worker[w].count)
                add_place(plan, w, &programs->worker[w].instrs[noted - 1], list);
        }
    }
}

void gp_places_tell(const gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    for (int w = 0; w < plan->workers; w++) {
        const gp_device_spec *spec = &plan->devices[w];
        bool told = false;
        char list[LIST];
        for (int before = 0; before < w && !told; before++) told = same_device(plan, before, w);
        if (told || !spec->kind->lost || !spec->kind->lost(run->workers[w].device)) continue;
        list_places(run, w, list);
        gp_error_context(err, "%s:%d failed %s%s; it came out in ", spec->kind->name, spec->index,
                         list[0] ? "in " : "between two instructions", list);
    }
}
