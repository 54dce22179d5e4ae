/* metrics.jsonl: one JSON object a line, written through at once, so that what a run reached survives its end.
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
#include "train/account.h"
#include "train/session.h"

typedef struct gp_metrics gp_metrics;

/* Creates the file. An old one is removed before, and keeps its lines under its other names (hard links). GP_IO, also
 * if another process makes the file meanwhile. */
GP_MUST_USE gp_status gp_metrics_open(const char *path, gp_metrics **out, gp_error *err);
/* The same to go on with a file: it is cut back to `bytes`, or where it is shorter (*lost is true then) to its last
 * whole line; made anew where it is missing. */
GP_MUST_USE gp_status gp_metrics_reopen(const char *path, int64_t bytes, gp_metrics **out, bool *lost, gp_error *err);
/* Whether the file's last line is not whole: the run was killed while it wrote. False where that cannot be known. */
bool gp_metrics_ends_within_line(const char *path);
/* GP_IO where lines still wait, or the system reports only now that bytes could not be written. */
GP_MUST_USE gp_status gp_metrics_close(gp_metrics **metrics, gp_error *err);

/* Bytes of the file, with the lines that wait. */
int64_t gp_metrics_bytes(const gp_metrics *metrics);
/* GP_IO once, with the cause, when lines have begun to wait. */
GP_MUST_USE gp_status gp_metrics_poll(gp_metrics *metrics, gp_error *err);

/* The event "start", which does not wait. */
GP_MUST_USE gp_status gp_metrics_start(gp_metrics *metrics, const gp_session *session, gp_error *err);
/* The event "resume", with what "start" has and the step that the run goes on from. */
GP_MUST_USE gp_status gp_metrics_resume(gp_metrics *metrics, const gp_session *session, int64_t step, gp_error *err);

typedef struct gp_step_record {
    int64_t step, epoch; /* from 1 */
    double loss;         /* the mini-batch's mean before the update; null in the file where it is not finite */
    double rate;
    int64_t samples;
    double seconds;
    bool normed; /* the norm of the gradients was found */
    double grad_norm;
} gp_step_record;
GP_MUST_USE gp_status gp_metrics_step(gp_metrics *metrics, const gp_step_record *record, gp_error *err);
/* accuracy NaN: the loss has none, and the line neither. */
GP_MUST_USE gp_status gp_metrics_eval(gp_metrics *metrics, int64_t step, double loss, double accuracy, gp_error *err);
/* status: "done", "interrupted", "failed". */
/* account: NULL: there is none. */
GP_MUST_USE gp_status gp_metrics_end(gp_metrics *metrics, const char *status, int64_t steps, double seconds,
                                     const gp_account_result *account, gp_error *err);

#endif
