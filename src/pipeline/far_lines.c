#include "pipeline/far_lines.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/lines.h"
#include "plan/tags.h"

/* This process's end of a line. */
typedef struct line_end {
    _Atomic(gp_line *) line; /* the worker opens it, the trainer's thread closes it */
    gp_stream *queue;        /* of a sender */
    void *greeting;          /* the device's memory for the first message */
} line_end;

/* A flow of a collective. */
typedef struct part {
    gp_device_range *ranges; /* as many as a message has at most */
    gp_event *gone;          /* of a sender: after its last message */
    int count;               /* of those in the last one */
    bool sent;               /* there was one */
} part;

struct gp_far_lines {
    gp_lines *plan;
    line_end *ends; /* [line] */
    part *parts;    /* [flow]; nothing in those of edges */
    bool *open;     /* [worker] its lines are */
    gp_signal turn; /* lines that are open */
};

/* ---- open, close ------------------------------------------------------------------------------------------------- */

static gp_instr collect_of(int stage, uint32_t collective) {
    return (gp_instr){.op = GP_INSTR_COLLECT, .stage = (uint16_t)stage, .collective = collective};
}

static int count_ranges(const gp_plan *plan, const gp_flow *flow, uint32_t collective) {
    const gp_instr collect = collect_of(flow->to, collective);
    int most = 1;
    for (int m = 0; m < plan->mini_count; m++) {
        int count = 0;
        gp_move move;
        for (int i = 0; gp_instr_move(plan, &plan->minis[m], &collect, i, &move); i++) count += move.from == flow->from;
        if (count > most) most = count;
    }
    return most;
}

static gp_status open_parts(gp_far_lines *its, const gp_plan *plan, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&its->parts, its->plan->flow_count, err));
    for (size_t c = 0; c < plan->stages->collective_count; c++)
        for (int f = its->plan->first[c]; f < its->plan->first[c + 1]; f++)
            GP_RETURN_IF_FAILED(
                GP_NEW(&its->parts[f].ranges, count_ranges(plan, &its->plan->flows[f], (uint32_t)c), err));
    for (int f = its->plan->exchanges; f < its->plan->flow_count; f++)
        GP_RETURN_IF_FAILED(GP_NEW(&its->parts[f].ranges, 1, err));
    return GP_OK;
}

gp_status gp_far_lines_open(gp_run *run, gp_error *err) {
    if (!run->wire) return GP_OK;
    void *block = aligned_alloc(_Alignof(gp_far_lines), sizeof(gp_far_lines));
    if (!block) return gp_fail(err, GP_MEMORY, "out of memory: lines");
    gp_far_lines *its = run->lines = memset(block, 0, sizeof *its);
    gp_signal_init(&its->turn);
    GP_RETURN_IF_FAILED(gp_lines_create(run->plan, run->plan->rank, &its->plan, err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->ends, its->plan->line_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->open, run->plan->workers, err));
    for (int l = 0; l < its->plan->line_count; l++) atomic_init(&its->ends[l].line, NULL);
    return open_parts(its, run->plan, err);
}

void gp_far_lines_close(gp_run *run) {
    gp_far_lines *its = run->lines;
    if (!its) return;
    for (int f = 0; its->parts && f < its->plan->flow_count; f++) free(its->parts[f].ranges);
    free(its->parts);
    free(its->ends);
    free(its->open);
    gp_lines_destroy(&its->plan);
    free(its);
    run->lines = NULL;
}

/* ---- connect, disconnect ----------------------------------------------------------------------------------------- */

static gp_status agree(gp_worker *worker, const gp_line_plan *line, char id[GP_LINE_ID], gp_error *err) {
    gp_run *run = worker->run;
    bool sends = line->from == worker->index;
    int other = run->plan->process[sends ? line->to : line->from];
    uint32_t tag = gp_tag_of_line(run->plan, line->number);
    if (!sends) return gp_wire_receive_now(run->wire, other, tag, id, GP_LINE_ID, &run->cancel, err);
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->line_id(id, err));
    return gp_wire_send_now(run->wire, other, tag, id, GP_LINE_ID, &run->cancel, err);
}

