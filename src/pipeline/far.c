#include "pipeline/far.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/staging.h"
#include "plan/lines.h"
#include "plan/staging.h"

/* What a contributor sends to a collector in one mini-batch: moves of the collect instruction. */
typedef struct far_part {
    int first, count;
    size_t bytes;
} far_part;

/* A contributor and a collector of a collective, one of them in another process. */
typedef struct pair {
    int from, to; /* stages */
    uint32_t tag;
    gp_parcel parcel;
    far_part *parts; /* [mini] */
    char *packed;    /* staging, and on the host for parts of several ranges; NULL: the memory of the arena */
    bool shares;     /* packed is that of another pair */
} pair;

/* Of one worker in one mini-batch: receives items[first[i]] … items[first[i+1]−1] may begin before instruction i. */
typedef struct early {
    uint32_t *first; /* instructions + 1 entries */
    uint32_t *items; /* instructions that receive */
} early;

/* A stage and a replica of its group in another process. Of sent messages two may be under way: the part of one
 * exchange need not have gone when the next one is posted. */
typedef struct peer {
    uint64_t sent, received; /* messages so far */
    gp_parcel out[2], in;    /* [number of the message % 2] */
    char *staging;           /* of out[0], out[1] and in; NULL: the memory of the arena */
    size_t stride;
} peer;

/* What was last sent from a buffer: a command's message. Those of earlier commands have gone. */
typedef struct user {
    gp_parcel *parcel; /* NULL: nothing */
    uint64_t command;
} user;

/* The buffers of an edge. */
typedef struct ring {
    char *memory;
    gp_staging_ring its; /* count 0: the memory of the arena */
    user *users;         /* [buffer] */
} ring;

struct gp_far {
    int pieces;          /* of the mini-batch that has most */
    size_t staged;       /* bytes of all buffers */
    gp_parcel **parcels; /* [edge] one for each micro-batch; NULL: the edge does not lead to another process */
    ring *rings;         /* [edge] */
    pair **pairs;        /* [collective] */
    size_t *pair_counts; /* [collective] */
    peer **peers;        /* [stage] one for each replica of its group; NULL: it exchanges with no other process */
    early *earlies;      /* [mini·workers + worker] */
    int early_count;
};

/* ---- tags -------------------------------------------------------------------------------------------------------- */

static int most_pieces(const gp_plan *plan) {
    int most = 1;
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].pieces > most) most = plan->minis[m].pieces;
    return most;
}

static uint32_t collective_tag(const gp_plan *plan, size_t collective) {
    size_t tag = plan->stages->edge_count * (size_t)most_pieces(plan);
    for (size_t c = 0; c < collective; c++) {
        const gp_collective *its = &plan->stages->collectives[c];
        if (its->transport != GP_TRANSPORT_THREADS) tag += its->contributors.count * its->collectors.count;
    }
    return tag < UINT32_MAX / 2 ? (uint32_t)tag : UINT32_MAX / 2;
}

/* Whether the wire carries what the stage's group exchanges. */
static bool group_is_apart(const gp_plan *plan, int stage) {
    int first = gp_stages_group(plan->stages, stage);
    for (int s = first; s < first + plan->stages->stage[stage].group; s++)
        if (plan->process[plan->stage[s].worker] != plan->process[plan->stage[stage].worker])
            return !gp_plan_has_line(plan, s, stage);
    return false;
}

/* Of what a stage sends to the first replica of its group; those to the others follow. */
static uint32_t exchange_tag(const gp_plan *plan, int stage) {
    uint32_t tag = collective_tag(plan, plan->stages->collective_count);
    for (int s = 0; s < stage; s++)
        if (group_is_apart(plan, s)) tag += (uint32_t)plan->stages->stage[s].group;
    return tag;
}

uint32_t gp_far_line_tag(const gp_plan *plan, uint32_t number) {
    return exchange_tag(plan, plan->stages->count) + number;
}

uint32_t gp_far_tags(const gp_plan *plan) {
    return gp_far_line_tag(plan, gp_lines_numbers(plan));
}

/* ---- open, close ------------------------------------------------------------------------------------------------- */

bool gp_far_has_edge(const gp_run *run, uint32_t edge) {
    return run->far && run->far->parcels[edge];
}

