/* Sessions of a run whose configuration changes: the plans of all its phases are checked before it begins. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "session/may_change.h"
#include "session/session_internal.h"

int64_t gp_session_last(const gp_session *session) {
    return session->steps < session->until ? session->steps : session->until;
}

gp_run_length gp_session_length(const gp_session *session) {
    return (gp_run_length){.steps = session->steps,
                           .epoch_steps = session->epoch_steps ? session->epoch_steps : 1,
                           .epochs = session->epochs.count > 0 ? &session->epochs : NULL};
}

void gp_session_set_phase(gp_session *session, int changes) {
    const gp_config *whole = session->whole;
    session->changes = changes;
    session->config = gp_config_phase(session->whole, changes);
    session->after = changes > 0 ? whole->changes[changes - 1].step - 1 : 0;
    session->until = changes < whole->change_count ? whole->changes[changes].step - 1 : INT64_MAX;
}

gp_status gp_session_find_epochs(gp_session *session, gp_error *err) {
    session->epochs.samples = gp_dataset_count(session->train);
    for (int i = 0; i <= session->changes; i++) {
        const gp_data_config *data = &gp_config_phase(session->whole, i)->data;
        int64_t after = i > 0 ? session->whole->changes[i - 1].step - 1 : 0;
        GP_RETURN_IF_FAILED(gp_epochs_add(&session->epochs, after, data->batch, data->drop_last, err));
    }
    return GP_OK;
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
    if (gp_session_open_phase(first, index + 1, out, err) != GP_OK) return refuse(change, err);
    if ((*out)->steps >= change->step) return GP_OK;
    gp_session_close(out);
    return gp_fail_at(err, GP_CONFIG, change->place,
                      "changes: step %" PRId64 " is after the end of the run, step %" PRId64, change->step,
                      before->steps);
}

gp_status gp_session_check_changes(gp_session *session, gp_error *err) {
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

gp_status gp_session_change(gp_session *session, gp_error *err) {
    gp_session *next = NULL;
    gp_dataset_close(&session->eval);
    gp_dataset_close(&session->train);
    GP_RETURN_IF_FAILED(gp_session_open_phase(session, session->changes + 1, &next, err));
    const gp_session before = *session;
    *session = *next;
    *next = before;
    session->whole = before.whole;
    session->host.program = before.host.program; /* measured before the run */
    next->whole = NULL;
    gp_session_close(&next);
    return GP_OK;
}
