/* metrics.jsonl: one JSON object a line, written through at once, so that what a run reached survives its end.
 *
 * Every line ends with "time": seconds since the run began, which never decrease. A resumed run adds its own seconds to
 * the time of the last line that is kept; the time between two processes does not count.
 *
 * Lines that a full disk does not take wait in memory, up to 16 MiB of them, and are tried again with the next; one
 * more is refused with GP_IO.
 *
 * The trainer opens and closes it; only the trainer's thread writes. */
#ifndef GP_TRAIN_METRICS_H
#define GP_TRAIN_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "report/account.h"
#include "session/session.h"

typedef struct gp_metrics gp_metrics;

/* Creates the file. An old one is removed before, and keeps its lines under its other names (hard links). GP_IO, also
 * if another process makes the file meanwhile. `began`: when this process began the run, in seconds of gp_clock. */
GP_MUST_USE gp_status gp_metrics_open(const char *path, double began, gp_metrics **out, gp_error *err);
/* Opens the file of a run that is resumed, and cuts it back to `bytes`. If it is shorter (*lost is true then), it is
 * cut back to its last whole line; if there are lines of steps after `step`, to the first of them (*lost, too). A
 * missing file is created. */
GP_MUST_USE gp_status gp_metrics_reopen(const char *path, int64_t bytes, int64_t step, double began, gp_metrics **out,
                                        bool *lost, gp_error *err);
/* Another program has removed or replaced the file. */
bool gp_metrics_are_gone(const gp_metrics *metrics);
/* Goes on in a new file. GP_IO, also where another one of that name is there: the metrics go on where they were. */
GP_MUST_USE gp_status gp_metrics_renew(gp_metrics *metrics, const char *path, bool *renewed, gp_error *err);
/* GP_IO where lines still wait, or the system reports only now that bytes could not be written. */
GP_MUST_USE gp_status gp_metrics_close(gp_metrics **metrics, gp_error *err);

/* Bytes of the file, with the lines that wait. */
int64_t gp_metrics_bytes(const gp_metrics *metrics);
/* GP_IO once, with the cause, when lines have begun to wait. */
GP_MUST_USE gp_status gp_metrics_poll(gp_metrics *metrics, gp_error *err);

/* The event "start", which does not wait. */
GP_MUST_USE gp_status gp_metrics_start(gp_metrics *metrics, const gp_session *session, gp_error *err);
/* The event "resume", with what "start" has, the step that the run goes on from, and the keys that change. */
GP_MUST_USE gp_status gp_metrics_resume(gp_metrics *metrics, const gp_session *session, int64_t step,
                                        const gp_settings *changes, gp_error *err);
/* The event "change": the keys that change, the first step that has their new values, and the steps of the whole run
 * from then on. */
GP_MUST_USE gp_status gp_metrics_change(gp_metrics *metrics, int64_t step, int64_t steps, const gp_settings *changes,
                                        gp_error *err);

typedef struct gp_step_record {
    int64_t step, epoch; /* from 1 */
    double loss;         /* the mini-batch's mean before the update; null in the file where it is not finite */
    double rate;
    double accuracy; /* share of correct predictions before the update; NaN: the loss has no classes */
    int64_t samples;
    double seconds;      /* of the step, without waiting for data */
    double data_seconds; /* that the trainer waited for the mini-batch, before the step */
    bool normed;         /* the norm of the gradients was found */
    double grad_norm;
} gp_step_record;
GP_MUST_USE gp_status gp_metrics_step(gp_metrics *metrics, const gp_step_record *record, gp_error *err);

typedef struct gp_eval_record {
    int64_t step, epoch; /* that the evaluation follows; 0: none */
    double loss;
    double accuracy;     /* NaN: the loss has no classes */
    double seconds;      /* of the whole evaluation */
    double data_seconds; /* of them, that it waited for data */
} gp_eval_record;
GP_MUST_USE gp_status gp_metrics_eval(gp_metrics *metrics, const gp_eval_record *record, gp_error *err);
/* status: "done", "interrupted", "failed". */
/* account: NULL: there is none. */
GP_MUST_USE gp_status gp_metrics_end(gp_metrics *metrics, const char *status, int64_t steps, double seconds,
                                     const gp_account_result *account, gp_error *err);

#endif