/* Whether the wire carries what goes from one stage to another, one of them of this process. */
static bool carries(const gp_plan *plan, int from, int to) {
    bool own = gp_plan_stage_is_far(plan, from) != gp_plan_stage_is_far(plan, to);
    return own && gp_plan_route(plan, from, to) == GP_ROUTE_WIRE;
}

static gp_status new_buffer(gp_far *far, size_t bytes, char **out, gp_error *err) {
    far->staged = gp_size_plus(far->staged, bytes);
    return bytes > 0 ? gp_new_array((void **)out, bytes, 1, err) : GP_OK;
}

size_t gp_far_staged(const gp_run *run) {
    return run->far ? run->far->staged : 0;
}

static gp_status open_ring(gp_run *run, uint32_t edge, gp_error *err) {
    bool receives = gp_plan_stage_is_far(run->plan, run->plan->stages->edges[edge].from);
    ring *its = &run->far->rings[edge];
    its->its = gp_staging_of_edge(run->plan, run->orders, edge, receives);
    GP_RETURN_IF_FAILED(GP_NEW(&its->users, its->its.count, err));
    return new_buffer(run->far, gp_size_times(its->its.bytes, its->its.count), &its->memory, err);
}

static gp_status open_edges(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    gp_far *far = run->far;
    GP_RETURN_IF_FAILED(GP_NEW(&far->parcels, plan->stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&far->rings, plan->stages->edge_count, err));
    for (size_t e = 0; e < plan->stages->edge_count; e++) {
        const gp_edge *edge = &plan->stages->edges[e];
        if (!carries(plan, edge->from, edge->to)) continue;
        far->parcels[e] = aligned_alloc(_Alignof(gp_parcel), (size_t)far->pieces * sizeof(gp_parcel));
        if (!far->parcels[e]) return gp_fail(err, GP_MEMORY, "out of memory: messages of an edge");
        for (int m = 0; m < far->pieces; m++) gp_parcel_init(&far->parcels[e][m]);
        GP_RETURN_IF_FAILED(open_ring(run, (uint32_t)e, err));
    }
    return GP_OK;
}

/* Which moves of the collector's instruction are from the contributor. */
static far_part find_part(const gp_plan *plan, const gp_mini_plan *mini, uint32_t collective, const pair *its) {
    const gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)its->to, .collective = collective};
    far_part found = {0};
    gp_move move;
    for (int i = 0; gp_instr_move(plan, mini, &collect, i, &move); i++) {
        if (move.from != its->from) continue;
        if (found.count++ == 0) found.first = i;
        found.bytes += move.bytes;
    }
    return found;
}

/* NULL: no message goes that way. */
static pair *find_pair(const gp_far *far, size_t collective, int from, int to) {
    for (size_t i = 0; i < far->pair_counts[collective]; i++) {
        pair *its = &far->pairs[collective][i];
        if (its->from == from && its->to == to) return its;
    }
    return NULL;
}

static gp_status open_pair(gp_run *run, uint32_t collective, pair *its, gp_error *err) {
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
    return new_buffer(run->far, gp_staging_of_pair(plan, collective, its->from, its->to), &its->packed, err);
}

static gp_status open_collective(gp_run *run, uint32_t collective, gp_error *err) {
    const gp_plan *plan = run->plan;
    const gp_collective *its = &plan->stages->collectives[collective];
    size_t most = its->contributors.count * its->collectors.count, count = 0;
    if (its->transport == GP_TRANSPORT_THREADS) return GP_OK;
    pair *pairs = aligned_alloc(_Alignof(pair), most * sizeof *pairs);
    if (!pairs) return gp_fail(err, GP_MEMORY, "out of memory: messages of a collective");
    memset(pairs, 0, most * sizeof *pairs);
    run->far->pairs[collective] = pairs;
    uint32_t tag = collective_tag(plan, collective);
    for (size_t i = 0; i < most; i++) {
        int from = its->contributors.items[i / its->collectors.count];
        int to = its->collectors.items[i % its->collectors.count];
        if (!carries(plan, from, to)) continue;
        pairs[count] = (pair){.from = from, .to = to, .tag = tag + (uint32_t)i};
        run->far->pair_counts[collective] = ++count;
        GP_RETURN_IF_FAILED(open_pair(run, collective, &pairs[count - 1], err));
    }
    return GP_OK;
}

