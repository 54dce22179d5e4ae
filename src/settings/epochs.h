/* Where epochs begin and end, in steps, if the size of a mini-batch changes within the run.
 *
 * A part of the run is the steps between two changes: its mini-batches have one size. A part goes on in the epoch, and
 * at the sample, where the part before it ended. What is asked of the future holds as if no further change came.
 * Pure but for memory; the owner frees it. One thread. */
#ifndef GP_SETTINGS_EPOCHS_H
#define GP_SETTINGS_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_epoch_part {
    int64_t after;        /* steps before it */
    int64_t epoch, taken; /* where its first sample lies: epoch, from 1; samples of it that were taken before */
    int64_t batch;
    int64_t first; /* steps in what is left of that epoch, ≥ 1 */
    int64_t each;  /* steps in every later epoch, ≥ 1 */
} gp_epoch_part;

typedef struct gp_epochs {
    int64_t samples; /* of an epoch */
    gp_epoch_part *part;
    int count;
} gp_epochs;

/* The next sample of a run. */
typedef struct gp_epoch_place {
    int64_t epoch; /* from 1 */
    int64_t taken; /* samples of that epoch before it */
} gp_epoch_place;

/* Adds a part that begins after so many steps. GP_DATA if it has no mini-batch in an epoch. */
GP_MUST_USE gp_status gp_epochs_add(gp_epochs *epochs, int64_t after, int64_t batch, bool drop_last, gp_error *err);
void gp_epochs_fini(gp_epochs *epochs);

gp_epoch_place gp_epochs_place(const gp_epochs *epochs, int64_t step);
/* Epochs that have ended after `step` steps. */
int64_t gp_epochs_ended(const gp_epochs *epochs, int64_t step);
/* Steps after which `count` epochs have ended; INT64_MAX: more than can be counted. */
int64_t gp_epochs_steps(const gp_epochs *epochs, int64_t count);

#endif
