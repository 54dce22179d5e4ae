#include "report/account.h"

#include <stdlib.h>

#include "balance/expect.h"
#include "base/machine_memory.h"
#include "base/memory.h"
#include "profile/median.h"
#include "session/processors.h"

enum {
    FIRST_RECORDED = 2, /* the first is like no other: memory is touched, libraries compile */
    LAST_RECORDED = 9,
    RECORDED_EVERY = 16
};

struct gp_account {
    const gp_session *session;
    int mini;               /* of which steps are looked at */
    int64_t steps;          /* of that size, so far */
    gp_recorder *own;       /* emptied after each step */
    gp_recorder *recording; /* of the step that runs, own or another's; NULL: none */
    size_t *begins;         /* [worker] where the step's spans begin in it */
    int64_t recorded;
    double length; /* sum over them */
    double **took; /* [worker][pc] seconds: sum over them, and when it is settled their mean */
    gp_processor_times from;
    double *times; /* of every `stride`-th step but the first */
    size_t time_count;
    int64_t stride;
    int64_t all_steps; /* of any size; sums over them */
    double all_seconds, data_seconds;
};
_Static_assert(sizeof(gp_account) <= GP_ACCOUNT_BYTES, "planned memory is too small");

static gp_status open_sums(gp_account *account, gp_error *err) {
    const gp_programs *programs = account->session->plan->minis[account->mini].programs;
    GP_RETURN_IF_FAILED(GP_NEW(&account->took, programs->workers, err));
    for (int w = 0; w < programs->workers; w++)
        GP_RETURN_IF_FAILED(GP_NEW(&account->took[w], programs->worker[w].count, err));
    return GP_OK;
}

gp_status gp_account_open(const gp_session *session, gp_account **out, gp_error *err) {
    gp_account *account = NULL;
    int workers = session->plan->workers;
    GP_RETURN_IF_FAILED(GP_NEW(&account, 1, err));
    *account = (gp_account){.session = session, .mini = gp_plan_largest_mini(session->plan), .stride = 1};
    gp_processor_times_read(&account->from);
    gp_status status = gp_recorder_create(workers, &account->own, err);
    if (status == GP_OK) status = GP_NEW(&account->begins, workers, err);
    if (status == GP_OK) status = GP_NEW(&account->times, GP_ACCOUNT_TIMES, err);
    if (status == GP_OK) status = open_sums(account, err);
    if (status != GP_OK)
        gp_account_close(&account);
    else
        *out = account;
    return status;
}

void gp_account_close(gp_account **account) {
    gp_account *it = *account;
    if (!it) return;
    gp_recorder_destroy(&it->own);
    free(it->begins);
    free(it->times);
    for (int w = 0; it->took && w < it->session->plan->workers; w++) free(it->took[w]);
    free(it->took);
    free(it);
    *account = NULL;
}

static bool is_recorded(int64_t step) {
    return (step >= FIRST_RECORDED && step <= LAST_RECORDED) || step % RECORDED_EVERY == 0;
}

bool gp_account_records(const gp_account *account, int mini, int64_t more) {
    return mini == account->mini && is_recorded(account->steps + 1 + more);
}

gp_status gp_account_before(gp_account *account, gp_run *run, int mini, gp_recorder *traced, gp_error *err) {
    account->recording = NULL;
    if (!gp_account_records(account, mini, 0)) return GP_OK;
    account->recording = traced ? traced : account->own;
    const gp_programs *programs = account->session->plan->minis[mini].programs;
    for (int w = 0; w < programs->workers; w++) {
        gp_lane *lane = &account->recording->lanes[w];
        account->begins[w] = lane->count;
        if (!traced) GP_RETURN_IF_FAILED(gp_lane_reserve(lane, programs->worker[w].count, err));
    }
    if (!traced) gp_run_record(run, account->own);
    return GP_OK;
}

static void add_spans(gp_account *account, double length) {
    const gp_programs *programs = account->session->plan->minis[account->mini].programs;
    for (int w = 0; w < programs->workers; w++) {
        gp_lane *lane = &account->recording->lanes[w];
        for (size_t i = account->begins[w]; i < lane->count; i++) {
            const gp_span *span = &lane->spans[i];
            account->took[w][span->index] += 1e-9 * (double)(span->ended - span->started);
        }
        if (account->recording == account->own) lane->count = 0;
    }
    account->length += length;
    account->recorded++;
}

/* Where there are too many, every second one goes, and of those to come every second one is kept. */
static void add_time(gp_account *account, double seconds) {
    if (account->steps < FIRST_RECORDED || account->steps % account->stride != 0) return;
    if (account->time_count == GP_ACCOUNT_TIMES) {
        account->time_count /= 2;
        for (size_t i = 0; i < account->time_count; i++) account->times[i] = account->times[2 * i];
        account->stride *= 2;
    }
    account->times[account->time_count++] = seconds;
}

