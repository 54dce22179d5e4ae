#include "pipeline/follow.h"

#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/team_internal.h"
#include "plan/loads.h"

static gp_status receive_list(gp_run *run, int count, gp_tensor_copy *copies, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_wire_receive_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_LIST), run->team->entries,
                                            (size_t)count * sizeof(gp_call_entry), &run->cancel, err));
    for (int i = 0; i < count; i++) {
        const gp_call_entry *its = &run->team->entries[i];
        GP_RETURN_IF_FAILED(gp_call_entry_check(run->plan, its, err));
        copies[i] = (gp_tensor_copy){its->param, its->state, NULL};
    }
    return GP_OK;
}

static gp_status copy_list(gp_run *run, const gp_call *its, gp_error *err) {
    gp_tensor_copy *copies = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&copies, its->count, err));
    gp_status status = receive_list(run, its->count, copies, err);
    if (status == GP_OK)
        status = its->kind == GP_CALL_READ ? gp_run_read(run, copies, its->count, err)
                                           : gp_run_write(run, copies, its->count, err);
    free(copies);
    return status;
}

static gp_status make_recorder(gp_run *run, bool ticks, gp_error *err) {
    gp_team *team = run->team;
    if (!team->recorder) GP_RETURN_IF_FAILED(gp_recorder_create(run->plan->workers, &team->recorder, err));
    if (ticks && !team->recorder->ticks) GP_RETURN_IF_FAILED(gp_recorder_add_ticks(team->recorder, err));
    return GP_OK;
}

static gp_status record(gp_run *run, const gp_call *its, gp_error *err) {
    GP_RETURN_IF_FAILED(make_recorder(run, its->flags & GP_CALL_TICKS, err));
    run->recorder = run->team->recorder;
    for (int w = 0; w < run->plan->workers; w++) {
        if (gp_run_is_far(run, w)) continue;
        run->recorder->lanes[w].count = 0;
        GP_RETURN_IF_FAILED(gp_lane_reserve(&run->recorder->lanes[w], gp_team_spans(run, its->mini, w), err));
        if (!run->recorder->ticks) continue;
        run->recorder->ticks[w].count = 0;
        GP_RETURN_IF_FAILED(gp_ticks_reserve(&run->recorder->ticks[w], gp_team_ticks(run, its->mini, w), err));
    }
    return its->flags & GP_CALL_ALIGNS ? gp_team_tell_clock(run, err) : GP_OK;
}

/* *counted: as gp_feed.take has it. */
static gp_status take_data(gp_run *run, const gp_feed *feed, const gp_call *its, gp_step_input *out, int64_t *counted,
                           gp_error *err) {
    const gp_mini_plan *mini = &run->plan->minis[its->mini];
    *out = (gp_step_input){.seed = its->seed,
                           .step = its->step,
                           .epoch = its->epoch,
                           .index = its->index,
                           .rate = its->rate,
                           .divisor = its->divisor};
    *counted = 0;
    if (!feed->take) return GP_OK;
    return feed->take(feed->context, mini->training, its->epoch, its->index, mini->samples, out, counted, err);
}

static gp_status count(gp_run *run, const gp_feed *feed, const gp_call *its, gp_error *err) {
    gp_step_input input;
    int64_t counted;
    if (!gp_plan_loads(run->plan, run->plan->rank, GP_VALUE_TARGET)) return GP_OK;
    GP_RETURN_IF_FAILED(take_data(run, feed, its, &input, &counted, err));
    return gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_COUNT), &counted, sizeof counted, &run->cancel,
                            err);
}

static gp_status step(gp_run *run, const gp_feed *feed, const gp_call *its, gp_error *err) {
    gp_step_input input;
    gp_step_result result;
    gp_finding finding = {0};
    int64_t ignored;
    GP_RETURN_IF_FAILED(take_data(run, feed, its, &input, &ignored, err));
    run->recorder = NULL;
    if (its->flags & GP_CALL_RECORDS) GP_RETURN_IF_FAILED(record(run, its, err));
    if (its->kind == GP_CALL_DIAGNOSE) return gp_run_diagnose(run, its->mini, &input, &finding, err);
    return gp_run_step(run, its->mini, &input, &result, err);
}

/* How it went gets to process 0. It is no failure of the run. */
static gp_status answer(gp_run *run, const gp_feed *feed, const gp_call *its, gp_error *err) {
    gp_error how = {0};
    how.status = feed->answer(feed->context, (int)its->step, its->index, &how);
    if (gp_cancelled(&run->cancel)) return gp_cancel_cause(&run->cancel, err);
    const gp_answer said = gp_answer_pack(&how);
    return gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_ANSWER), &said, sizeof said, &run->cancel, err);
}

static gp_status obey(gp_run *run, const gp_feed *feed, const gp_call *its, gp_error *err) {
    switch ((gp_call_kind)its->kind) {
    case GP_CALL_COUNT: return count(run, feed, its, err);
    case GP_CALL_STEP:
    case GP_CALL_DIAGNOSE: return step(run, feed, its, err);
    case GP_CALL_READ:
    case GP_CALL_WRITE: return copy_list(run, its, err);
    case GP_CALL_SQUARES: return gp_run_squares(run, NULL, err);
    case GP_CALL_REFRESH: return gp_run_refresh(run, err);
    case GP_CALL_ASK: return answer(run, feed, its, err);
    case GP_CALL_END:
    case GP_CALL_NEXT:
    case GP_CALLS: break;
    }
    return GP_OK;
}

gp_status gp_run_follow(gp_run *run, const gp_feed *feed, bool *goes_on, gp_error *err) {
    for (;;) {
        gp_call its;
        GP_RETURN_IF_FAILED(
            gp_wire_receive_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_CALL), &its, sizeof its, &run->cancel, err));
        GP_RETURN_IF_FAILED(gp_call_check(run->plan, &its, err));
        *goes_on = its.kind == GP_CALL_NEXT;
        if (its.kind == GP_CALL_END || its.kind == GP_CALL_NEXT) return GP_OK;
        GP_RETURN_IF_FAILED(obey(run, feed, &its, err));
    }
}
