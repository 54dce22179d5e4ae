/* Collectives between processes: posts, collects, and receives of buckets that begin with the step (pipeline/far.h). */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/far_internal.h"
#include "plan/staging.h"
#include "plan/tags.h"

/* What a contributor sends to a collector in one mini-batch: moves of the collect instruction. */
typedef struct part_moves {
    int first, count;
    size_t bytes;
} part_moves;

/* A contributor and a collector of a collective, one of them in another process. */
struct gp_far_pair {
    int from, to; /* stages */
    uint32_t tag;
    gp_parcel parcel;
    part_moves *parts; /* [mini] */
    char *packed;      /* staging, and on the host for parts of several ranges; NULL: the memory of the arena */
    bool shares;       /* packed is that of another pair */
};

/* ---- open, close ------------------------------------------------------------------------------------------------- */

/* Which moves of the collector's instruction are from the contributor. */
static part_moves find_part(const gp_plan *plan, const gp_mini_plan *mini, uint32_t collective,
                            const gp_far_pair *its) {
    const gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)its->to, .collective = collective};
    part_moves found = {0};
    gp_move move;
    for (int i = 0; gp_instr_move(plan, mini, &collect, i, &move); i++) {
        if (move.from != its->from) continue;
        if (found.count++ == 0) found.first = i;
        found.bytes += move.bytes;
    }
    return found;
}

/* NULL: no message goes that way. */
static gp_far_pair *find_pair(const gp_far *far, size_t collective, int from, int to) {
    for (size_t i = 0; i < far->pair_counts[collective]; i++) {
        gp_far_pair *its = &far->pairs[collective][i];
        if (its->from == from && its->to == to) return its;
    }
    return NULL;
}

static gp_status open_pair(gp_run *run, uint32_t collective, gp_far_pair *its, gp_error *err) {
    const gp_plan *plan = run->plan;
    GP_RETURN_IF_FAILED(GP_NEW(&its->parts, plan->mini_count, err));
    gp_parcel_init(&its->parcel);
    for (int m = 0; m < plan->mini_count; m++) its->parts[m] = find_part(plan, &plan->minis[m], collective, its);
    its->shares = gp_staging_is_shared(plan, collective, its->from);
    if (its->shares) {
        size_t scatter = gp_stages_scatter(plan->stages, collective); /* it comes before */
        its->packed = find_pair(run->far, scatter, its->to, its->from)->packed;
        return GP_OK;
    }
    return gp_far_new_buffer(run->far, gp_staging_of_pair(plan, collective, its->from, its->to), &its->packed, err);
}

static gp_status open_collective(gp_run *run, uint32_t collective, gp_error *err) {
    const gp_plan *plan = run->plan;
    const gp_collective *its = &plan->stages->collectives[collective];
    size_t most = its->contributors.count * its->collectors.count, count = 0;
    if (its->transport == GP_TRANSPORT_THREADS) return GP_OK;
    gp_far_pair *pairs = aligned_alloc(_Alignof(gp_far_pair), most * sizeof *pairs);
    if (!pairs) return gp_fail(err, GP_MEMORY, "out of memory: messages of a collective");
    memset(pairs, 0, most * sizeof *pairs);
    run->far->pairs[collective] = pairs;
    uint32_t tag = gp_tag_of_collective(plan, collective);
    for (size_t i = 0; i < most; i++) {
        int from = its->contributors.items[i / its->collectors.count];
        int to = its->collectors.items[i % its->collectors.count];
        if (!gp_plan_has_wire(plan, from, to)) continue;
        pairs[count] = (gp_far_pair){.from = from, .to = to, .tag = tag + (uint32_t)i};
        run->far->pair_counts[collective] = ++count;
        GP_RETURN_IF_FAILED(open_pair(run, collective, &pairs[count - 1], err));
    }
    return GP_OK;
}

gp_status gp_far_open_collectives(gp_run *run, gp_error *err) {
    size_t count = run->plan->stages->collective_count;
    GP_RETURN_IF_FAILED(GP_NEW(&run->far->pairs, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&run->far->pair_counts, count, err));
    for (size_t c = 0; c < count; c++) GP_RETURN_IF_FAILED(open_collective(run, (uint32_t)c, err));
    return GP_OK;
}

