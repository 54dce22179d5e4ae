/* What a person sees of a run: on a terminal a line that is rewritten, in a pipe a plain line now and then. The
 * trainer's thread. */
#ifndef GP_TRAIN_PROGRESS_H
#define GP_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/ticker.h"
#include "process/processes.h"
#include "session/session.h"
#include "train/first_step.h"
#include "train/metrics.h"

typedef enum gp_verbosity { GP_QUIET, GP_NORMAL, GP_VERBOSE } gp_verbosity;

typedef struct gp_progress {
    gp_verbosity verbosity;
    gp_ticker ticker;     /* of the line of steps */
    int64_t steps;        /* of the whole run */
    int64_t from;         /* step that this process goes on from */
    double began;         /* seconds of a monotonic clock */
    int64_t samples;      /* since the last line of steps */
    gp_first_step *watch; /* until the first step is over; NULL: nothing is said of it */
} gp_progress;

/* A loss for people: "2.3026", "0.01235", "1.5e+73", "nan". Four decimals from 0.1 to a million, four significant
 * digits outside. buffer is returned. */
enum { GP_LOSS_TEXT = 32 };
const char *gp_loss_text(char buffer[GP_LOSS_TEXT], double loss);

/* processes NULL: the run is alone. */
void gp_progress_start(gp_progress *progress, gp_verbosity verbosity, const gp_session *session,
                       const gp_processes *processes, const char *folder);
/* The run goes on after `step`, from the snapshot at `path`. */
void gp_progress_resume(gp_progress *progress, int64_t step, const char *path);
void gp_progress_step(gp_progress *progress, const gp_step_record *record);
/* Of step 0, neither step nor epoch is shown. */
void gp_progress_eval(gp_progress *progress, const gp_eval_record *record);
/* To standard error, whatever the verbosity: something went wrong, and the run goes on. */
void gp_progress_warn(gp_progress *progress, const char *format, ...) GP_PRINTF(2, 3);
/* Where text of several lines goes, after the line that is rewritten has ended; NULL: nothing is printed. */
FILE *gp_progress_out(gp_progress *progress);
/* A line that stays. */
void gp_progress_line(gp_progress *progress, const char *format, ...) GP_PRINTF(2, 3);

#endif