static gp_status greet(gp_worker *worker, line_end *end, gp_line *line, gp_stream *queue, gp_error *err) {
    enum { GREETING = 16 };
    const gp_device_kind *kind = gp_worker_kind(worker);
    GP_RETURN_IF_FAILED(kind->reserve(worker->device, GREETING, &end->greeting, err));
    const gp_device_range range = {end->greeting, GREETING};
    GP_RETURN_IF_FAILED(kind->line_carry(line, queue, &range, 1, &worker->run->cancel, err));
    return kind->stream_finish(queue, &worker->run->cancel, err);
}

/* One after another in a process, so that none is set up while the first message of another one waits. */
static gp_status connect_line(gp_worker *worker, const gp_line_plan *plan, line_end *end, gp_error *err) {
    const gp_device_kind *kind = gp_worker_kind(worker);
    bool sends = plan->from == worker->index;
    char id[GP_LINE_ID] = "";
    gp_line *line = NULL;
    if (sends) GP_RETURN_IF_FAILED(kind->stream_create(worker->device, true, &end->queue, err));
    GP_RETURN_IF_FAILED(agree(worker, plan, id, err));
    GP_RETURN_IF_FAILED(kind->line_open(worker->device, id, sends, plan->blocks, &worker->run->cancel, &line, err));
    atomic_store(&end->line, line);
    return greet(worker, end, line, sends ? end->queue : worker->queue[plan->queue], err);
}

static bool is_sender_of(const gp_worker *worker, const gp_flow *flow) {
    return worker->run->plan->stage[flow->from].worker == worker->index;
}

static gp_status create_events(gp_worker *worker, gp_error *err) {
    gp_far_lines *its = worker->run->lines;
    for (int f = 0; f < its->plan->flow_count; f++)
        if (its->parts[f].ranges && is_sender_of(worker, &its->plan->flows[f]))
            GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_create(worker->device, false, &its->parts[f].gone, err));
    return GP_OK;
}

static bool ends_at(const gp_line_plan *line, const gp_worker *worker) {
    return line->from == worker->index || line->to == worker->index;
}

gp_status gp_far_lines_connect(gp_worker *worker, gp_error *err) {
    gp_far_lines *its = worker->run->lines;
    if (!its || its->open[worker->index]) return GP_OK;
    GP_RETURN_IF_FAILED(create_events(worker, err));
    for (int l = 0; l < its->plan->line_count; l++) {
        const gp_line_plan *line = &its->plan->lines[l];
        if (!ends_at(line, worker)) continue;
        GP_RETURN_IF_FAILED(gp_signal_wait(&its->turn, (uint64_t)l, &worker->run->cancel, err));
        gp_status status = connect_line(worker, line, &its->ends[l], err);
        gp_signal_raise(&its->turn, (uint64_t)l + 1);
        if (status == GP_OK) continue;
        return gp_error_context(err, "line from worker %d to worker %d: ", line->from, line->to);
    }
    its->open[worker->index] = true;
    return GP_OK;
}

static const gp_device_kind *kind_at(const gp_run *run, const gp_line_plan *line) {
    return run->plan->devices[line->from].kind; /* the same at both ends */
}

void gp_far_lines_abort(gp_run *run) {
    gp_far_lines *its = run->lines;
    for (int l = 0; its && l < its->plan->line_count; l++) {
        gp_line *line = atomic_load(&its->ends[l].line);
        if (line) kind_at(run, &its->plan->lines[l])->line_abort(line);
    }
}

