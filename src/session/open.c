/* Opens sessions: of a whole run, and of each phase of a run whose configuration changes. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/machine_processors.h"
#include "base/memory.h"
#include "session/devices.h"
#include "session/session_internal.h"

static gp_status set_weights(gp_session *session, gp_error *err) {
    gp_train_config *train = &session->config->train;
    train->steps = 0;
    free(train->init);
    train->init = NULL;
    train->init_place = (gp_place){0};
    train->init_skip_count = 0;
    return gp_copy_text(&train->init, session->options.weights, err);
}

/* Another session of the same run, with the configuration after so many changes, which it borrows from `like`: `whole`
 * is NULL in it. */
static gp_status open_phase(const gp_session *like, int changes, gp_session **out, gp_error *err) {
    gp_session *session = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&session, 1, err));
    session->whole = like->whole;
    session->options = (gp_session_options){.processes = like->options.processes,
                                            .rank = like->options.rank,
                                            .machines = like->options.machines,
                                            .data_samples = like->options.data_samples,
                                            .norms = like->options.norms,
                                            .resumes = true,            /* weights are the run's own */
                                            .step = like->options.step, /* with which the process began */
                                            .profiling = like->options.profiling,
                                            .helpers = like->options.helpers,
                                            .shares = like->options.shares,
                                            .machine = like->options.machine,
                                            .processors = like->options.processors,
                                            .trace = like->options.trace};
    gp_session_set_phase(session, changes);
    gp_status status = gp_session_prepare(session, err);
    session->whole = NULL;
    if (status != GP_OK)
        gp_session_close(&session);
    else
        *out = session;
    return status;
}

/* What was wrong, after the place of the change that makes it so. */
static gp_status refuse(const gp_change *change, gp_error *err) {
    const gp_error cause = *err;
    return gp_fail_at(err, cause.status, change->place, "changes.%" PRId64 ": %s", change->step, cause.text);
}

static gp_status check_step(const gp_session *before, const gp_change *change, gp_error *err) {
    if (change->step - 1 <= before->steps) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, change->place,
                      "changes: step %" PRId64 " is after the end of the run, step %" PRId64, change->step,
                      before->steps);
}

static gp_status check_change(const gp_session *first, const gp_session *before, int index, gp_session **out,
                              gp_error *err) {
    const gp_change *change = &first->whole->changes[index];
    GP_RETURN_IF_FAILED(check_step(before, change, err));
    if (gp_may_change(before->config, change->config, err) != GP_OK) return refuse(change, err);
    if (open_phase(first, index + 1, out, err) != GP_OK) return refuse(change, err);
    if ((*out)->steps >= change->step) return GP_OK;
    gp_session_close(out);
    return gp_fail_at(err, GP_CONFIG, change->place,
                      "changes: step %" PRId64 " is after the end of the run, step %" PRId64, change->step,
                      before->steps);
}

/* Opens every later configuration and closes it again. GP_CONFIG at the change that cannot be. */
static gp_status check_changes(gp_session *session, gp_error *err) {
    int later = session->whole->change_count - session->changes;
    const gp_session *before = session;
    gp_session *last = NULL, *next = NULL;
    gp_status status = GP_OK;
    if (later == 0) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&session->later, later, err));
    for (int i = 0; i < later && status == GP_OK; i++) {
        status = check_change(session, before, session->changes + i, &next, err);
        if (status != GP_OK || !next) break;
        session->later[session->later_count++] = next->host;
        gp_session_close(&last);
        before = last = next;
        next = NULL;
    }
    gp_session_close(&last);
    return status;
}

static gp_status open_whole(gp_session *session, gp_error *err) {
    const gp_config *whole = session->whole;
    const gp_session_options *options = &session->options;
    bool alone = options->balances || options->tries; /* only the first configuration is looked at */
    int changes = alone ? 0 : options->weights ? whole->change_count : gp_config_changes_until(whole, options->step);
    gp_session_set_phase(session, changes);
    if (options->weights) GP_RETURN_IF_FAILED(set_weights(session, err));
    GP_RETURN_IF_FAILED(gp_session_prepare(session, err));
    if (alone || options->weights) session->until = INT64_MAX;
    bool follows = options->data_samples != NULL; /* process 0 has checked them */
    return alone || options->weights || follows ? GP_OK : check_changes(session, err);
}

gp_status gp_session_open(gp_config **config, const gp_session_options *options, gp_session **out, gp_error *err) {
    static const gp_session_options none = {0};
    gp_session *session = NULL;
    if (!options) options = &none;
    gp_status status = GP_NEW(&session, 1, err);
    if (status != GP_OK) {
        gp_config_destroy(config);
        return status;
    }
    session->whole = *config;
    *config = NULL;
    session->options = *options;
    if (options->processors == 0) session->options.processors = gp_machine_processors();
    status = open_whole(session, err);
    session->options.helpers = NULL;
    if (status != GP_OK && options->given && session->profile) {
        *options->given = session->profile;
        session->profile = NULL;
    }
    if (status != GP_OK)
        gp_session_close(&session);
    else
        *out = session;
    return status;
}

gp_status gp_session_change(gp_session *session, gp_error *err) {
    gp_session *next = NULL;
    gp_dataset_close(&session->eval);
    gp_dataset_close(&session->train);
    GP_RETURN_IF_FAILED(open_phase(session, session->changes + 1, &next, err));
    const gp_session before = *session;
    *session = *next;
    *next = before;
    session->whole = before.whole;
    session->host.program = before.host.program; /* measured before the run */
    next->whole = NULL;
    gp_session_close(&next);
    return GP_OK;
}
