#include "tune/search_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/keeping.h"
#include "base/memory.h"
#include "base/share.h"
#include "base/text_stream.h"
#include "plan/memory.h"
#include "profile/profile_words.h"

enum { MODES = GP_CHECKPOINT_ALWAYS + 1, MOST_TRIES = 4 };

typedef struct chooser {
    const gp_session *session;
    gp_stage_policy *out;
    gp_plan *plans[MODES]; /* the session's cut with all stages in one mode */
    int64_t *kept;         /* [stage, each once] bytes that outputs take which are kept, of the largest share */
    int64_t *over;         /* [worker] by how much plans took more than was thought */
} chooser;

static gp_status plan_modes(chooser *c, gp_error *err) {
    int stages = c->session->plan->stages->numbers;
    for (int mode = 0; mode < MODES; mode++) {
        for (int s = 0; s < stages; s++) c->out->modes[s] = (gp_checkpoint_mode)mode;
        GP_RETURN_IF_FAILED(gp_session_plan_policy(c->session, c->out->modes, c->session->keeps, &c->plans[mode], err));
    }
    return GP_OK;
}

/* Bytes that are left on a worker with the current modes, by the plans in which each stage has its own. */
static int64_t room_on(const chooser *c, int worker) {
    const gp_plan *any = c->plans[0];
    size_t limit = gp_device_room(&any->devices[worker]);
    if (any->devices[worker].memory == 0 || limit > INT64_MAX) return INT64_MAX;
    int64_t room = (int64_t)limit - c->over[worker];
    size_t training = 0, evaluation = 0, saved = 0;
    for (int s = 0; s < any->stages->count; s++) {
        int number = any->stages->stage[s].number;
        const gp_stage_plan *stage = &c->plans[c->out->modes[number]]->stage[s];
        if (stage->worker != worker) continue;
        room -= (int64_t)stage->bytes + c->kept[number];
        if (stage->transient + stage->workspace > training) training = stage->transient + stage->workspace;
        if (stage->evaluation > evaluation) evaluation = stage->evaluation;
        saved = stage->frame_stride[GP_FRAME_SAVED] * (size_t)stage->slots[GP_FRAME_SAVED]; /* of the last one */
    }
    return room - (int64_t)gp_memory_transients(training, evaluation, saved);
}

/* The least of all replicas. */
static int64_t room_of(const chooser *c, int number) {
    const gp_plan *any = c->plans[0];
    int first = any->stages->first[number];
    int64_t least = INT64_MAX;
    for (int s = first; s < first + any->stages->stage[first].replicas; s++) {
        int64_t room = room_on(c, any->stage[s].worker);
        if (room < least) least = room;
    }
    return least;
}

static void choose_modes(chooser *c) {
    int stages = c->plans[0]->stages->numbers;
    for (int s = 0; s < stages; s++) c->out->modes[s] = GP_CHECKPOINT_ALWAYS;
    for (int s = 0; s < stages; s++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            c->out->modes[s] = (gp_checkpoint_mode)mode;
            if (room_of(c, s) >= 0) break;
        }
}

/* Of the first replica, whose share is the largest. */
static gp_status choose_kept_on(chooser *c, int number, gp_error *err) {
    const gp_session *session = c->session;
    const gp_plan *plan = c->plans[c->out->modes[number]];
    int s = plan->stages->first[number];
    int64_t samples = gp_share_of(gp_session_piece(session), plan->stages->stage[s].replicas, 0).count;
    gp_keeping keeping;
    gp_keep_result found;
    int first = plan->stages->stage[s].first_node;
    int64_t room = room_of(c, number);
    if (c->out->modes[number] == GP_CHECKPOINT_NEVER || room < 0) return GP_OK;
    const gp_profile *profile = session->profile;
    if (profile && gp_profile_is_disturbed(profile) && !profile->named) profile = NULL; /* it chooses nothing */
    GP_RETURN_IF_FAILED(gp_keeping_init(&keeping, plan, s, samples, session->keeps, profile, err));
    gp_status status = gp_keep_solve(keeping.layers, keeping.count, room, c->out->keeps + first, &found, err);
    if (status == GP_OK) c->kept[number] = found.bytes;
    for (int n = 0; n < keeping.count; n++)
        if (session->keeps[first + n]) c->out->keeps[first + n] = false; /* the layer says so itself */
    gp_keeping_fini(&keeping);
    return status;
}

