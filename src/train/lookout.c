#include "train/lookout.h"

#include <stdlib.h>

#include "balance/longest.h"
#include "base/memory.h"
#include "train/opening.h"

gp_status gp_train_lookout_share(gp_train_lookout *its, gp_processes *processes, const gp_session *session,
                                 gp_error *err) {
    const gp_plan *plan = session->plan;
    size_t count = gp_lookout_expected_count(plan);
    if (!processes) return GP_OK;
    its->processes = processes;
    GP_RETURN_IF_FAILED(GP_NEW(&its->expected, count, err));
    if (plan->rank > 0) {
        GP_RETURN_IF_FAILED(
            gp_processes_hear(processes, GP_OPENING_EXPECTED, its->expected, count * sizeof *its->expected, err));
        return gp_expected_check(its->expected, count, err);
    }
    GP_RETURN_IF_FAILED(gp_expect_longest(plan, session->profile, its->expected, err));
    return gp_processes_tell(processes, GP_OPENING_EXPECTED, its->expected, count * sizeof *its->expected, err);
}

static gp_status look(void *context, double awake, gp_error *err) {
    return gp_lookout_look(context, awake, err);
}

gp_status gp_train_lookout_begin(gp_train_lookout *its, gp_run *run, double timeout, gp_error *err) {
    if (!its->processes) return GP_OK;
    gp_processes_set_timeout(its->processes, timeout);
    gp_run_note(run, true);
    GP_RETURN_IF_FAILED(gp_lookout_create(run, timeout, its->expected, &its->lookout, err));
    gp_processes_set_look(its->processes, look, its->lookout);
    return GP_OK;
}

void gp_train_lookout_end(gp_train_lookout *its) {
    if (its->processes) gp_processes_set_look(its->processes, NULL, NULL);
    gp_lookout_destroy(&its->lookout);
    free(its->expected);
    *its = (gp_train_lookout){.processes = NULL};
}