void gp_far_lines_end_queues(gp_worker *worker) {
    gp_far_lines *its = worker->run->lines;
    for (int l = 0; its && l < its->plan->line_count; l++) {
        if (its->plan->lines[l].from != worker->index || !its->ends[l].queue) continue;
        gp_worker_kind(worker)->stream_destroy(its->ends[l].queue);
        its->ends[l].queue = NULL;
    }
}

/* The worker of this process. */
static gp_worker *worker_of(gp_run *run, const gp_line_plan *line) {
    return &run->workers[gp_run_is_far(run, line->from) ? line->to : line->from];
}

void gp_far_lines_disconnect(gp_run *run) {
    gp_far_lines *its = run->lines;
    for (int l = 0; its && l < its->plan->line_count; l++) {
        const gp_worker *worker = worker_of(run, &its->plan->lines[l]);
        gp_line *line = atomic_exchange(&its->ends[l].line, NULL);
        if (line) gp_worker_kind(worker)->line_close(line);
        if (its->ends[l].greeting) gp_worker_kind(worker)->unreserve(worker->device, its->ends[l].greeting);
        its->ends[l].greeting = NULL;
    }
    for (int f = 0; its && f < its->plan->flow_count; f++) {
        const gp_stage_plan *from = &run->plan->stage[its->plan->flows[f].from];
        if (its->parts[f].gone) from->spec.kind->event_destroy(its->parts[f].gone);
        its->parts[f].gone = NULL;
    }
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

bool gp_far_lines_has_edge(const gp_run *run, uint32_t edge) {
    return run->lines && run->lines->plan->of_edge[edge] >= 0;
}

static line_end *end_of(const gp_run *run, int flow) {
    return &run->lines->ends[run->lines->plan->flows[flow].line];
}

static gp_status carry(gp_worker *worker, int flow, gp_stream *queue, const gp_device_range *ranges, int count,
                       gp_error *err) {
    gp_line *line = atomic_load(&end_of(worker->run, flow)->line);
    return gp_worker_kind(worker)->line_carry(line, queue, ranges, count, &worker->run->cancel, err);
}

gp_status gp_far_lines_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_event *sent,
                            gp_event *gone, gp_error *err) {
    int flow = worker->run->lines->plan->of_edge[instr->edge];
    gp_stream *queue = end_of(worker->run, flow)->queue;
    gp_move move;
    gp_instr_move(worker->run->plan, mini, instr, 0, &move);
    const gp_device_range range = {worker->arena + move.offset, move.bytes};
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->stream_wait(queue, sent, err));
    GP_RETURN_IF_FAILED(carry(worker, flow, queue, &range, 1, err));
    return gp_worker_kind(worker)->event_record(gone, queue, err);
}

gp_status gp_far_lines_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    gp_move move;
    gp_instr_move(plan, mini, instr, 0, &move);
    const gp_device_range range = {worker->arena + move.offset, move.bytes};
    return carry(worker, worker->run->lines->plan->of_edge[instr->edge],
                 worker->queue[gp_instr_queue(plan->stages, instr)], &range, 1, err);
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* The ranges of a message, at the sender or at the receiver. */
static int list_ranges(gp_worker *worker, const gp_mini_plan *mini, uint32_t collective, int flow, bool sends) {
    const gp_flow *its = &worker->run->lines->plan->flows[flow];
    gp_device_range *ranges = worker->run->lines->parts[flow].ranges;
    const gp_instr collect = collect_of(its->to, collective);
    int count = 0;
    gp_move move;
    for (int i = 0; gp_instr_move(worker->run->plan, mini, &collect, i, &move); i++)
        if (move.from == its->from)
            ranges[count++] = (gp_device_range){worker->arena + (sends ? move.source : move.offset), move.bytes};
    return count;
}

/* The ranges are listed. */
static gp_status send_part(gp_worker *worker, int flow, const gp_event *posted, gp_error *err) {
    const gp_device_kind *kind = gp_worker_kind(worker);
    part *its = &worker->run->lines->parts[flow];
    gp_stream *queue = end_of(worker->run, flow)->queue;
    GP_RETURN_IF_FAILED(kind->stream_wait(queue, posted, err));
    GP_RETURN_IF_FAILED(carry(worker, flow, queue, its->ranges, its->count, err));
    its->sent = true;
    return kind->event_record(its->gone, queue, err);
}