void gp_far_close_collectives(gp_run *run) {
    gp_far *far = run->far;
    for (size_t c = 0; far->pair_counts && c < run->plan->stages->collective_count; c++) {
        for (size_t i = 0; i < far->pair_counts[c]; i++) {
            free(far->pairs[c][i].parts);
            if (!far->pairs[c][i].shares) free(far->pairs[c][i].packed);
        }
        free(far->pairs[c]);
    }
    free(far->pairs);
    free(far->pair_counts);
}

/* ---- posts ------------------------------------------------------------------------------------------------------- */

static gp_instr collect_of(const gp_far_pair *its, uint32_t collective) {
    return (gp_instr){.op = GP_INSTR_COLLECT, .stage = (uint16_t)its->to, .collective = collective};
}

static const part_moves *part_of(const gp_run *run, const gp_mini_plan *mini, const gp_far_pair *its) {
    return &its->parts[mini - run->plan->minis];
}

/* Whether a part goes through its buffer. */
static bool is_packed(const gp_worker *worker, const part_moves *part) {
    return part->count > 1 || !gp_worker_kind(worker)->on_host;
}

static void fill_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect, gp_far_pair *its) {
    const part_moves *part = part_of(worker->run, mini, its);
    char *address = its->packed;
    gp_move move;
    if (!is_packed(worker, part)) {
        gp_instr_move(worker->run->plan, mini, collect, part->first, &move);
        address = worker->arena + move.offset;
    }
    gp_parcel_fill(&its->parcel, worker->command, gp_far_process_of(worker->run, its->from), its->tag, address,
                   part->bytes, true);
}

/* The sums of a bucket arrive where the own part for that replica was scattered from: their receive begins when that
 * message has gone. NULL: what is sent is no scatter, or no sums come. */
static gp_parcel *receive_of_sums(gp_worker *worker, const gp_mini_plan *mini, uint32_t scatter,
                                  const gp_far_pair *sent) {
    const gp_stages *stages = worker->run->plan->stages;
    size_t exchange = gp_stages_exchange(stages, scatter);
    if (stages->collectives[scatter].kind != GP_COLLECTIVE_SCATTER || exchange == scatter) return NULL;
    gp_far_pair *its = find_pair(worker->run->far, exchange, sent->to, sent->from);
    const gp_instr collect = collect_of(its, (uint32_t)exchange);
    fill_receive(worker, mini, &collect, its);
    return &its->parcel;
}

/* The one range, or all of them packed. */
static gp_status send_part(gp_worker *worker, const gp_mini_plan *mini, uint32_t collective, gp_far_pair *its,
                           gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const part_moves *part = part_of(worker->run, mini, its);
    const gp_instr collect = collect_of(its, collective);
    const char *address = NULL;
    size_t packed = 0;
    gp_move move;
    for (int i = 0; i < part->count; i++) {
        gp_instr_move(plan, mini, &collect, part->first + i, &move);
        address = worker->arena + move.source;
        if (is_packed(worker, part))
            GP_RETURN_IF_FAILED(gp_far_take_out(worker, its->packed + packed, address, move.bytes, err));
        packed += move.bytes;
    }
    if (is_packed(worker, part)) address = its->packed;
    int to = gp_far_process_of(worker->run, its->to);
    if (plan->stages->collectives[collective].part == GP_PART_GRADIENTS)
        gp_wire_send_bulk(worker->run->wire, &its->parcel, worker->command, to, its->tag, address, part->bytes,
                          receive_of_sums(worker, mini, collective, its));
    else
        gp_wire_send(worker->run->wire, &its->parcel, worker->command, to, its->tag, address, part->bytes);
    return GP_OK;
}

gp_status gp_far_post(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_event *posted,
                      gp_error *err) {
    gp_far *far = worker->run->far;
    bool waited = false;
    for (size_t i = 0; far && i < far->pair_counts[instr->collective]; i++) {
        gp_far_pair *its = &far->pairs[instr->collective][i];
        if (its->from != instr->stage || part_of(worker->run, mini, its)->bytes == 0) continue;
        if (!waited) GP_RETURN_IF_FAILED(gp_far_wait_computed(worker, posted, err));
        waited = true;
        GP_RETURN_IF_FAILED(send_part(worker, mini, instr->collective, its, err));
    }
    return GP_OK;
}

gp_status gp_far_wait_posted(gp_worker *worker, uint32_t collective, int from, gp_error *err) {
    gp_far *far = worker->run->far;
    for (size_t i = 0; i < far->pair_counts[collective]; i++) {
        gp_far_pair *its = &far->pairs[collective][i];
        if (its->from == from && its->parcel.value == worker->command)
            GP_RETURN_IF_FAILED(gp_parcel_wait(&its->parcel, &worker->run->cancel, err));
    }
    return GP_OK;
}

