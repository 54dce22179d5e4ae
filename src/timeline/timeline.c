#include "timeline/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "timeline/waits.h"
#include "plan/layer_ticks.h"
#include "plan/memory.h"

enum {
    ARGS_TEXT = 512,
    TRACK_TEXT = 96,
    STAGES_TEXT = 64,
    MOST_LISTED = 6,
    SHORT_WAIT = 1000 /* nanoseconds: a wait that is over when it is looked at takes less */
};

/* One worker's lane as it is written. */
typedef struct writer {
    const gp_plan *plan;
    gp_chrome *chrome;
    int worker, max_pieces;
    uint64_t origin;       /* the timeline's zero by the host's clock */
    size_t **bytes;        /* [mini]: gp_memory_follow's; NULL until it is needed */
    size_t alive;          /* as last written */
    uint64_t mini_batch;   /* the span's, counted from 0: the same number on every worker */
    const gp_ticks *ticks; /* times of layers; NULL: none were recorded */
    size_t next_tick;
    size_t at; /* the span that is written, of the worker's */
    const gp_wait_finder *waits;
} writer;

/* Where the device works on its own, its queues go side by side, each on a track of its own. */
static bool has_queues(const gp_plan *plan, int worker) {
    return plan->devices[worker].kind->event_elapsed != NULL;
}

static int track_of(const gp_plan *plan, int worker, gp_queue queue) {
    return worker + 1 + (has_queues(plan, worker) ? (int)queue * plan->workers : 0);
}

/* "stage 1", "stages 0, 3"; of many the first and the last. */
static void list_stages(const gp_plan *plan, int worker, char text[STAGES_TEXT]) {
    int count = 0, last = 0;
    size_t used = 0;
    for (int s = 0; s < plan->stages->count; s++) count += plan->stage[s].worker == worker;
    used = (size_t)snprintf(text, STAGES_TEXT, count == 1 ? "stage" : "stages");
    for (int s = 0, listed = 0; s < plan->stages->count; s++) {
        if (plan->stage[s].worker != worker) continue;
        last = s;
        if (listed < (count > MOST_LISTED ? 1 : MOST_LISTED))
            used += (size_t)snprintf(text + used, STAGES_TEXT - used, "%s %d", listed ? "," : "", s);
        listed++;
    }
    if (count > MOST_LISTED) snprintf(text + used, STAGES_TEXT - used, " … %d", last);
}

/* How many tracks a worker has: without replicas none that collects their gradients. */
static int count_tracks(const gp_plan *plan, int worker) {
    if (!has_queues(plan, worker)) return 1;
    for (int s = 0; s < plan->stages->count; s++)
        if (plan->stage[s].worker == worker && plan->stages->stage[s].buckets > 0) return GP_QUEUES;
    return GP_QUEUE_SUMS;
}

static void name_tracks(const gp_plan *plan, gp_chrome *chrome, int worker) {
    static const char *const queues[GP_QUEUES] = {[GP_QUEUE_COMPUTE] = ": computes",
                                                  [GP_QUEUE_IN] = ": receives",
                                                  [GP_QUEUE_BACK] = ": receives gradients",
                                                  [GP_QUEUE_SUMS] = ": collects gradients"};
    char name[TRACK_TEXT + STAGES_TEXT], stages[STAGES_TEXT], process[32] = "";
    list_stages(plan, worker, stages);
    const gp_device_spec *device = &plan->devices[worker];
    if (plan->processes > 1) snprintf(process, sizeof process, ", process %d", plan->process[worker]);
    for (int q = 0; q < count_tracks(plan, worker); q++) {
        snprintf(name, sizeof name, "worker %d (%s:%d), %s%s%s", worker, device->kind->name, device->index, stages,
                 process, has_queues(plan, worker) ? queues[q] : "");
        int track = track_of(plan, worker, (gp_queue)q);
        gp_chrome_name_track(chrome, track, track, name);
    }
}

static gp_status write_memory(writer *w, const gp_span *span, gp_error *err) {
    size_t **bytes = &w->bytes[span->group];
    if (!*bytes) {
        GP_RETURN_IF_FAILED(GP_NEW(bytes, w->plan->minis[span->group].programs->worker[w->worker].count, err));
        GP_RETURN_IF_FAILED(gp_memory_follow(w->plan, span->group, w->worker, *bytes, err));
    }
    if ((*bytes)[span->index] == w->alive) return GP_OK;
    w->alive = (*bytes)[span->index];
    char name[TRACK_TEXT];
    snprintf(name, sizeof name, "memory of worker %d", w->worker);
    gp_chrome_counter(w->chrome, name, "bytes alive", span->started, w->alive);
    return GP_OK;
}

static const char *category_of(const gp_instr *instr) {
    if (gp_instr_computes(instr)) return "compute";
    return instr->op == GP_INSTR_BARRIER ? "wait" : "copy";
}

static const char *pass_of(const writer *w, const gp_span *span) {
    return w->plan->minis[span->group].training ? "training" : "evaluation";
}