static gp_status open_peer(gp_run *run, int stage, int other, peer *its, gp_error *err) {
    enum { BUFFERS = 3 };
    *its = (peer){.sent = 0};
    gp_parcel_init(&its->out[0]);
    gp_parcel_init(&its->out[1]);
    gp_parcel_init(&its->in);
    if (!carries(run->plan, stage, other)) return GP_OK;
    its->stride = gp_staging_of_peer(run->plan, stage);
    return new_buffer(run->far, BUFFERS * its->stride, &its->staging, err);
}

static gp_status open_peers(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    GP_RETURN_IF_FAILED(GP_NEW(&run->far->peers, plan->stages->count, err));
    for (int s = 0; s < plan->stages->count; s++) {
        int group = plan->stages->stage[s].group;
        if (gp_plan_stage_is_far(plan, s) || !group_is_apart(plan, s)) continue;
        peer *peers = aligned_alloc(_Alignof(peer), (size_t)group * sizeof *peers);
        if (!peers) return gp_fail(err, GP_MEMORY, "out of memory: messages of %d replicas", group);
        run->far->peers[s] = memset(peers, 0, (size_t)group * sizeof *peers);
        for (int i = 0; i < group; i++)
            GP_RETURN_IF_FAILED(open_peer(run, s, gp_stages_group(plan->stages, s) + i, &peers[i], err));
    }
    return GP_OK;
}

/* ---- receives that begin ahead ----------------------------------------------------------------------------------- */

static bool uses_slot(const gp_stages *stages, const gp_instr *instr, int frame, uint16_t slot) {
    const gp_accesses accesses = gp_instr_accesses(stages, instr);
    return accesses.frame[frame].at && gp_instr_get_slot(instr, accesses.frame[frame]) == slot;
}

/* What enters the same slot in the same lifetime lies beside it. */
static bool lies_beside(const gp_instr *a, const gp_instr *b) {
    return a->micro == b->micro && (a->op == GP_INSTR_RECV || a->op == GP_INSTR_LOAD);
}

/* The instruction before which the receive `pc` can begin: after the one that copies from its buffer. */
static size_t earliest_staged(const gp_program *program, size_t buffers, size_t pc) {
    for (size_t at = pc; at > 0; at--) {
        const gp_instr *before = &program->instrs[at - 1];
        if (before->op == GP_INSTR_RECV && before->edge == program->instrs[pc].edge && --buffers == 0) return at;
    }
    return 0;
}

/* The same without a buffer: after the last one that uses its slot. If it must wait for another worker, at its place.
 */
static size_t earliest(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc) {
    const gp_program *program = &mini->programs->worker[worker];
    const gp_worker_waits *waits = &mini->waits->worker[worker];
    const gp_instr *receive = &program->instrs[pc];
    const gp_accesses accesses = gp_instr_accesses(plan->stages, receive);
    int frame = 0;
    while (frame < GP_FRAMES - 1 && !accesses.frame[frame].at) frame++;
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++)
        if (waits->items[i].kind != GP_WAIT_SENT) return pc;
    uint16_t slot = gp_instr_get_slot(receive, accesses.frame[frame]);
    for (size_t at = pc; at > 0; at--) {
        const gp_instr *before = &program->instrs[at - 1];
        if (before->stage != receive->stage || !uses_slot(plan->stages, before, frame, slot)) continue;
        if (!lies_beside(before, receive)) return at;
        for (size_t i = waits->first[at - 1]; i < waits->first[at]; i++)
            if (waits->items[i].kind != GP_WAIT_SENT) return at; /* it began the lifetime, after a wait */
    }
    return 0;
}

static bool is_far_receive(const gp_run *run, const gp_instr *instr) {
    return instr->op == GP_INSTR_RECV && gp_far_has_edge(run, instr->edge);
}

