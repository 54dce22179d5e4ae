#include "pipeline/places.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/notes.h"

enum { LIST = 1024 };

/* Some give their queue nothing to do. */
static bool has_notes(const gp_device_kind *kind, const gp_instr *instr) {
    return kind->stream_note && (gp_instr_computes(instr) || gp_instr_copies(instr));
}

static gp_status note(gp_worker *worker, const gp_instr *instr, uint32_t number, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    gp_stream *queue = worker->queue[gp_instr_queue(plan->stages, instr)];
    return plan->devices[worker->index].kind->stream_note(queue, number, err);
}

void gp_run_note(gp_run *run, bool notes) {
    run->notes = notes;
}

gp_status gp_places_begin(gp_worker *worker, const gp_site *site, gp_error *err) {
    if (site->pc == 0) worker->note = 0;
    if (!worker->run->notes || !has_notes(gp_worker_kind(worker), site->instr)) return GP_OK;
    return note(worker, site->instr, ++worker->note, err);
}

gp_status gp_places_pass(gp_worker *worker, const gp_instr *instr, gp_error *err) {
    return note(worker, instr, ++worker->note, err);
}

gp_status gp_places_end(gp_worker *worker, const gp_site *site, gp_error *err) {
    if (!worker->run->notes || !has_notes(gp_worker_kind(worker), site->instr)) return GP_OK;
    return note(worker, site->instr, 0, err);
}

/* A program gone through as its worker does, up to the note that is wanted. */
typedef struct search {
    uint32_t wanted, number; /* number: of the last note passed */
    int first, last;         /* nodes of the ops behind the wanted one; last −1: none yet */
    bool others;             /* some of these are no node's */
} search;

static void take_nodes(search *s, const gp_exec_op *op) {
    int first, last;
    if (!gp_note_nodes(op, &first, &last)) {
        s->others = true;
        return;
    }
    if (first < s->first) s->first = first;
    if (last > s->last) s->last = last;
}

static void go_through(search *s, const gp_routine *routine, gp_when skipped) {
    double since = 0;
    for (size_t o = 0; o < routine->count; o++) {
        if (s->number == s->wanted && routine->ops[o].when != skipped) take_nodes(s, &routine->ops[o]);
        if (gp_note_behind(routine, o, skipped, &since)) s->number++;
    }
}

static void pass_instr(search *s, const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    gp_when skipped = gp_instr_skips(instr);
    const gp_routine *routines[GP_INSTR_ROUTINES];
    int count = gp_instr_routines(plan, mini, instr, routines);
    s->number++;
    for (int r = 0; r < count; r++) go_through(s, routines[r], skipped);
}

/* The instruction and the nodes that were under way at a note; all of the stage's where only some of the work is a
 * node's. NULL: no such note. */
static const gp_instr *find_note(const gp_plan *plan, const gp_mini_plan *mini, int worker, uint32_t wanted, int *first,
                                 int *last) {
    const gp_program *program = &mini->programs->worker[worker];
    search s = {.wanted = wanted, .first = INT_MAX, .last = -1};
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (has_notes(plan->devices[worker].kind, instr)) pass_instr(&s, plan, mini, instr);
        if (s.number < wanted) continue;
        const gp_stage *stage = &plan->stages->stage[instr->stage];
        bool whole = s.others || s.last < 0;
        *first = whole ? stage->first_node : s.first;
        *last = whole ? stage->first_node + stage->node_count - 1 : s.last;
        return instr;
    }
    return NULL;
}

const gp_instr *gp_places_instr(const gp_plan *plan, int mini, int worker, uint32_t noted) {
    int first, last;
    return noted > 0 ? find_note(plan, &plan->minis[mini], worker, noted, &first, &last) : NULL;
}

static bool same_device(const gp_plan *plan, int a, int b) {
    return plan->devices[a].kind == plan->devices[b].kind && plan->devices[a].index == plan->devices[b].index &&
           plan->process[a] == plan->process[b];
}

static void add_place(const gp_plan *plan, const gp_mini_plan *mini, int worker, uint32_t noted, char list[LIST]) {
    int first, last;
    const gp_instr *instr = find_note(plan, mini, worker, noted, &first, &last);
    if (!instr) return;
    const gp_node *nodes = plan->graph->nodes;
    size_t at = strlen(list);
    char text[GP_INSTR_TEXT];
    snprintf(list + at, LIST - at, "%s%s (worker %d, stage %d, layer%s \"%s\"", at > 0 ? ", or in " : "",
             gp_instr_text(text, instr), worker, instr->stage, last > first ? "s" : "", nodes[first].name);
    at = strlen(list);
    if (last > first)
        snprintf(list + at, LIST - at, " to \"%s\")", nodes[last].name);
    else
        snprintf(list + at, LIST - at, ")");
}

/* What the queues of all workers on the device of `first` were at. */
static void list_places(const gp_run *run, int first, char list[LIST]) {
    const gp_plan *plan = run->plan;
    list[0] = '\0';
    for (int w = first; w < plan->workers; w++) {
        for (int q = 0; q < GP_QUEUES && same_device(plan, first, w); q++) {
            uint32_t noted = plan->devices[w].kind->stream_noted(run->workers[w].queue[q]);
            if (noted > 0) add_place(plan, &plan->minis[run->command.mini], w, noted, list);
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
        if (told || !spec->kind->lost || gp_plan_worker_is_far(plan, w) || !spec->kind->lost(run->workers[w].device))
            continue;
        list_places(run, w, list);
        const char *where = list[0] ? " in " : " between two instructions";
        if (!run->notes) where = " (-v finds out in which instruction)";
        gp_error_context(err, "%s:%d failed%s%s; reported by ", spec->kind->name, spec->index, where, list);
    }
}