static gp_status choose(chooser *c, bool keeps, gp_error *err) {
    const gp_plan *any = c->plans[0];
    memset(c->kept, 0, (size_t)any->stages->numbers * sizeof *c->kept);
    memset(c->out->keeps, 0, (size_t)any->graph->node_count * sizeof *c->out->keeps);
    choose_modes(c);
    for (int s = 0; s < any->stages->numbers && keeps; s++) GP_RETURN_IF_FAILED(choose_kept_on(c, s, err));
    return GP_OK;
}

static bool is_new(const chooser *c) {
    const gp_plan *any = c->plans[0];
    for (int s = 0; s < any->stages->numbers; s++)
        if (c->out->modes[s] != GP_CHECKPOINT_ALWAYS) return true;
    for (int n = 0; n < any->graph->node_count; n++)
        if (c->out->keeps[n]) return true;
    return false;
}

/* Whether the plan fits; else what it is over is noted. */
static bool fits(chooser *c, const gp_plan *plan) {
    bool all = true;
    for (int w = 0; w < plan->workers; w++) {
        size_t limit = gp_device_room(&plan->devices[w]);
        if (plan->devices[w].memory == 0 || plan->arena[w] <= limit) continue;
        c->over[w] += (int64_t)(plan->arena[w] - limit);
        all = false;
    }
    return all;
}

static gp_status plan_chosen(const chooser *c, gp_plan **out, gp_error *err) {
    int nodes = c->session->graph->node_count;
    bool *keeps = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&keeps, nodes, err));
    for (int n = 0; n < nodes; n++) keeps[n] = c->out->keeps[n] || c->session->keeps[n];
    gp_status status = gp_session_plan_policy(c->session, c->out->modes, keeps, out, err);
    free(keeps);
    return status;
}

/* The last tries do without kept outputs. */
static gp_status search(chooser *c, gp_error *err) {
    GP_RETURN_IF_FAILED(plan_modes(c, err));
    for (int i = 0; i < 2 * MOST_TRIES && !c->out->plan; i++) {
        gp_plan *plan = NULL;
        if (i == MOST_TRIES) memset(c->over, 0, (size_t)c->plans[0]->workers * sizeof *c->over);
        GP_RETURN_IF_FAILED(choose(c, i < MOST_TRIES, err));
        if (!is_new(c)) continue;
        GP_RETURN_IF_FAILED(plan_chosen(c, &plan, err));
        if (fits(c, plan))
            c->out->plan = plan;
        else
            gp_plan_destroy(&plan);
    }
    return GP_OK;
}

gp_status gp_search_stages(const gp_session *session, gp_stage_policy *out, gp_error *err) {
    chooser c = {.session = session, .out = out};
    *out = (gp_stage_policy){0};
    gp_status status = GP_NEW(&out->modes, session->plan->stages->numbers, err);
    if (status == GP_OK) status = GP_NEW(&out->keeps, session->graph->node_count, err);
    if (status == GP_OK) status = GP_NEW(&c.kept, session->plan->stages->numbers, err);
    if (status == GP_OK) status = GP_NEW(&c.over, session->plan->workers, err);
    if (status == GP_OK) status = search(&c, err);
    for (int mode = 0; mode < MODES; mode++) gp_plan_destroy(&c.plans[mode]);
    free(c.kept);
    free(c.over);
    return status;
}

void gp_stage_policy_fini(gp_stage_policy *policy) {
    gp_plan_destroy(&policy->plan);
    free(policy->modes);
    free(policy->keeps);
    *policy = (gp_stage_policy){0};
}

/* As a configuration would have read it. */
static gp_status describe(const gp_graph *graph, const gp_stage_policy *policy, gp_pipeline_config *out,
                          gp_error *err) {
    int stages = policy->plan->stages->numbers, same = 1;
    while (same < stages && policy->modes[same] == policy->modes[0]) same++;
    *out = (gp_pipeline_config){.checkpoint = policy->modes[0], .checkpoint_count = stages};
    if (same < stages) out->checkpoints = policy->modes;
    GP_RETURN_IF_FAILED(GP_NEW(&out->keep, graph->node_count, err));
    for (int n = 0; n < graph->node_count; n++)
        if (policy->keeps[n]) out->keep[out->keep_count++].text = graph->nodes[n].name;
    return GP_OK;
}

gp_status gp_stage_policy_text(const gp_session *session, const gp_stage_policy *policy, char **out, gp_error *err) {
    gp_text_stream stream;
    gp_pipeline_config pipeline;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "the checkpoint policy", err));
    gp_status status = describe(session->graph, policy, &pipeline, err);
    if (status == GP_OK) gp_write_checkpoint(stream.file, &pipeline);
    free(pipeline.keep);
    return gp_text_end(&stream, status, out, err);
}
