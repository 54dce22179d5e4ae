/* The part of a timeline that shows how data came: a track for the waits of the pipeline, and one for each thread of
 * the loaders with the mini-batches that it read.
 *
 * Borrows all that it names. The trainer's thread. */
#ifndef GP_TRAIN_TRACING_DATA_H
#define GP_TRAIN_TRACING_DATA_H

#include "data/loader.h"
#include "trace/chrome.h"
#include "trace/recorder.h"

typedef struct gp_tracing_data {
    gp_lane *waits;                   /* from `issued` to `ended`; group 1: for a training step, 0: for an evaluation */
    gp_loader *training, *evaluation; /* NULL: none */
} gp_tracing_data;

/* From here on the loaders record nothing. */
void gp_tracing_data_stop(const gp_tracing_data *data);
/* After that: the earliest time that the tracks show (gp_clock); UINT64_MAX: they show nothing. */
uint64_t gp_tracing_data_first(const gp_tracing_data *data);
/* The tracks, from number `track` on. */
void gp_tracing_data_write(const gp_tracing_data *data, int track, gp_chrome *chrome);

#endif