static gp_status find_early(gp_run *run, const gp_mini_plan *mini, int worker, early *out, gp_error *err) {
    const gp_program *program = &mini->programs->worker[worker];
    GP_RETURN_IF_FAILED(GP_NEW(&out->first, program->count + 2, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->items, program->count, err));
    uint32_t *at = NULL, total = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&at, program->count, err));
    for (size_t pc = 0; pc < program->count; pc++) {
        if (!is_far_receive(run, &program->instrs[pc])) continue;
        size_t buffers = run->far->rings[program->instrs[pc].edge].its.count;
        at[pc] =
            (uint32_t)(buffers > 0 ? earliest_staged(program, buffers, pc) : earliest(run->plan, mini, worker, pc));
        out->first[at[pc] + 1]++;
        total++;
    }
    for (size_t i = 0; i < program->count; i++) out->first[i + 1] += out->first[i];
    for (size_t pc = program->count; pc-- > 0;)
        if (is_far_receive(run, &program->instrs[pc])) out->items[--out->first[at[pc] + 1]] = (uint32_t)pc;
    /* Filling has moved each end down to its beginning. */
    memmove(out->first, out->first + 1, program->count * sizeof *out->first);
    out->first[program->count] = total;
    free(at);
    return GP_OK;
}

static gp_status open_earlies(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    gp_far *far = run->far;
    GP_RETURN_IF_FAILED(GP_NEW(&far->earlies, plan->mini_count * plan->workers, err));
    far->early_count = plan->mini_count * plan->workers;
    for (int i = 0; i < far->early_count; i++)
        if (!gp_plan_worker_is_far(plan, i % plan->workers))
            GP_RETURN_IF_FAILED(
                find_early(run, &plan->minis[i / plan->workers], i % plan->workers, &far->earlies[i], err));
    return GP_OK;
}

gp_status gp_far_open(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    if (!run->wire) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&run->far, 1, err));
    run->far->pieces = most_pieces(plan);
    GP_RETURN_IF_FAILED(open_edges(run, err));
    GP_RETURN_IF_FAILED(GP_NEW(&run->far->pairs, plan->stages->collective_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&run->far->pair_counts, plan->stages->collective_count, err));
    for (size_t c = 0; c < plan->stages->collective_count; c++)
        GP_RETURN_IF_FAILED(open_collective(run, (uint32_t)c, err));
    GP_RETURN_IF_FAILED(open_peers(run, err));
    return open_earlies(run, err);
}

void gp_far_close(gp_run *run) {
    gp_far *far = run->far;
    if (!far) return;
    for (size_t e = 0; far->parcels && e < run->plan->stages->edge_count; e++) free(far->parcels[e]);
    for (size_t e = 0; far->rings && e < run->plan->stages->edge_count; e++) {
        free(far->rings[e].memory);
        free(far->rings[e].users);
    }
    for (size_t c = 0; far->pair_counts && c < run->plan->stages->collective_count; c++) {
        for (size_t i = 0; i < far->pair_counts[c]; i++) {
            free(far->pairs[c][i].parts);
            if (!far->pairs[c][i].shares) free(far->pairs[c][i].packed);
        }
        free(far->pairs[c]);
    }
    for (int s = 0; far->peers && s < run->plan->stages->count; s++) {
        for (int i = 0; far->peers[s] && i < run->plan->stages->stage[s].group; i++) free(far->peers[s][i].staging);
        free(far->peers[s]);
    }
    free(far->peers);
    free(far->rings);
    for (int i = 0; i < far->early_count; i++) {
        free(far->earlies[i].first);
        free(far->earlies[i].items);
    }
    free(far->parcels);
    free(far->pairs);
    free(far->pair_counts);
    free(far->earlies);
    free(far);
    run->far = NULL;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

static int process_of(const gp_run *run, int stage) {
    return run->plan->process[run->plan->stage[stage].worker];
}

static uint32_t edge_tag(const gp_run *run, uint32_t edge, uint16_t micro) {
    return edge * (uint32_t)run->far->pieces + micro;
}

/* Number of the buffer of a copy, if the edge has buffers. */
static size_t place_of(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_run *run = worker->run;
    bool receives = instr->op == GP_INSTR_RECV;
    uint16_t number = gp_copy_number(run->orders, (int)(mini - run->plan->minis), instr->edge, receives, instr->micro);
    return number % run->far->rings[instr->edge].its.count;
}

/* NULL: the edge has none. */
static char *buffer_of(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    const ring *its = &worker->run->far->rings[instr->edge];
    return its->its.count > 0 ? its->memory + place_of(worker, mini, instr) * its->its.bytes : NULL;
}

/* Copies a part to its buffer, when the message before it has left that. With as many buffers as copies are in flight,
 * the receiver needs nothing for this that comes later in a serial execution of the programs. */
static gp_status fill_buffer(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_move *move,
                             const gp_event *sent, gp_error *err) {
    gp_run *run = worker->run;
    user *its = &run->far->rings[instr->edge].users[place_of(worker, mini, instr)];
    GP_RETURN_IF_FAILED(gp_staging_wait(worker, sent, err));
    gp_pulse_pause(&worker->pulse);
    if (its->command == worker->command) GP_RETURN_IF_FAILED(gp_parcel_wait(its->parcel, &run->cancel, err));
    gp_pulse_resume(&worker->pulse);
    *its = (user){&run->far->parcels[instr->edge][instr->micro], worker->command};
    return gp_staging_take_out(worker, buffer_of(worker, mini, instr), worker->arena + move->offset, move->bytes, err);
}

gp_status gp_far_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_event *sent,
                      gp_error *err) {
    gp_run *run = worker->run;
    char *buffer = buffer_of(worker, mini, instr);
    gp_move move;
    gp_instr_move(run->plan, mini, instr, 0, &move);
    if (buffer) GP_RETURN_IF_FAILED(fill_buffer(worker, mini, instr, &move, sent, err));
    gp_wire_send(run->wire, &run->far->parcels[instr->edge][instr->micro], worker->command,
                 process_of(run, run->plan->stages->edges[instr->edge].to), edge_tag(run, instr->edge, instr->micro),
                 buffer ? buffer : worker->arena + move.offset, move.bytes);
    return GP_OK;
}