void gp_account_after(gp_account *account, gp_run *run, int mini, double seconds) {
    if (mini != account->mini) return;
    account->steps++;
    add_time(account, seconds);
    if (!account->recording) return;
    add_spans(account, seconds);
    if (account->recording == account->own) gp_run_record(run, NULL);
    account->recording = NULL;
}

void gp_account_add(gp_account *account, double seconds, double data_seconds) {
    account->all_steps++;
    account->all_seconds += seconds;
    account->data_seconds += data_seconds;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* What is left of a step, which lasts as long on every worker. A device's queues copy beside its computations. */
static void set_waiting(gp_account_share *share, const gp_device_kind *kind, double length) {
    double waiting = length - share->busy - (kind->on_host ? share->copying : 0);
    share->waiting = waiting > 0 ? waiting : 0;
}

static void add_up(gp_account_side *side, const gp_plan *plan, double length) {
    double busy = 0;
    for (int w = 0; w < plan->workers; w++) {
        set_waiting(&side->worker[w], plan->devices[w].kind, length);
        busy += side->worker[w].busy;
    }
    side->bubble = length > 0 ? 1 - busy / (length * plan->workers) : 0;
}

static gp_status expect(const gp_account *account, gp_account_side *side, gp_error *err) {
    const gp_session *session = account->session;
    gp_play *play = NULL;
    GP_RETURN_IF_FAILED(gp_expect_play(session->plan, account->mini, session->profile, &play, err));
    side->seconds = play->length;
    for (int w = 0; w < play->workers; w++)
        side->worker[w] = (gp_account_share){play->worker[w].busy, play->worker[w].copying, 0};
    add_up(side, session->plan, play->length);
    gp_play_destroy(&play);
    return GP_OK;
}

/* As schedule/play.h adds up. */
static void add_span(gp_account_share *share, const gp_instr *instr, double seconds) {
    if (gp_instr_copies(instr))
        share->copying += seconds;
    else if (gp_instr_computes(instr))
        share->busy += seconds;
}

static void measure(gp_account *account, gp_account_side *side) {
    const gp_programs *programs = account->session->plan->minis[account->mini].programs;
    double count = (double)account->recorded;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            account->took[w][pc] /= count;
            add_span(&side->worker[w], &programs->worker[w].instrs[pc], account->took[w][pc]);
        }
    side->seconds = account->length / count;
    add_up(side, account->session->plan, side->seconds);
}

/* Seconds of a step whose computations took as long as recorded; `copies`: copies too. */
static gp_status replay(const gp_account *account, bool copies, double *out, gp_error *err) {
    const gp_session *session = account->session;
    const gp_replay taken = {account->took, copies};
    gp_play *play = NULL;
    GP_RETURN_IF_FAILED(gp_expect_replay(session->plan, account->mini, session->profile, &taken, &play, err));
    *out = play->length;
    gp_play_destroy(&play);
    return GP_OK;
}

/* Term by term, so that they add up. */
static gp_status find_off(const gp_account *account, gp_account_result *result, gp_error *err) {
    double computing, both;
    GP_RETURN_IF_FAILED(replay(account, false, &computing, err));
    GP_RETURN_IF_FAILED(replay(account, true, &both, err));
    result->off = (gp_account_off){.computing = computing - result->expected.seconds,
                                   .copying = both - computing,
                                   .waiting = result->measured.seconds - both};
    return GP_OK;
}

gp_status gp_account_settle(gp_account *account, gp_account_result **out, gp_error *err) {
    gp_account_result *result = NULL;
    int workers = account->session->plan->workers;
    *out = NULL;
    if (account->recorded == 0) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&result, 1, err));
    *result = (gp_account_result){.workers = workers,
                                  .profiled = !gp_profile_is_counted(account->session->profile),
                                  .steps = account->steps,
                                  .recorded = account->recorded,
                                  .median = gp_median_of(account->times, account->time_count).median,
                                  .all_steps = account->all_steps,
                                  .all_seconds = account->all_seconds,
                                  .data_seconds = account->data_seconds,
                                  .stolen = gp_processor_times_stolen(&account->from),
                                  .host = account->session->host,
                                  .resident_bytes = gp_process_peak("")};
    gp_status status = GP_NEW(&result->expected.worker, workers, err);
    if (status == GP_OK) status = GP_NEW(&result->measured.worker, workers, err);
    if (status == GP_OK) status = expect(account, &result->expected, err);
    if (status == GP_OK) measure(account, &result->measured);
    if (status == GP_OK) status = find_off(account, result, err);
    if (status != GP_OK)
        gp_account_result_destroy(&result);
    else
        *out = result;
    return status;
}

double gp_account_data_share(const gp_account_result *result) {
    double all = result->all_seconds + result->data_seconds;
    return all > 0 ? result->data_seconds / all : 0;
}

void gp_account_result_destroy(gp_account_result **result) {
    gp_account_result *it = *result;
    if (!it) return;
    free(it->expected.worker);
    free(it->measured.worker);
    free(it);
    *result = NULL;
}
