/* Exchanges within a pass between processes: a stage offers its part, and takes those of the other replicas. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/far_internal.h"
#include "plan/staging.h"
#include "plan/tags.h"

/* A stage and a replica of its group in another process. Of sent messages two may be under way: the part of one
 * exchange need not have gone when the next one is posted. */
struct gp_far_peer {
    uint64_t sent, received; /* messages so far */
    gp_parcel out[2], in;    /* [number of the message % 2] */
    char *staging;           /* of out[0], out[1] and in; NULL: the memory of the arena */
    size_t stride;
};

/* ---- open, close ------------------------------------------------------------------------------------------------- */

static gp_status open_peer(gp_run *run, int stage, int other, gp_far_peer *its, gp_error *err) {
    *its = (gp_far_peer){.sent = 0};
    gp_parcel_init(&its->out[0]);
    gp_parcel_init(&its->out[1]);
    gp_parcel_init(&its->in);
    if (!gp_plan_has_wire(run->plan, stage, other)) return GP_OK;
    its->stride = gp_staging_of_peer(run->plan, stage);
    return gp_far_new_buffer(run->far, GP_PEER_BUFFERS * its->stride, &its->staging, err);
}

gp_status gp_far_open_peers(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    GP_RETURN_IF_FAILED(GP_NEW(&run->far->peers, plan->stages->count, err));
    for (int s = 0; s < plan->stages->count; s++) {
        int group = plan->stages->stage[s].group;
        if (gp_plan_stage_is_far(plan, s) || !gp_tags_has_exchange(plan, s)) continue;
        gp_far_peer *peers = aligned_alloc(_Alignof(gp_far_peer), (size_t)group * sizeof *peers);
        if (!peers) return gp_fail(err, GP_MEMORY, "out of memory: messages of %d replicas", group);
        run->far->peers[s] = memset(peers, 0, (size_t)group * sizeof *peers);
        for (int i = 0; i < group; i++)
            GP_RETURN_IF_FAILED(open_peer(run, s, gp_stages_group(plan->stages, s) + i, &peers[i], err));
    }
    return GP_OK;
}

void gp_far_close_peers(gp_run *run) {
    gp_far *far = run->far;
    for (int s = 0; far->peers && s < run->plan->stages->count; s++) {
        for (int i = 0; far->peers[s] && i < run->plan->stages->stage[s].group; i++) free(far->peers[s][i].staging);
        free(far->peers[s]);
    }
    free(far->peers);
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

static gp_far_peer *peer_of(const gp_run *run, int stage, int other) {
    return &run->far->peers[stage][other - gp_stages_group(run->plan->stages, stage)];
}

/* Of out[0], out[1], in. */
static char *buffer_of_peer(const gp_far_peer *its, size_t i) {
    return its->staging ? its->staging + i * its->stride : NULL;
}

/* The own part to a replica, and its part to its place. The message before the last one has gone: gp_far_take has
 * waited for it. */
static gp_status trade_part(gp_worker *worker, int stage, const gp_move *move, const char *own, gp_error *err) {
    gp_run *run = worker->run;
    int other = move->from, first = gp_stages_group(run->plan->stages, stage);
    gp_far_peer *its = peer_of(run, stage, other);
    gp_parcel *out = &its->out[++its->sent % 2];
    char *to = buffer_of_peer(its, its->sent % 2), *in = buffer_of_peer(its, 2);
    gp_wire_receive(run->wire, &its->in, ++its->received, gp_far_process_of(run, other),
                    gp_tag_of_exchange(run->plan, other) + (uint32_t)(stage - first),
                    in ? in : worker->arena + move->offset, move->bytes);
    if (to) GP_RETURN_IF_FAILED(gp_far_take_out(worker, to, own, move->bytes, err));
    gp_wire_send(run->wire, out, its->sent, gp_far_process_of(run, other),
                 gp_tag_of_exchange(run->plan, stage) + (uint32_t)(other - first), to ? to : own, move->bytes);
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
        if (gp_plan_has_wire(run->plan, stage->stage, move.from))
            GP_RETURN_IF_FAILED(trade_part(worker, stage->stage, &move, own, err));
    return GP_OK;
}

gp_status gp_far_take(gp_worker *worker, int stage, const gp_move *move, gp_error *err) {
    gp_far_peer *its = peer_of(worker->run, stage, move->from);
    const char *in = buffer_of_peer(its, 2);
    GP_RETURN_IF_FAILED(gp_parcel_wait(&its->in, &worker->run->cancel, err));
    GP_RETURN_IF_FAILED(gp_parcel_wait(&its->out[(its->sent + 1) % 2], &worker->run->cancel, err));
    if (!in) return GP_OK;
    return gp_worker_kind(worker)->copy_in(worker->queue[GP_QUEUE_COMPUTE], worker->arena + move->offset, in,
                                           move->bytes, err);
}

gp_status gp_far_wait_peers(gp_worker *worker, int stage, gp_error *err) {
    const gp_run *run = worker->run;
    for (int i = 0; run->far->peers[stage] && i < run->plan->stages->stage[stage].group; i++)
        for (int p = 0; p < 2; p++)
            GP_RETURN_IF_FAILED(gp_parcel_wait(&run->far->peers[stage][i].out[p], &run->cancel, err));
    return GP_OK;
}