static void begin_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    gp_run *run = worker->run;
    char *buffer = buffer_of(worker, mini, instr);
    gp_move move;
    gp_instr_move(run->plan, mini, instr, 0, &move);
    gp_wire_receive(run->wire, &run->far->parcels[instr->edge][instr->micro], worker->command,
                    process_of(run, run->plan->stages->edges[instr->edge].from),
                    edge_tag(run, instr->edge, instr->micro), buffer ? buffer : worker->arena + move.offset,
                    move.bytes);
}

gp_status gp_far_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    gp_parcel *parcel = &worker->run->far->parcels[instr->edge][instr->micro];
    if (parcel->value != worker->command) begin_receive(worker, mini, instr);
    return gp_parcel_wait(parcel, &worker->run->cancel, err);
}

gp_status gp_far_copy_in(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const char *buffer = buffer_of(worker, mini, instr);
    gp_move move;
    if (!buffer) return GP_OK;
    gp_instr_move(plan, mini, instr, 0, &move);
    gp_stream *queue = worker->queue[gp_instr_queue(plan->stages, instr)];
    return gp_worker_kind(worker)->copy_in(queue, worker->arena + move.offset, buffer, move.bytes, err);
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* Until a stage's own part of a collective has gone to all. */
static gp_status wait_part(gp_worker *worker, uint32_t collective, int from, gp_error *err) {
    gp_far *far = worker->run->far;
    for (size_t i = 0; i < far->pair_counts[collective]; i++) {
        pair *its = &far->pairs[collective][i];
        if (its->from == from && its->parcel.value == worker->command)
            GP_RETURN_IF_FAILED(gp_parcel_wait(&its->parcel, &worker->run->cancel, err));
    }
    return GP_OK;
}

static gp_instr collect_of(const pair *its, uint32_t collective) {
    return (gp_instr){.op = GP_INSTR_COLLECT, .stage = (uint16_t)its->to, .collective = collective};
}

static const far_part *part_of(const gp_run *run, const gp_mini_plan *mini, const pair *its) {
    return &its->parts[mini - run->plan->minis];
}

/* Whether a part goes through its buffer. */
static bool is_packed(const gp_worker *worker, const far_part *part) {
    return part->count > 1 || !gp_worker_kind(worker)->on_host;
}

static void fill_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect, pair *its) {
    const far_part *part = part_of(worker->run, mini, its);
    char *address = its->packed;
    gp_move move;
    if (!is_packed(worker, part)) {
        gp_instr_move(worker->run->plan, mini, collect, part->first, &move);
        address = worker->arena + move.offset;
    }
    gp_parcel_fill(&its->parcel, worker->command, process_of(worker->run, its->from), its->tag, address, part->bytes,
                   true);
}

