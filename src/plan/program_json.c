#include "plan/program_json.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/program_index.h"

typedef struct writer {
    const gp_program_json *its;
    const gp_play_request *played;
    FILE *out;
    gp_program_index at;
    int worker;
    size_t *alive;          /* [pc]; NULL: not known */
    uint32_t *mark_of;      /* [mark] pc; NULL: no queues, or their marks are not known */
    size_t last[GP_QUEUES]; /* of the worker so far: pc + 1 of the last instruction in each queue; 0: none */
    size_t barriers;        /* of the worker so far */
    bool any;               /* some wait of the instruction is written */
} writer;

/* Devices that host threads issue to have queues, too (schedule/issue.h). */
static bool has_queues(const writer *w, int worker) {
    if (w->its->play->worker[worker].issued) return true;
    return w->played->copies && w->played->copies[worker] == GP_PLAY_QUEUED;
}

static void write_wait(writer *w, int worker, size_t pc) {
    fprintf(w->out, "%s[%d,%zu]", w->any ? "," : "", worker, pc);
    w->any = true;
}

static void write_events(writer *w, const gp_worker_waits *waits, size_t at) {
    for (size_t i = waits->first[at]; i < waits->first[at + 1]; i++) {
        const gp_wait *event = &waits->items[i];
        int stage = gp_event_stage(w->played->stages, event);
        write_wait(w, gp_programs_worker(w->played->programs, stage), gp_program_index_place(&w->at, event) - 1);
    }
}

/* All threads that meet wait for what stands before each other's barrier, so that no two instructions wait for one
 * another. `threads`: queues do not meet. */
static void write_others(writer *w, bool threads) {
    const gp_programs *programs = w->played->programs;
    for (int other = 0; other < programs->workers; other++) {
        if (other == w->worker || (threads && has_queues(w, other))) continue;
        size_t pc = w->at.barriers[other][w->barriers];
        if (pc > 0) write_wait(w, other, pc - 1);
    }
}

static void write_barrier(writer *w, bool threads) {
    if (w->played->meets)
        write_events(w, &w->played->meets->worker[w->worker], w->barriers);
    else
        write_others(w, threads);
}

/* If marks are not known, a forward or backward pass waits for all copies that its worker's program has before it. */
static void write_copies_before(writer *w, const gp_instr *instr) {
    if (!gp_instr_computes(instr) || !gp_instr_has_micro(instr)) return;
    for (int queue = GP_QUEUE_IN; queue < GP_QUEUES; queue++)
        if (w->last[queue]) write_wait(w, w->worker, w->last[queue] - 1);
}

static void write_marks(writer *w, size_t pc) {
    const gp_queue_waits *queues = &w->played->queues->worker[w->worker].within;
    for (size_t i = queues->first[pc]; i < queues->first[pc + 1]; i++)
        write_wait(w, w->worker, w->mark_of[queues->wait[i]]);
}

/* A copy waits for a computation that was issued to its source before it, besides the one that made its value. */
static void write_after(writer *w, size_t pc, const gp_instr *instr) {
    uint32_t after = w->its->play->worker[w->worker].after[pc];
    int from = w->played->stages->edges[instr->edge].from;
    if (after > 0) write_wait(w, gp_programs_worker(w->played->programs, from), after - 1);
}

/* A queue does not stop at a barrier: the thread that fills the queues does. */
static void write_waits(writer *w, size_t pc, const gp_instr *instr) {
    bool queued = has_queues(w, w->worker);
    w->any = false;
    fputs(",\"waits\":[", w->out);
    write_events(w, &w->played->waits->worker[w->worker], pc);
    if (instr->op == GP_INSTR_RECV && w->its->play->worker[w->worker].after) write_after(w, pc, instr);
    if (queued && w->played->queues) write_marks(w, pc);
    if (queued && !w->played->queues) write_copies_before(w, instr);
    if (!queued && instr->op == GP_INSTR_BARRIER) write_barrier(w, true);
    fputs("]", w->out);
    w->any = false;
    if (queued && instr->op == GP_INSTR_BARRIER) {
        fputs(",\"host_waits\":[", w->out);
        write_barrier(w, false);
        fputs("]", w->out);
    }
    w->barriers += instr->op == GP_INSTR_BARRIER;
    w->last[gp_instr_queue(w->played->stages, instr)] = pc + 1;
}

static void write_copy(const writer *w, const gp_instr *instr) {
    if (gp_instr_has_edge(instr)) fprintf(w->out, ",\"edge\":%" PRIu32, instr->edge);
    if (gp_instr_has_collective(instr)) fprintf(w->out, ",\"collective\":%" PRIu32, instr->collective);
    if (instr->op != GP_INSTR_BARRIER && !gp_instr_computes(instr) && w->its->bytes)
        fprintf(w->out, ",\"bytes\":%zu", w->its->bytes(w->its->context, instr));
}

static void write_slots(const writer *w, const gp_instr *instr) {
    const gp_accesses its = gp_instr_accesses(w->played->stages, instr);
    bool any = false;
    if (instr->flags & GP_INSTR_KEEP) fputs(",\"keep\":true", w->out);
    if (instr->flags & GP_INSTR_FIRST) fputs(",\"first\":true", w->out);
    for (int f = 0; f < GP_FRAMES; f++) {
        if (!its.frame[f].uses) continue;
        fprintf(w->out, "%s\"%s\":%u", any ? "," : ",\"slots\":{", gp_frame_name((gp_frame)f),
                gp_instr_get_slot(instr, its.frame[f]));
        any = true;
    }
    if (any) fputs("}", w->out);
}