/* ---- collects ---------------------------------------------------------------------------------------------------- */

static void begin_receive_of(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect, gp_far_pair *its) {
    if (its->to != collect->stage || its->parcel.value == worker->command) return;
    if (part_of(worker->run, mini, its)->bytes == 0) return;
    fill_receive(worker, mini, collect, its);
    gp_wire_post(worker->run->wire, &its->parcel);
}

/* Sums for a replica that scatters nothing, since it has no samples: their places are free. */
static void begin_idle_sums(gp_worker *worker, const gp_mini_plan *mini, size_t scatter, int stage) {
    const gp_far *far = worker->run->far;
    size_t exchange = gp_stages_exchange(worker->run->plan->stages, scatter);
    for (size_t i = 0; exchange != scatter && i < far->pair_counts[exchange]; i++) {
        gp_far_pair *its = &far->pairs[exchange][i];
        const gp_instr collect = collect_of(its, (uint32_t)exchange);
        if (its->to != stage) continue;
        if (part_of(worker->run, mini, find_pair(far, scatter, its->to, its->from))->bytes == 0)
            begin_receive_of(worker, mini, &collect, its);
    }
}

void gp_far_begin_buckets(gp_worker *worker, const gp_mini_plan *mini) {
    const gp_plan *plan = worker->run->plan;
    for (int s = 0; s < plan->stages->count && mini->training; s++) {
        const gp_stage *stage = &plan->stages->stage[s];
        if (plan->stage[s].worker != worker->index) continue;
        for (size_t c = stage->scatter; c < stage->scatter + (size_t)stage->buckets; c++) {
            const gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)s, .collective = (uint32_t)c};
            for (size_t i = 0; i < worker->run->far->pair_counts[c]; i++)
                begin_receive_of(worker, mini, &collect, &worker->run->far->pairs[c][i]);
            begin_idle_sums(worker, mini, c, s);
        }
    }
}

static bool has_ended(const gp_parcel *parcel, uint64_t value) {
    return parcel->value == value && gp_signal_reached(&parcel->done, value);
}

bool gp_far_is_there(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect) {
    const gp_far *far = worker->run->far;
    for (size_t i = 0; far && i < far->pair_counts[collect->collective]; i++) {
        const gp_far_pair *its = &far->pairs[collect->collective][i];
        bool arrives = its->to == collect->stage && part_of(worker->run, mini, its)->bytes > 0;
        if (arrives && !has_ended(&its->parcel, worker->command)) return false;
    }
    return true;
}

gp_status gp_far_collect(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    gp_far *far = worker->run->far;
    size_t count = far ? far->pair_counts[instr->collective] : 0;
    for (size_t i = 0; i < count; i++) begin_receive_of(worker, mini, instr, &far->pairs[instr->collective][i]);
    for (size_t i = 0; i < count; i++) {
        gp_far_pair *its = &far->pairs[instr->collective][i];
        if (its->to != instr->stage || part_of(worker->run, mini, its)->bytes == 0) continue;
        GP_RETURN_IF_FAILED(gp_parcel_wait(&its->parcel, &worker->run->cancel, err));
    }
    return GP_OK;
}

static gp_status unpack(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_far_pair *its,
                        gp_error *err) {
    const part_moves *part = part_of(worker->run, mini, its);
    gp_stream *queue = worker->queue[gp_instr_queue(worker->run->plan->stages, instr)];
    size_t unpacked = 0;
    gp_move move;
    for (int i = 0; i < part->count && is_packed(worker, part); i++) {
        gp_instr_move(worker->run->plan, mini, instr, part->first + i, &move);
        GP_RETURN_IF_FAILED(gp_worker_kind(worker)->copy_in(queue, worker->arena + move.offset, its->packed + unpacked,
                                                            move.bytes, err));
        unpacked += move.bytes;
    }
    return GP_OK;
}

gp_status gp_far_unpack(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_far *far = worker->run->far;
    for (size_t i = 0; far && i < far->pair_counts[instr->collective]; i++) {
        const gp_far_pair *its = &far->pairs[instr->collective][i];
        if (its->to == instr->stage) GP_RETURN_IF_FAILED(unpack(worker, mini, instr, its, err));
    }
    return GP_OK;
}