/* The sums of a bucket arrive where the own part for that replica was scattered from: their receive begins when that
 * message has gone. NULL: what is sent is no scatter, or no sums come. */
static gp_parcel *receive_of_sums(gp_worker *worker, const gp_mini_plan *mini, uint32_t scatter, const pair *sent) {
    const gp_stages *stages = worker->run->plan->stages;
    size_t exchange = gp_stages_exchange(stages, scatter);
    if (stages->collectives[scatter].kind != GP_COLLECTIVE_SCATTER || exchange == scatter) return NULL;
    pair *its = find_pair(worker->run->far, exchange, sent->to, sent->from);
    const gp_instr collect = collect_of(its, (uint32_t)exchange);
    fill_receive(worker, mini, &collect, its);
    return &its->parcel;
}

/* The one range, or all of them packed. */
static gp_status send_part(gp_worker *worker, const gp_mini_plan *mini, uint32_t collective, pair *its, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const far_part *part = part_of(worker->run, mini, its);
    const gp_instr collect = collect_of(its, collective);
    const char *address = NULL;
    size_t packed = 0;
    gp_move move;
    for (int i = 0; i < part->count; i++) {
        gp_instr_move(plan, mini, &collect, part->first + i, &move);
        address = worker->arena + move.source;
        if (is_packed(worker, part))
            GP_RETURN_IF_FAILED(gp_staging_take_out(worker, its->packed + packed, address, move.bytes, err));
        packed += move.bytes;
    }
    if (is_packed(worker, part)) address = its->packed;
    int to = process_of(worker->run, its->to);
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
        pair *its = &far->pairs[instr->collective][i];
        if (its->from != instr->stage || part_of(worker->run, mini, its)->bytes == 0) continue;
        if (!waited) GP_RETURN_IF_FAILED(gp_staging_wait(worker, posted, err));
        waited = true;
        GP_RETURN_IF_FAILED(send_part(worker, mini, instr->collective, its, err));
    }
    return GP_OK;
}

static gp_status unpack(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const pair *its,
                        gp_error *err) {
    const far_part *part = part_of(worker->run, mini, its);
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
        const pair *its = &far->pairs[instr->collective][i];
        if (its->to == instr->stage) GP_RETURN_IF_FAILED(unpack(worker, mini, instr, its, err));
    }
    return GP_OK;
}

static void begin_receive_of(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect, pair *its) {
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
        pair *its = &far->pairs[exchange][i];
        const gp_instr collect = collect_of(its, (uint32_t)exchange);
        if (its->to != stage) continue;
        if (part_of(worker->run, mini, find_pair(far, scatter, its->to, its->from))->bytes == 0)
            begin_receive_of(worker, mini, &collect, its);
    }
}

/* What others scatter has places of its own, which are free from the step's beginning on. */
static void begin_buckets(gp_worker *worker, const gp_mini_plan *mini) {
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
        const pair *its = &far->pairs[collect->collective][i];
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
        pair *its = &far->pairs[instr->collective][i];
        if (its->to != instr->stage || part_of(worker->run, mini, its)->bytes == 0) continue;
        GP_RETURN_IF_FAILED(gp_parcel_wait(&its->parcel, &worker->run->cancel, err));
    }
    return GP_OK;
}

/* ---- ahead ------------------------------------------------------------------------------------------------------- */

void gp_far_receive_ahead(gp_worker *worker, const gp_mini_plan *mini, int64_t pc) {
    gp_run *run = worker->run;
    if (!run->far) return;
    if (pc < 0) begin_buckets(worker, mini);
    const early *its = &run->far->earlies[(int)(mini - run->plan->minis) * run->plan->workers + worker->index];
    const gp_program *program = &mini->programs->worker[worker->index];
    size_t next = (size_t)(pc + 1);
    if (next >= program->count) return;
    for (uint32_t i = its->first[next]; i < its->first[next + 1]; i++)
        if (its->items[i] != next) begin_receive(worker, mini, &program->instrs[its->items[i]]);
}

/* ---- exchanges within a pass ------------------------------------------------------------------------------------- */

static peer *peer_of(const gp_run *run, int stage, int other) {
    return &run->far->peers[stage][other - gp_stages_group(run->plan->stages, stage)];
}