static void describe(const writer *w, const gp_span *span, const gp_instr *instr, char args[ARGS_TEXT]) {
    const gp_mini_plan *mini = &w->plan->minis[span->group];
    int used = snprintf(args, ARGS_TEXT,
                        "\"step\":%" PRIu32 ",\"pass\":\"%s\",\"clock\":%" PRIu32 ",\"program\":%" PRId32 ",\"pc\":%zu",
                        span->step, pass_of(w, span), instr->clock, span->group, span->index);
    if (has_queues(w->plan, w->worker)) {
        uint64_t issued = span->issued - w->origin;
        used += snprintf(args + used, ARGS_TEXT - (size_t)used, ",\"issued\":%" PRIu64 ".%03u", issued / 1000,
                         (unsigned)(issued % 1000));
    }
    const char *carries = gp_instr_carries(w->plan->stages, instr);
    if (!carries) return;
    snprintf(args + used, ARGS_TEXT - (size_t)used, ",\"carries\":\"%s\",\"bytes\":%zu", carries,
             gp_instr_bytes(w->plan, mini, instr));
}

/* What the worker waited for: before its span `index`, or in it, a barrier's. */
static void describe_wait(const writer *w, size_t index, bool barrier, char args[ARGS_TEXT]) {
    char text[GP_WAIT_TEXT];
    size_t used = strlen(args);
    snprintf(args + used, ARGS_TEXT - used, ",%s", gp_wait_finder_text(w->waits, w->worker, index, barrier, text));
}

/* Where a post begins that was carried out within a backward: if its time is not known, with the backward. Spans of a
 * mini-batch stand in its order. */
static uint64_t start_of(const writer *w, const gp_span *span) {
    const gp_worker_posts *posts = w->plan->minis[span->group].early;
    if (span->early) return span->early;
    for (size_t i = 0; posts && has_queues(w->plan, w->worker) && i < posts[w->worker].count; i++) {
        const gp_early_post *its = &posts[w->worker].items[i];
        size_t back = span->index - its->pc;
        if (its->post == span->index && back <= w->at) return (span - back)->started;
    }
    return span->started;
}

/* From the start of the send or post, which comes before the start of the receive or collect by any clock. `event`: of
 * the end that makes the copy one of its own. */
static void write_arrow(const writer *w, const gp_span *span, const gp_instr *instr, gp_wait event) {
    const gp_stages *stages = w->plan->stages;
    uint64_t id = w->mini_batch * gp_event_count(stages, w->max_pieces);
    id += gp_event_number(stages, w->max_pieces, &event);
    int track = track_of(w->plan, w->worker, gp_instr_queue(stages, instr));
    gp_chrome_arrow(w->chrome, gp_instr_copies(instr), track, "copy", id, start_of(w, span));
}

/* Whether a part of the collective goes from one stage to the other: what has no bytes is not sent. */
static bool carries_part(const writer *w, const gp_span *span, const gp_instr *instr, int from, int to) {
    const gp_instr collect = {
        .op = GP_INSTR_COLLECT, .micro = instr->micro, .stage = (uint16_t)to, .collective = instr->collective};
    gp_moves moves = gp_moves_of(w->plan, &w->plan->minis[span->group], &collect);
    gp_move move;
    while (gp_moves_next(&moves, &move))
        if (move.from == from && move.bytes > 0) return true;
    return false;
}

/* Each copy of a gather or broadcast has one end that is not the root. Of the other collectives only the copies to the
 * next member are drawn. */
static void write_arrows(const writer *w, const gp_span *span, const gp_instr *instr) {
    if (gp_instr_has_edge(instr)) write_arrow(w, span, instr, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT});
    if (!gp_instr_joins(instr)) return;
    const gp_collective *its = &w->plan->stages->collectives[instr->collective];
    bool posts = instr->op == GP_INSTR_POST, mutual = gp_collective_is_mutual(its);
    const gp_indices *others = posts ? &its->collectors : &its->contributors;
    size_t count = others->count, replica = (size_t)w->plan->stages->stage[instr->stage].replica;
    for (size_t i = 0; i < (mutual ? 1 : count); i++) {
        int peer = mutual                      ? others->items[(replica + (posts ? 1 : count - 1)) % count]
                   : instr->stage == its->root ? others->items[i]
                                               : its->root;
        int from = posts ? instr->stage : peer, to = posts ? peer : instr->stage;
        int member = mutual || from != its->root ? from : to;
        if (carries_part(w, span, instr, from, to))
            write_arrow(w, span, instr, (gp_wait){instr->collective, (uint16_t)member, GP_WAIT_POSTED});
    }
}

/* A queue waits where its track is empty. */
static void write_wait(const writer *w, size_t index, const gp_span *span, int track, const char *args) {
    char own[ARGS_TEXT];
    if (has_queues(w->plan, w->worker) || span->started - span->issued <= SHORT_WAIT) return;
    snprintf(own, sizeof own, "%s", args);
    describe_wait(w, index, false, own);
    gp_chrome_span(w->chrome, track, "wait", "wait", span->issued, span->started, own);
}