static void write_instr(writer *w, size_t pc) {
    const gp_instr *instr = &w->played->programs->worker[w->worker].instrs[pc];
    const gp_play_worker *times = &w->its->play->worker[w->worker];
    int queue = has_queues(w, w->worker) ? (int)gp_instr_queue(w->played->stages, instr) : 0;
    char name[GP_INSTR_TEXT];
    fprintf(w->out, "%s%s{\"name\":\"%s\",\"op\":\"%s\",\"stage\":%d", pc ? "," : "", w->its->lines ? "\n" : "",
            gp_instr_text(name, instr), gp_instr_op_name(instr->op), (int)instr->stage);
    if (gp_instr_has_micro(instr)) fprintf(w->out, ",\"micro\":%d", (int)instr->micro);
    fprintf(w->out, ",\"clock\":%" PRIu32 ",\"queue\":%d", instr->clock, queue);
    write_copy(w, instr);
    if (w->its->slots) write_slots(w, instr);
    fprintf(w->out, ",\"start_ms\":%.12g,\"end_ms\":%.12g", w->its->milliseconds * times->start[pc],
            w->its->milliseconds * times->end[pc]);
    if (times->issued) fprintf(w->out, ",\"issued_ms\":%.12g", w->its->milliseconds * times->issued[pc]);
    gp_wait sent;
    if (gp_instr_event(instr, &sent) && sent.kind == GP_WAIT_SENT && w->its->play->arrived)
        fprintf(w->out, ",\"arrives_ms\":%.12g",
                w->its->milliseconds *
                    w->its->play->arrived[gp_event_number(w->played->stages, w->played->programs->pieces, &sent)]);
    if (w->alive) fprintf(w->out, ",\"bytes_alive\":%zu", w->alive[pc]);
    write_waits(w, pc, instr);
    fputs("}", w->out);
}

static gp_status find_marks(writer *w, gp_error *err) {
    if (!has_queues(w, w->worker) || !w->played->queues) return GP_OK;
    const gp_worker_queues *queues = &w->played->queues->worker[w->worker];
    GP_RETURN_IF_FAILED(GP_NEW(&w->mark_of, queues->marks, err));
    for (size_t pc = 0; pc < w->played->programs->worker[w->worker].count; pc++)
        if (queues->mark[pc] >= 0) w->mark_of[queues->mark[pc]] = (uint32_t)pc;
    return GP_OK;
}

static gp_status write_instructions(writer *w, gp_error *err) {
    size_t count = w->played->programs->worker[w->worker].count;
    w->barriers = 0;
    memset(w->last, 0, sizeof w->last);
    gp_status status = find_marks(w, err);
    if (status == GP_OK && w->its->follow) status = GP_NEW(&w->alive, count, err);
    if (status == GP_OK && w->its->follow) status = w->its->follow(w->its->context, w->worker, w->alive, err);
    if (status == GP_OK) {
        fputs(",\"instructions\":[", w->out);
        for (size_t pc = 0; pc < count; pc++) write_instr(w, pc);
        fputs("]", w->out);
    }
    free(w->alive);
    free(w->mark_of);
    w->alive = NULL;
    w->mark_of = NULL;
    return status;
}

gp_status gp_program_json_write(const gp_program_json *its, FILE *out, gp_error *err) {
    writer w = {.its = its, .played = its->played, .out = out};
    gp_status status =
        its->instructions ? gp_program_index_init(its->played->stages, its->played->programs, &w.at, err) : GP_OK;
    fputs("\"workers\":[", out);
    for (; w.worker < its->play->workers && status == GP_OK; w.worker++) {
        const gp_play_worker *worker = &its->play->worker[w.worker];
        fprintf(out, "%s%s{\"busy_ms\":%.12g,\"copy_ms\":%.12g", w.worker ? "," : "", its->lines ? "\n" : "",
                its->milliseconds * worker->busy, its->milliseconds * worker->copying);
        if (its->instructions) status = write_instructions(&w, err);
        fputs("}", out);
    }
    fputs("]", out);
    gp_program_index_fini(&w.at);
    return status;
}

static void write_members(const char *key, const gp_indices *members, FILE *out) {
    fprintf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < members->count; i++) fprintf(out, "%s%d", i ? "," : "", members->items[i]);
    fputs("]", out);
}

void gp_collectives_json_write(const gp_stages *stages, FILE *out) {
    fputs("\"collectives\":[", out);
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        fprintf(out, "%s{\"kind\":\"%s\",\"carries\":\"%s\"", c ? "," : "", gp_collective_kind_name(its->kind),
                gp_part_kind_name(its->part));
        if (!gp_collective_is_mutual(its)) fprintf(out, ",\"root\":%d", its->root);
        if (its->buckets > 1) fprintf(out, ",\"bucket\":%d,\"buckets\":%d", its->bucket, its->buckets);
        write_members("contributors", &its->contributors, out);
        write_members("collectors", &its->collectors, out);
        fprintf(out, ",\"transport\":\"%s\"}", gp_transport_name(its->transport));
    }
    fputs("]", out);
}

size_t gp_program_json_size(const gp_programs *programs, const gp_waits *meets) {
    size_t count = 0, others = (size_t)programs->workers - 1;
    for (int w = 0; w < programs->workers; w++) {
        size_t barriers = meets ? 0 : gp_program_count(&programs->worker[w], GP_INSTR_BARRIER);
        count = gp_size_plus(count, programs->worker[w].count);
        count = gp_size_plus(count, gp_size_times(barriers, others) / 4);
    }
    return count;
}
