/* The loader: threads that shuffle, read and prefetch mini-batches.
 *
 * The order of epoch e (from 1) is a permutation drawn from counters (seed, e), so that it depends on nothing else;
 * without shuffling it is the file's. The consumer takes mini-batches in order; each stays valid until the next, or as
 * many more as it holds, are taken. One consumer thread. How many threads read changes nothing but the time that it
 * takes: an error is returned by the take that would have got that mini-batch, and is that of its first sample that
 * cannot be read.
 *
 * A loader reads what its `needs` say, and leaves the rest of its buffers as it is. If no input is needed of any
 * mini-batch, the buffers have no inputs, and likewise for targets. If nothing is needed, the loader has no thread and
 * no buffer: it only says which mini-batches there are.
 *
 * All that a loader takes of the host's memory is reserved, and touched, when it is created: what stands cannot run out
 * of memory later.
 */
#ifndef GP_DATA_LOADER_H
#define GP_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"
#include "data/needs.h"

typedef struct gp_loader_options {
    int64_t batch; /* samples per mini-batch */
    bool shuffle;
    bool drop_last; /* leave out a last mini-batch that is smaller */
    uint64_t seed;
    int64_t first_epoch;  /* from 1 */
    int64_t first_sample; /* samples of the first epoch to leave out: the first mini-batch begins after them */
    int64_t epochs;       /* how many epochs to read from first_epoch on; 0: without end */
    int depth;            /* mini-batches prefetched, ≥ 1 */
    int threads;          /* that read; 0: one */
    int held;             /* mini-batches that stay valid, with the one that was taken last; 0: that one */
    bool rests;           /* reads nothing before gp_loader_restart */
    gp_needs needs;       /* what it reads; its context is borrowed until the loader is destroyed */
    int64_t recorded;     /* spans of reading that each thread can record; 0: none */
    bool records;         /* the loader records from its start on, as after gp_loader_record */
} gp_loader_options;

/* The time in which one thread read its samples of one mini-batch. */
typedef struct gp_loader_span {
    uint64_t started, ended; /* gp_clock */
    int64_t number;          /* of the mini-batch, from the first of first_epoch */
    int64_t epoch, index;    /* of the mini-batch, as in gp_batch */
    int64_t samples;         /* that this thread read */
} gp_loader_span;

typedef struct gp_batch {
    const void *input;  /* [samples, …] in the order of memory; NULL: none is read */
    const void *target; /* [samples, …]; NULL: none is read */
    int64_t samples;
    int64_t counts;  /* targets that count, of the whole mini-batch; −1: not known, since some are not read */
    int64_t counted; /* of the targets that are read, those that count */
    int64_t epoch;   /* from 1 */
    int64_t index;   /* in the epoch, from 0 */
} gp_batch;

typedef struct gp_loader gp_loader;

/* Mini-batches per epoch: ⌈count/batch⌉, or ⌊count/batch⌋ where the last is dropped. */
int64_t gp_loader_batches(int64_t count, int64_t batch, bool drop_last);
/* The shuffled order of one epoch: order[i] is the sample at position i; count entries. Pure.
 *
 * Fisher–Yates from the last position down. Position i takes a number in 0 … i from Philox counter {i/4, epoch, 0,
 * GP_RANDOM_SHUFFLE}, lane i%4: the upper word of its product with i+1. Where the lower word is below 2^32 mod (i+1),
 * the draw would make some numbers likelier and is repeated with the third word of the counter one higher. Shuffling
 * takes at most 2^32−1 samples. */
void gp_loader_order(uint64_t seed, int64_t epoch, int64_t count, int64_t *order);

/* What a loader takes of the host's memory while it stands, in bytes; SIZE_MAX: no size. */
typedef struct gp_loader_memory {
    int slots;           /* mini-batches that have a buffer each: those ahead, and those that are held */
    int held;            /* of them, in the consumer's hands */
    int threads;         /* that read; 0: nothing is read, and all sizes are 0 */
    size_t input_bytes;  /* of one sample; 0: no inputs are read */
    size_t target_bytes; /* of one sample; 0: no targets are read */
    size_t batches;      /* all buffers of mini-batches */
    size_t order;        /* a shuffled order */
    size_t scratch;      /* in which the threads decode a sample each */
    size_t records;      /* spans of all threads */
} gp_loader_memory;

/* Exactly what gp_loader_create reserves. Pure. */
void gp_loader_memory_plan(const gp_dataset *dataset, const gp_sample_spec *spec, const gp_loader_options *options,
                           gp_loader_memory *out);

/* Reserves the memory and starts the threads. The dataset is borrowed until the loader is destroyed.
 * GP_CONFIG (without a place) where drop_last leaves no mini-batch at all. */
GP_MUST_USE gp_status gp_loader_create(gp_dataset *dataset, const gp_sample_spec *spec,
                                       const gp_loader_options *options, gp_loader **out, gp_error *err);
/* Joins the threads, whatever they are doing: at the latest each ends with the sample that it is reading. */
void gp_loader_destroy(gp_loader **loader);
/* Begins again with the first mini-batch. For a loader that rests, or whose last mini-batch was taken (a take gave
 * NULL); GP_INTERNAL for any other. The consumer's thread. */
GP_MUST_USE gp_status gp_loader_restart(gp_loader *loader, gp_error *err);
/* The first sample of a mini-batch whose input or target is not finite, and why: gp_dataset_explain's text; "": none.
 * `batch` was taken from this loader; its samples are read again. The consumer's thread. */
GP_MUST_USE gp_status gp_loader_explain(const gp_loader *loader, const gp_batch *batch, bool target,
                                        char text[GP_FLAW_TEXT], gp_error *err);
/* Whether the next take returns at once. */
bool gp_loader_ready(gp_loader *loader);
/* Switches the recording of spans on or off; it begins in the state that the options give. A thread that has recorded
 * as many as the options say records no more. The consumer's thread. */
void gp_loader_record(gp_loader *loader, bool on);
/* While nothing is recorded: what one thread recorded, ordered by time, borrowed from the loader. *count: how many. The
 * consumer's thread. */
const gp_loader_span *gp_loader_spans(const gp_loader *loader, int thread, size_t *count);
/* How many threads read. */
int gp_loader_threads(const gp_loader *loader);
/* The next mini-batch; blocks until it is there. *out = NULL after the last. */
GP_MUST_USE gp_status gp_loader_take(gp_loader *loader, const gp_batch **out, gp_error *err);

#endif
