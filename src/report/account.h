/* The report at the end of a run: predicted beside measured, per worker.
 *
 * Some steps of the largest mini-batch that trains are recorded instruction by instruction (the second to the ninth,
 * and every sixteenth), so that recording costs very little; all of them are timed. All figures of the report that are
 * compared are means of the recorded steps, so that terms add up. The prediction is that of --plan, from the same
 * programs: measured and played times add up in the same way.
 *
 * The trainer owns it; its thread only. */
#ifndef GP_REPORT_ACCOUNT_H
#define GP_REPORT_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "pipeline/run.h"
#include "session/session.h"

/* Seconds of a step, of one worker. Copies that a device makes beside its computations are in both. */
typedef struct gp_account_share {
    double busy, copying, waiting;
} gp_account_share;

typedef struct gp_account_side {
    double seconds;           /* of a step; measured: the mean of those recorded */
    double bubble;            /* share of the workers' time in which they compute nothing */
    gp_account_share *worker; /* [worker] */
} gp_account_side;

/* Seconds that recorded steps took longer, in the mean, than predicted: because computations did, because copies did,
 * and the rest that remains when the programs are played with the measured times of both: handing over from thread to
 * thread, and instructions that take longer in one step than in another. The three add up to the difference. */
typedef struct gp_account_off {
    double computing, copying, waiting;
} gp_account_off;

typedef struct gp_account_result {
    int workers;
    bool profiled;    /* predicted from a profile; else from counted operations and bytes */
    int64_t steps;    /* timed */
    int64_t recorded; /* of them instruction by instruction; ≥ 1 */
    gp_account_side expected, measured;
    gp_account_off off;
    double median;       /* seconds of a timed step, without the first */
    int64_t all_steps;   /* of any size; the next two are sums over them */
    double all_seconds;  /* that they took */
    double data_seconds; /* that the trainer waited for mini-batches between them */
    double stolen;       /* share of the processors' working time that the machine's host gave to others; 0: not said */
    gp_host_memory host; /* what the run was planned to take of the host's memory, and the program before it */
    size_t resident_bytes; /* the most that the process held in memory during the run; 0: not known */
} gp_account_result;

typedef struct gp_account gp_account;

GP_MUST_USE gp_status gp_account_open(const gp_session *session, gp_account **out, gp_error *err);
void gp_account_close(gp_account **account);
/* Whether a step of mini-batch plan `mini` will be recorded that comes after `more` others that are under way. */
bool gp_account_records(const gp_account *account, int mini, int64_t more);
/* Around mini-batch plan `mini`, where it trains; before: where the step is recorded. `traced`: the recorder of a
 * timeline, if one is written; NULL: none is. */
GP_MUST_USE gp_status gp_account_before(gp_account *account, gp_run *run, int mini, gp_recorder *traced, gp_error *err);
/* The step succeeded, and took so long. */
void gp_account_after(gp_account *account, gp_run *run, int mini, double seconds);
/* A step of any size was applied: it took `seconds`, and the trainer had waited for its data before. */
void gp_account_add(gp_account *account, double seconds, double data_seconds);

/* Once, at the end. *out is NULL where no step was recorded. It is freed with gp_account_result_destroy. */
GP_MUST_USE gp_status gp_account_settle(gp_account *account, gp_account_result **out, gp_error *err);
void gp_account_result_destroy(gp_account_result **result);

/* The share of training that went to waiting for data: of the steps' time and the waiting between them. */
double gp_account_data_share(const gp_account_result *result);
/* The report, a line per figure; and a table with a line per worker. */
void gp_account_report(const gp_account_result *result, FILE *out);
void gp_account_table(const gp_account_result *result, FILE *out);

#endif
