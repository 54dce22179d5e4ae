/* Inside the session: what its files share.
 *
 * Works on a session while it is opened, or reads an open one. On failure a session keeps what it has, for
 * gp_session_close. One thread. */
#ifndef GP_SESSION_SESSION_INTERNAL_H
#define GP_SESSION_SESSION_INTERNAL_H

#include "session/balancing.h"
#include "session/session.h"
#include "store/snapshot.h"

/* Makes the configuration after so many changes the session's. */
void gp_session_set_phase(gp_session *session, int changes);
/* From the beginning of the run to the session's configuration. The training data are open. */
GP_MUST_USE gp_status gp_session_find_epochs(gp_session *session, gp_error *err);
/* Whether a run may go on with another configuration: what cannot be seen in one key alone. Builds graphs and reads
 * schedule files. GP_CONFIG without a place, if the layers, their connections or the shapes of their parameters differ,
 * or if the schedule adds up gradients in another order. GP_CONFIG with a place, if a model or a schedule file is
 * wrong. */
GP_MUST_USE gp_status gp_may_change(const gp_config *before, const gp_config *now, gp_error *err);

/* Graph, data, devices, schedule, rules, profile and plan of the configuration that holds.
 * GP_CONFIG with a place; GP_DATA for data files and train.init; GP_UNSUPPORTED if planning takes too much memory. */
GP_MUST_USE gp_status gp_session_prepare(gp_session *session, gp_error *err);
/* The times that a session plans with: a profile that the user names, one that was kept, one that is measured now, one
 * of other micro-batches scaled, or rates to count with.
 * Sets session->profile as session->options say, which may leave it NULL. If the session measures, it also leaves
 * rates for later sessions, if this machine has none and the run is long enough for it. */
GP_MUST_USE gp_status gp_profiling_find(gp_session *session, gp_error *err);

/* What the configuration says. A session that looks for a balance finds it by time. */
gp_plan_choice gp_planning_configured(const gp_session *session);
/* The balance that `with` asks for [stage], and its plan. `missing`: what the solver says if the plan does not fit;
 * else "". */
GP_MUST_USE gp_status gp_planning_make(const gp_session *session, const gp_plan_choice *with, int64_t *layers,
                                       gp_plan **out, char missing[GP_ERROR_TEXT], gp_error *err);
/* Places the devices in the order whose bottleneck costs least, by time whatever the configuration says of the balance.
 * Fails as gp_device_order_find. */
GP_MUST_USE gp_status gp_planning_order_devices(gp_session *session, gp_error *err);
/* Refuses the plan of `now`, which does not fit worker `worker`: *err says why. The message goes on with `missing` (of
 * gp_planning_make) and with what would make the plan fit. Returns GP_CONFIG, with the place of the device. */
gp_status gp_remedy_refuse(const gp_session *session, const gp_plan_choice *now, int worker, const char *missing,
                           gp_error *err);

/* The configuration that a run goes on with: its own, as its snapshot has it, and what the user changes now.
 *
 * Three texts are compared: the configuration that held when the snapshot was written, the user's file then, and the
 * file and command line now. What --set names changes. What changed in the file alone may be a key that is free. All
 * else stays as the run had it.
 * `*config`: of the file and the command line; it becomes that of the run, whose `changes` then have an entry for the
 * step after the snapshot where numbers change there. `path` of the snapshot is for messages. `changes` gets every key
 * that changes now, to be freed. GP_CONFIG names a key that may not change; *config stays then. */
GP_MUST_USE gp_status gp_resume_merge(gp_config **config, const gp_snapshot *snapshot, const char *path,
                                      gp_settings *changes, gp_error *err);

#endif