/* Layers are spans within the one of their instruction. */
static void write_layer(const writer *w, const gp_span *span, const gp_instr *instr, const gp_exec_op *op,
                        uint64_t from, uint64_t to) {
    const gp_graph *graph = w->plan->graph;
    char name[GP_LAYER_TEXT], args[ARGS_TEXT];
    int used = snprintf(
        args, sizeof args, "\"op\":\"%s\",\"step\":%" PRIu32 ",\"pass\":\"%s\",\"pc\":%zu,\"kind\":\"%s\"",
        gp_instr_op_name(instr->op), span->step, pass_of(w, span), span->index, gp_op_name(op->prepared->desc.kind));
    if (op->owner > 0)
        snprintf(args + used, sizeof args - (size_t)used, ",\"parameter\":\"%s\"",
                 graph->params[op->owner - 1].spec.suffix);
    gp_chrome_span(w->chrome, track_of(w->plan, w->worker, GP_QUEUE_COMPUTE), "layer", gp_layer_text(name, graph, op),
                   from, to, args);
}

static void write_layers(writer *w, const gp_span *span, const gp_instr *instr) {
    const gp_routine *routines[GP_INSTR_ROUTINES];
    if (!w->ticks) return;
    int count = gp_instr_routines(w->plan, &w->plan->minis[span->group], instr, routines);
    for (int r = 0; r < count; r++) {
        uint64_t from = w->ticks->times[w->next_tick++];
        for (size_t o = 0; o < routines[r]->count; o++) {
            if (routines[r]->ops[o].when == gp_instr_skips(instr)) continue;
            uint64_t to = w->ticks->times[w->next_tick++];
            if (to > from) write_layer(w, span, instr, &routines[r]->ops[o], from, to); /* else it was done before */
            from = to;
        }
    }
}

static gp_status write_span(writer *w, size_t index, const gp_span *span, gp_error *err) {
    const gp_instr *instr = &w->plan->minis[span->group].programs->worker[w->worker].instrs[span->index];
    char name[GP_INSTR_TEXT], args[ARGS_TEXT];
    gp_instr_text(name, instr);
    describe(w, span, instr, args);
    w->at = index;
    w->mini_batch = gp_wait_finder_mini_batch(w->waits, w->worker, index);
    int track = track_of(w->plan, w->worker, gp_instr_queue(w->plan->stages, instr));
    write_wait(w, index, span, track, args);
    if (instr->op == GP_INSTR_BARRIER && !has_queues(w->plan, w->worker)) describe_wait(w, index, true, args);
    gp_chrome_span(w->chrome, track, category_of(instr), name, span->started, span->ended, args);
    write_layers(w, span, instr);
    write_arrows(w, span, instr);
    return write_memory(w, span, err);
}

static gp_status write_lane(const gp_plan *plan, const gp_recorder *recorder, const gp_wait_finder *waits, int worker,
                            int max_pieces, uint64_t origin, gp_chrome *chrome, gp_error *err) {
    const gp_lane *lane = &recorder->lanes[worker];
    writer w = {.plan = plan, .chrome = chrome, .worker = worker, .max_pieces = max_pieces, .origin = origin};
    w.waits = waits;
    if (recorder->ticks && !has_queues(plan, worker)) w.ticks = &recorder->ticks[worker];
    name_tracks(plan, chrome, worker);
    gp_status status = GP_NEW(&w.bytes, plan->mini_count, err);
    for (size_t i = 0; i < lane->count && status == GP_OK; i++) status = write_span(&w, i, &lane->spans[i], err);
    for (int m = 0; w.bytes && m < plan->mini_count; m++) free(w.bytes[m]);
    free(w.bytes);
    return status;
}

int gp_timeline_next_track(const gp_plan *plan) {
    return 1 + plan->workers * GP_QUEUES;
}

gp_status gp_timeline_write(const gp_plan *plan, const gp_recorder *recorder, uint64_t earliest, gp_chrome *chrome,
                            gp_error *err) {
    uint64_t first = earliest;
    int max_pieces = 1;
    for (int w = 0; w < plan->workers; w++)
        if (recorder->lanes[w].count && recorder->lanes[w].spans[0].issued < first)
            first = recorder->lanes[w].spans[0].issued;
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].pieces > max_pieces) max_pieces = plan->minis[m].pieces;
    gp_chrome_origin(chrome, first);
    gp_chrome_name_process(chrome, "gpipe-train");
    gp_wait_finder *waits = NULL;
    gp_status status = gp_wait_finder_create(plan, recorder, &waits, err);
    for (int w = 0; w < plan->workers && status == GP_OK; w++)
        status = write_lane(plan, recorder, waits, w, max_pieces, first, chrome, err);
    gp_wait_finder_destroy(&waits);
    return status;
}