gp_status gp_far_lines_post(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_event *posted,
                            gp_error *err) {
    const gp_far_lines *its = worker->run->lines;
    for (int f = its ? its->plan->first[instr->collective] : 0; its && f < its->plan->first[instr->collective + 1];
         f++) {
        if (its->plan->flows[f].from != instr->stage) continue;
        its->parts[f].count = list_ranges(worker, mini, instr->collective, f, true);
        GP_RETURN_IF_FAILED(send_part(worker, f, posted, err));
    }
    return GP_OK;
}

static bool overlaps(const part *its, const char *address, size_t bytes) {
    for (int i = 0; i < its->count; i++) {
        const char *sent = its->ranges[i].address;
        if (address < sent + its->ranges[i].bytes && sent < address + bytes) return true;
    }
    return false;
}

gp_status gp_far_lines_wait_own(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_far_lines *its = worker->run->lines;
    gp_stream *queue = worker->queue[gp_instr_queue(worker->run->plan->stages, instr)];
    for (int f = 0; its && f < its->plan->flow_count; f++) {
        const part *own = &its->parts[f];
        bool hit = false;
        gp_move move;
        if (its->plan->flows[f].from != instr->stage || !own->sent) continue; /* other stages may be other workers' */
        for (int i = 0; !hit && gp_instr_move(worker->run->plan, mini, instr, i, &move); i++)
            hit = overlaps(own, worker->arena + move.offset, move.bytes);
        if (hit) GP_RETURN_IF_FAILED(gp_worker_kind(worker)->stream_wait(queue, own->gone, err));
    }
    return GP_OK;
}

gp_status gp_far_lines_collect(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_far_lines *its = worker->run->lines;
    gp_stream *queue = worker->queue[gp_instr_queue(worker->run->plan->stages, instr)];
    for (int f = its ? its->plan->first[instr->collective] : 0; its && f < its->plan->first[instr->collective + 1];
         f++) {
        if (its->plan->flows[f].to != instr->stage) continue;
        int count = list_ranges(worker, mini, instr->collective, f, false);
        GP_RETURN_IF_FAILED(carry(worker, f, queue, its->parts[f].ranges, count, err));
    }
    return GP_OK;
}

/* ---- exchanges within a pass ------------------------------------------------------------------------------------- */

bool gp_far_lines_exchanges(const gp_run *run, int from, int to) {
    return run->lines && gp_lines_exchange(run->lines->plan, from, to) >= 0;
}

gp_status gp_far_lines_offer(gp_worker *worker, int from, int to, gp_device_range own, const gp_event *posted,
                             gp_error *err) {
    int flow = gp_lines_exchange(worker->run->lines->plan, from, to);
    part *its = &worker->run->lines->parts[flow];
    its->ranges[0] = own;
    its->count = 1;
    return send_part(worker, flow, posted, err);
}

gp_status gp_far_lines_take(gp_worker *worker, int from, int to, gp_device_range place, gp_error *err) {
    int flow = gp_lines_exchange(worker->run->lines->plan, from, to);
    return carry(worker, flow, worker->queue[GP_QUEUE_COMPUTE], &place, 1, err);
}

/* ---- the end of a step ------------------------------------------------------------------------------------------- */

gp_status gp_far_lines_finish(gp_worker *worker, gp_error *err) {
    const gp_far_lines *its = worker->run->lines;
    for (int l = 0; its && l < its->plan->line_count; l++)
        if (its->plan->lines[l].from == worker->index)
            GP_RETURN_IF_FAILED(gp_worker_kind(worker)->stream_finish(its->ends[l].queue, &worker->run->cancel, err));
    return GP_OK;
}
