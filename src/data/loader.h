/* The loader: a thread that shuffles, reads and prefetches mini-batches.
 *
 * The order of epoch e (from 1) is a permutation drawn from counters (seed, e), so that it depends on nothing else;
 * without shuffling it is the file's. The consumer takes mini-batches in order; each stays valid until the next is
 * taken. One consumer thread. An error of the loader's thread is returned by the take that would have got that batch.
 */
#ifndef GP_DATA_LOADER_H
#define GP_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

typedef struct gp_loader_options {
    int64_t batch; /* samples per mini-batch */
    bool shuffle;
    bool drop_last;    /* leave out a last mini-batch that is smaller */
    uint64_t seed;
    int64_t first_epoch; /* from 1 */
    int64_t skip;        /* mini-batches of the first epoch to leave out (resuming) */
    int64_t epochs;      /* how many epochs to read; 0: without end */
    int depth;           /* mini-batches prefetched, ≥ 1 */
} gp_loader_options;

typedef struct gp_batch {
    const void *input;  /* [samples, …] in the order of memory */
    const void *target; /* [samples, …] */
    int64_t samples;
    int64_t counts; /* targets that count, of the whole mini-batch */
    int64_t epoch;  /* from 1 */
    int64_t index;  /* in the epoch, from 0 */
} gp_batch;

typedef struct gp_loader gp_loader;

/* Mini-batches per epoch: ⌈count/batch⌉, or ⌊count/batch⌋ where the last is dropped. */
int64_t gp_loader_batches(int64_t count, int64_t batch, bool drop_last);
/* The order of one epoch: order[i] is the sample at position i; count entries. Pure. */
void gp_loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int64_t *order);

/* Starts the thread. The dataset is borrowed until the loader is destroyed, and belongs to its thread till then. */
GP_MUST_USE gp_status gp_loader_create(gp_dataset *dataset, const gp_sample_spec *spec,
                                       const gp_loader_options *options, gp_loader **out, gp_error *err);
/* Joins the thread, whatever it is doing. */
void gp_loader_destroy(gp_loader **loader);
/* The next mini-batch; blocks until it is there. *out = NULL after the last. */
GP_MUST_USE gp_status gp_loader_take(gp_loader *loader, const gp_batch **out, gp_error *err);

#endif