/* Of out[0], out[1], in. */
static char *buffer_of_peer(const peer *its, size_t i) {
    return its->staging ? its->staging + i * its->stride : NULL;
}

/* The own part to a replica, and its part to its place. The message before the last one has gone: gp_far_take has
 * waited for it. */
static gp_status trade_part(gp_worker *worker, int stage, const gp_move *move, const char *own, gp_error *err) {
    gp_run *run = worker->run;
    int other = move->from, first = gp_stages_group(run->plan->stages, stage);
    peer *its = peer_of(run, stage, other);
    gp_parcel *out = &its->out[++its->sent % 2];
    char *to = buffer_of_peer(its, its->sent % 2), *in = buffer_of_peer(its, 2);
    gp_wire_receive(run->wire, &its->in, ++its->received, process_of(run, other),
                    exchange_tag(run->plan, other) + (uint32_t)(stage - first), in ? in : worker->arena + move->offset,
                    move->bytes);
    if (to) GP_RETURN_IF_FAILED(gp_staging_take_out(worker, to, own, move->bytes, err));
    gp_wire_send(run->wire, out, its->sent, process_of(run, other),
                 exchange_tag(run->plan, stage) + (uint32_t)(other - first), to ? to : own, move->bytes);
    return GP_OK;
}

gp_status gp_far_offer(gp_worker *worker, const gp_stage_plan *stage, const gp_exchange *exchange, int micro,
                       const gp_event *posted, gp_error *err) {
    const gp_run *run = worker->run;
    gp_move move;
    if (!run->far || !run->far->peers[stage->stage]) return GP_OK;
    const char *own = worker->arena + gp_exchange_own(run->plan, stage, exchange, micro);
    if (posted) GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_finish(posted, &run->cancel, err));
    for (int i = 0; gp_exchange_move(run->plan, stage, exchange, micro, i, &move); i++)
        if (carries(run->plan, stage->stage, move.from))
            GP_RETURN_IF_FAILED(trade_part(worker, stage->stage, &move, own, err));
    return GP_OK;
}

gp_status gp_far_take(gp_worker *worker, int stage, const gp_move *move, gp_error *err) {
    peer *its = peer_of(worker->run, stage, move->from);
    const char *in = buffer_of_peer(its, 2);
    GP_RETURN_IF_FAILED(gp_parcel_wait(&its->in, &worker->run->cancel, err));
    GP_RETURN_IF_FAILED(gp_parcel_wait(&its->out[(its->sent + 1) % 2], &worker->run->cancel, err));
    if (!in) return GP_OK;
    return gp_worker_kind(worker)->copy_in(worker->queue[GP_QUEUE_COMPUTE], worker->arena + move->offset, in,
                                           move->bytes, err);
}

static gp_status wait_for_peers(gp_worker *worker, int stage, gp_error *err) {
    const gp_run *run = worker->run;
    for (int i = 0; run->far->peers[stage] && i < run->plan->stages->stage[stage].group; i++)
        for (int p = 0; p < 2; p++)
            GP_RETURN_IF_FAILED(gp_parcel_wait(&run->far->peers[stage][i].out[p], &run->cancel, err));
    return GP_OK;
}

/* ---- what has gone ----------------------------------------------------------------------------------------------- */

gp_status gp_far_wait_gone(gp_worker *worker, uint32_t edge, uint16_t micro, gp_error *err) {
    return gp_parcel_wait(&worker->run->far->parcels[edge][micro], &worker->run->cancel, err);
}

gp_status gp_far_finish(gp_worker *worker, const gp_mini_plan *mini, gp_error *err) {
    const gp_run *run = worker->run;
    const gp_program *program = &mini->programs->worker[worker->index];
    for (int s = 0; run->far && s < run->plan->stages->count; s++)
        if (run->plan->stage[s].worker == worker->index) GP_RETURN_IF_FAILED(wait_for_peers(worker, s, err));
    for (size_t pc = 0; run->far && pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (instr->op == GP_INSTR_SEND && gp_far_has_edge(run, instr->edge))
            GP_RETURN_IF_FAILED(gp_parcel_wait(&run->far->parcels[instr->edge][instr->micro], &run->cancel, err));
        if (instr->op == GP_INSTR_POST) GP_RETURN_IF_FAILED(wait_part(worker, instr->collective, instr->stage, err));
    }
    return GP_OK;
}
