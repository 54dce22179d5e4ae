#include "data/loader.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sync.h"
#include "trace/recorder.h"

enum { CHUNK = 16 }; /* samples that a thread claims at once */

/* One buffer of the ring. Its parts belong to the threads that claimed them; when all are done the mini-batch is whole,
 * and the consumer's until it is given back. */
typedef struct slot {
    char *input;
    char *target;
    gp_batch batch;    /* once it is whole */
    int64_t whole;     /* number of the mini-batch that is, −1: none; this and what follows: lock */
    int64_t done;      /* samples that were read or given up, or are not needed */
    int64_t counts;    /* of their targets */
    int64_t failed_at; /* the first that cannot be read, −1: none */
    gp_error error;    /* its error */
} slot;

/* Some samples of one mini-batch. */
typedef struct claim {
    int64_t number;               /* of the mini-batch, from the first of first_epoch */
    int64_t epoch, index;         /* of the mini-batch, as in gp_batch */
    int64_t before;               /* samples of the epoch before the mini-batch */
    int64_t samples;              /* of the mini-batch */
    int64_t first, end;           /* positions that are settled with the claim */
    int count;                    /* those of them that are read */
    gp_position positions[CHUNK]; /* in the mini-batch */
    int64_t places[CHUNK];        /* in the dataset */
} claim;

typedef struct reader {
    gp_loader *loader;
    pthread_t thread;
    void *scratch; /* gp_dataset_read's */
    gp_loader_span
        *spans; /* [options.recorded]; this and the next: lock while the loader records, else the consumer's */
    int64_t span_count;
    bool joins; /* the next claim may belong to the last span */
} reader;

struct gp_loader {
    /* Constant once the threads run. */
    gp_dataset *dataset;
    gp_loader_options options;
    int64_t count;   /* samples of the dataset */
    int64_t batches; /* per epoch */
    int64_t head;    /* of the first epoch */
    int64_t end;     /* the number of the mini-batch after the last */
    gp_loader_memory memory;
    slot *slots; /* [memory.slots] */
    reader *readers;
    int started; /* of memory.threads */

    pthread_mutex_t claims;          /* never held together with `lock` */
    pthread_cond_t more;             /* there is something to claim, or nothing will be: claims */
    bool rests;                      /* nothing is claimed before a restart; claims */
    int64_t *order;                  /* of the epoch that claims have come to; NULL: the file's; claims */
    int64_t order_epoch;             /* 0: none yet; claims */
    int64_t next_number, next_first; /* what is claimed next; claims */

    atomic_bool stop; /* read between samples, so that destroy need not wait for a batch */
    pthread_mutex_t lock;
    pthread_cond_t change;
    int64_t filled;      /* mini-batches before this one are published; lock */
    int64_t freed;       /* those before this one were given back by the consumer; lock */
    atomic_bool records; /* spans; written under `lock` */
    bool ended;          /* nothing comes after `filled`; lock */
    gp_error error;      /* why it ended, where its status is not GP_OK; lock */

    int64_t taken; /* the mini-batch that the consumer takes next; consumer only */
};

static size_t sample_bytes(gp_shape shape, gp_dtype dtype) {
    int64_t elements;
    return gp_shape_elements(shape, &elements) ? gp_size_times((size_t)elements, gp_dtype_size(dtype)) : SIZE_MAX;
}

/* Samples of the largest mini-batch. */
static int64_t most_samples(const gp_loader_options *options, int64_t count) {
    return options->batch < count ? options->batch : count;
}

/* Mini-batches of the first epoch. */
static int64_t find_head(const gp_loader_options *options, int64_t count) {
    return gp_loader_batches(count - options->first_sample, options->batch, options->drop_last);
}

/* The number of the mini-batch after the last. */
static int64_t find_end(const gp_loader_options *options, int64_t count) {
    int64_t end = INT64_MAX, batches = gp_loader_batches(count, options->batch, options->drop_last);
    if (options->epochs == 0 || !gp_int64_mul(options->epochs - 1, batches, &end)) return INT64_MAX;
    return gp_int64_add(end, find_head(options, count), &end) ? end : INT64_MAX;
}

/* A mini-batch's buffer: the inputs, aligned, and the targets, aligned. SIZE_MAX: no size. */
static size_t slot_bytes(const gp_loader_memory *memory, int64_t samples) {
    size_t input = gp_size_times(memory->input_bytes, (size_t)samples);
    size_t target = gp_size_times(memory->target_bytes, (size_t)samples);
    if (input > SIZE_MAX - GP_ALIGNMENT || target > SIZE_MAX - GP_ALIGNMENT) return SIZE_MAX;
    return gp_size_plus(gp_align_up(input, GP_ALIGNMENT), gp_align_up(target, GP_ALIGNMENT));
}

/* Whether an input (target) of any mini-batch is needed. The last one of the first epoch can have a size of its own. */
static bool needs_any(const gp_loader_options *options, int64_t count, bool target) {
    int64_t left = count - options->first_sample;
    const int64_t sizes[] = {most_samples(options, count), count % options->batch, left % options->batch};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (gp_needs_any(&options->needs, sizes[i], target)) return true;
    return false;
}

void gp_loader_memory_plan(const gp_dataset *dataset, const gp_sample_spec *spec, const gp_loader_options *options,
                           gp_loader_memory *out) {
    int64_t count = gp_dataset_count(dataset);
    int64_t end = find_end(options, count);
    int held = options->held < 1 ? 1 : options->held, slots = options->depth + held;
    bool inputs = needs_any(options, count, false), targets = needs_any(options, count, true);
    *out = (gp_loader_memory){.slots = slots < end ? slots : (int)end,
                              .held = held,
                              .threads = options->threads < 1 ? 1 : options->threads,
                              .input_bytes = inputs ? sample_bytes(spec->input, spec->input_dtype) : 0,
                              .target_bytes = targets ? sample_bytes(spec->target, spec->target_dtype) : 0};
    if (!inputs && !targets) out->threads = 0;
    if (out->threads == 0) return;
    out->batches = gp_size_times(slot_bytes(out, most_samples(options, count)), (size_t)out->slots);
    out->order = options->shuffle ? gp_size_times((size_t)count, sizeof(int64_t)) : 0;
    out->scratch = gp_size_times(gp_dataset_scratch(dataset), (size_t)out->threads);
    out->records =
        gp_size_times(gp_size_times((size_t)options->recorded, sizeof(gp_loader_span)), (size_t)out->threads);
}

static slot *slot_of(const gp_loader *self, int64_t number) {
    return &self->slots[number % self->memory.slots];
}

static void find_places(gp_loader *self, claim *out) {
    const gp_loader_options *options = &self->options;
    if (options->shuffle && self->order_epoch != out->epoch) {
        gp_loader_order(options->seed, out->epoch, self->count, self->order);
        self->order_epoch = out->epoch;
    }
    for (int i = 0; i < out->count; i++) {
        int64_t at = out->before + out->positions[i].at;
        out->places[i] = options->shuffle ? self->order[at] : at;
    }
}

/* Of the whole mini-batch. */
static claim find_batch(const gp_loader *self, int64_t number) {
    const gp_loader_options *options = &self->options;
    bool first = number < self->head;
    int64_t later = number - self->head, index = first ? number : later % self->batches;
    int64_t before = index * options->batch + (first ? options->first_sample : 0), left = self->count - before;
    return (claim){.number = number,
                   .epoch = options->first_epoch + (first ? 0 : 1 + later / self->batches),
                   .index = index,
                   .before = before,
                   .samples = left < options->batch ? left : options->batch};
}

/* The next samples in order; waits for a restart after the last mini-batch. False when nothing is wanted any more. */
static bool claim_samples(gp_loader *self, claim *out) {
    pthread_mutex_lock(&self->claims);
    while (!atomic_load(&self->stop) && (self->rests || self->next_number >= self->end))
        pthread_cond_wait(&self->more, &self->claims);
    bool any = !atomic_load(&self->stop);
    if (any) {
        *out = find_batch(self, self->next_number);
        out->first = self->next_first;
        out->count = gp_needs_list(&self->options.needs, out->samples, out->first, CHUNK, out->positions, &out->end);
        find_places(self, out);
        self->next_first = out->end;
        if (self->next_first == out->samples) {
            self->next_number++;
            self->next_first = 0;
        }
    }
    pthread_mutex_unlock(&self->claims);
    return any;
}

/* Until the mini-batch's slot is free. False when nothing is wanted any more. */
static bool wait_for_slot(gp_loader *self, int64_t number) {
    pthread_mutex_lock(&self->lock);
    while (!atomic_load(&self->stop) && !self->ended && number >= self->freed + self->memory.slots)
        pthread_cond_wait(&self->change, &self->lock);
    bool go_on = !atomic_load(&self->stop) && !self->ended;
    pthread_mutex_unlock(&self->lock);
    return go_on;
}

/* Reads what was claimed, up to the first failure, whose place *failed_at gets; −1: none. */
static gp_status read_samples(const reader *it, const claim *of, int64_t *counts, int64_t *failed_at, gp_error *err) {
    gp_loader *self = it->loader;
    const slot *to = slot_of(self, of->number);
    *failed_at = -1;
    for (int i = 0; i < of->count; i++) {
        const gp_position *its = &of->positions[i];
        size_t at = (size_t)its->at;
        gp_sample_key key = {.index = of->places[i], .epoch = of->epoch, .seed = self->options.seed};
        int64_t counted = 0;
        if (atomic_load_explicit(&self->stop, memory_order_relaxed)) return GP_CANCELLED;
        gp_status status = gp_dataset_read(
            self->dataset, key, it->scratch, its->input ? to->input + at * self->memory.input_bytes : NULL,
            its->target ? to->target + at * self->memory.target_bytes : NULL, &counted, err);
        if (status != GP_OK) {
            *failed_at = its->at;
            return status;
        }
        *counts += counted;
    }
    return GP_OK;
}

/* Publishes the mini-batches that are whole, in order; one with a failure is the end. Lock is held. */
static void publish(gp_loader *self) {
    while (!self->ended) {
        const slot *next = slot_of(self, self->filled);
        if (next->whole != self->filled) return;
        if (next->failed_at >= 0) {
            self->error = next->error;
            self->ended = true;
        } else {
            self->filled++;
            self->ended = self->filled == self->end;
        }
        pthread_cond_broadcast(&self->change);
    }
}

/* A thread has one span for each mini-batch: its claims follow one another. Lock is held. `began` 0: not recorded. */
static void add_span(reader *it, const claim *of, uint64_t began) {
    if (began == 0 || of->count == 0 || !it->spans || !atomic_load(&it->loader->records)) return;
    gp_loader_span *last = it->joins ? &it->spans[it->span_count - 1] : NULL;
    if (last && last->number == of->number) {
        last->ended = gp_clock();
        last->samples += of->count;
    } else if (it->span_count < it->loader->options.recorded) {
        it->spans[it->span_count++] = (gp_loader_span){.started = began,
                                                       .ended = gp_clock(),
                                                       .number = of->number,
                                                       .epoch = of->epoch,
                                                       .index = of->index,
                                                       .samples = of->count};
        it->joins = true;
    }
}

/* A loader that reads all targets has counted all of them. */
static void fill_batch(const gp_loader *self, slot *to, const claim *of) {
    int64_t each = gp_dataset_counts(self->dataset);
    to->batch = (gp_batch){.input = self->memory.input_bytes > 0 ? to->input : NULL,
                           .target = self->memory.target_bytes > 0 ? to->target : NULL,
                           .samples = of->samples,
                           .counts = each < 0 ? -1 : each * of->samples,
                           .counted = to->counts,
                           .epoch = of->epoch,
                           .index = of->index};
    if (!self->options.needs.next) to->batch.counts = to->counts;
}

/* If nothing is read, a mini-batch is whole when it is taken. Lock is held. */
static void pass_over(gp_loader *self) {
    if (self->memory.threads > 0 || self->filled > self->taken || self->ended) return;
    const claim all = find_batch(self, self->filled);
    fill_batch(self, slot_of(self, self->filled), &all);
    self->filled++;
    self->ended = self->filled == self->end;
}

static void finish_claim(reader *it, const claim *of, uint64_t began, int64_t counts, int64_t failed_at,
                         const gp_error *error) {
    gp_loader *self = it->loader;
    slot *to = slot_of(self, of->number);
    pthread_mutex_lock(&self->lock);
    add_span(it, of, began);
    to->done += of->end - of->first;
    to->counts += counts;
    if (failed_at >= 0 && (to->failed_at < 0 || failed_at < to->failed_at)) {
        to->failed_at = failed_at;
        to->error = *error;
    }
    if (to->done == of->samples) {
        to->whole = of->number;
        fill_batch(self, to, of);
        publish(self);
    }
    pthread_mutex_unlock(&self->lock);
}

static void reset(slot *it) {
    it->whole = it->failed_at = -1;
    it->done = it->counts = 0;
}

/* The consumer has no more use for a mini-batch. Lock is held. */
static void give_back(gp_loader *self, int64_t number) {
    reset(slot_of(self, number));
    self->freed = number + 1;
    pthread_cond_broadcast(&self->change);
}

/* A thread that wakes to read ahead must not interrupt a worker or the trainer: the kernel's policy "batch" is for
 * that. A policy that the user chose for the program (chrt) stays. */
static void give_way(void) {
    const struct sched_param no_priority = {.sched_priority = 0};
    if (sched_getscheduler(0) == SCHED_OTHER) (void)sched_setscheduler(0, SCHED_BATCH, &no_priority);
}

static void *run(void *argument) {
    reader *self = argument;
    gp_loader *loader = self->loader;
    gp_error error = {.status = GP_OK};
    claim of;
    give_way();
    while (claim_samples(loader, &of) && wait_for_slot(loader, of.number)) {
        int64_t counts = 0, failed_at = -1;
        uint64_t began = atomic_load_explicit(&loader->records, memory_order_relaxed) ? gp_clock() : 0;
        if (read_samples(self, &of, &counts, &failed_at, &error) == GP_CANCELLED) break;
        finish_claim(self, &of, began, counts, failed_at, &error);
    }
    return NULL;
}

static gp_status make_slots(gp_loader *self, gp_error *err) {
    const gp_loader_memory *memory = &self->memory;
    int64_t samples = most_samples(&self->options, self->count);
    size_t bytes = slot_bytes(memory, samples);
    if (memory->batches == SIZE_MAX)
        return gp_fail(err, GP_MEMORY, "out of memory: a mini-batch of %" PRId64 " samples", samples);
    GP_RETURN_IF_FAILED(GP_NEW(&self->slots, memory->slots, err));
    if (memory->threads == 0) return GP_OK;
    for (int i = 0; i < memory->slots; i++) {
        slot *made = &self->slots[i];
        if (posix_memalign((void **)&made->input, GP_ALIGNMENT, bytes) != 0) {
            made->input = NULL;
            return gp_fail(err, GP_MEMORY, "out of memory: a mini-batch of %" PRId64 " samples, %zu bytes", samples,
                           bytes);
        }
        memset(made->input, 0, bytes); /* every page is touched now */
        made->target = made->input + gp_align_up(memory->input_bytes * (size_t)samples, GP_ALIGNMENT);
    }
    return self->options.shuffle ? GP_NEW(&self->order, self->count, err) : GP_OK;
}

static gp_status check_options(const gp_loader *self, gp_error *err) {
    const gp_loader_options *options = &self->options;
    assert(options->batch >= 1 && options->first_epoch >= 1 && options->depth >= 1);
    assert(options->first_sample >= 0 && options->first_sample < self->count);
    if (self->batches == 0) {
        return gp_fail(err, GP_CONFIG,
                       "the data set has %" PRId64 " samples, a mini-batch has %" PRId64
                       ", and drop_last leaves out smaller ones, so none is left: lower data.batch",
                       self->count, options->batch);
    }
    if (options->shuffle && self->count > UINT32_MAX) {
        return gp_fail(err, GP_UNSUPPORTED,
                       "%" PRId64 " samples are too many to shuffle: at most %" PRIu32
                       " can be; set data.shuffle: false",
                       self->count, UINT32_MAX);
    }
    return GP_OK;
}

static gp_status start(gp_loader *self, gp_error *err) {
    int failed = 0;
    int threads = self->memory.threads;
    GP_RETURN_IF_FAILED(GP_NEW(&self->readers, threads, err));
    for (int i = 0; i < threads; i++) {
        self->readers[i].loader = self;
        GP_RETURN_IF_FAILED(gp_new_array(&self->readers[i].scratch, gp_dataset_scratch(self->dataset), 1, err));
        GP_RETURN_IF_FAILED(GP_NEW(&self->readers[i].spans, self->options.recorded, err));
    }
    while (!failed && self->started < threads) {
        reader *next = &self->readers[self->started];
        failed = gp_thread_start(&next->thread, 0, run, next);
        if (!failed) self->started++;
    }
    if (failed) return gp_fail(err, GP_MEMORY, "the loader's threads cannot be started: %s", strerror(failed));
    return GP_OK;
}

/* As before the first mini-batch. After the last mini-batch every claim is done, and the readers wait for the next one:
 * none looks at `filled`, the slots or the end before there is something to claim. Lock is held. */
static void forget(gp_loader *self) {
    for (int i = 0; i < self->memory.slots; i++) reset(&self->slots[i]);
    for (int i = 0; i < self->started; i++) self->readers[i].joins = false;
    self->filled = self->freed = self->taken = 0;
    self->ended = self->end == 0;
}

gp_status gp_loader_create(gp_dataset *dataset, const gp_sample_spec *spec, const gp_loader_options *options,
                           gp_loader **out, gp_error *err) {
    gp_loader *self = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->dataset = dataset;
    self->options = *options;
    if (options->held < 1) self->options.held = 1;
    self->count = gp_dataset_count(dataset);
    self->batches = gp_loader_batches(self->count, options->batch, options->drop_last);
    self->head = find_head(options, self->count);
    self->end = find_end(options, self->count);
    self->rests = options->rests;
    gp_loader_memory_plan(dataset, spec, options, &self->memory);
    atomic_init(&self->stop, false);
    atomic_init(&self->records, options->records && options->recorded > 0);
    pthread_mutex_init(&self->claims, NULL);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->more, NULL);
    pthread_cond_init(&self->change, NULL);
    gp_status status = check_options(self, err);
    if (status == GP_OK) status = make_slots(self, err);
    if (status == GP_OK) forget(self);
    if (status == GP_OK) status = start(self, err);
    if (status != GP_OK) {
        gp_loader_destroy(&self);
        return status;
    }
    *out = self;
    return GP_OK;
}

/* Those that wait see what was changed before. */
static void wake(pthread_mutex_t *lock, pthread_cond_t *waiting) {
    pthread_mutex_lock(lock);
    pthread_cond_broadcast(waiting);
    pthread_mutex_unlock(lock);
}

void gp_loader_destroy(gp_loader **loader) {
    if (!loader || !*loader) return;
    gp_loader *self = *loader;
    atomic_store(&self->stop, true);
    wake(&self->claims, &self->more);
    wake(&self->lock, &self->change);
    for (int i = 0; i < self->started; i++) pthread_join(self->readers[i].thread, NULL);
    pthread_cond_destroy(&self->change);
    pthread_cond_destroy(&self->more);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->claims);
    for (int i = 0; self->readers && i < self->memory.threads; i++) {
        free(self->readers[i].scratch);
        free(self->readers[i].spans);
    }
    free(self->readers);
    for (int i = 0; self->slots && i < self->memory.slots; i++) free(self->slots[i].input);
    free(self->slots);
    free(self->order);
    free(self);
    *loader = NULL;
}

gp_status gp_loader_restart(gp_loader *loader, gp_error *err) {
    pthread_mutex_lock(&loader->lock);
    bool ended = loader->ended && loader->error.status == GP_OK && loader->taken == loader->filled;
    bool fresh = loader->filled == 0 && !loader->ended;
    if (ended) forget(loader);
    pthread_mutex_unlock(&loader->lock);
    pthread_mutex_lock(&loader->claims);
    bool right = ended || (fresh && loader->rests);
    if (right) {
        loader->rests = false;
        loader->next_number = 0;
        loader->next_first = 0;
        pthread_cond_broadcast(&loader->more);
    }
    pthread_mutex_unlock(&loader->claims);
    return right ? GP_OK : gp_fail(err, GP_INTERNAL, "a loader is restarted within a pass over its data");
}

bool gp_loader_ready(gp_loader *loader) {
    pthread_mutex_lock(&loader->lock);
    bool ready = loader->filled > loader->taken || loader->ended || loader->memory.threads == 0;
    pthread_mutex_unlock(&loader->lock);
    return ready;
}

void gp_loader_record(gp_loader *loader, bool on) {
    pthread_mutex_lock(&loader->lock);
    if (on && !atomic_load(&loader->records))
        for (int i = 0; i < loader->memory.threads; i++) loader->readers[i].joins = false;
    atomic_store(&loader->records, on && loader->options.recorded > 0);
    pthread_mutex_unlock(&loader->lock);
}

const gp_loader_span *gp_loader_spans(const gp_loader *loader, int thread, size_t *count) {
    assert(!atomic_load(&loader->records));
    *count = (size_t)loader->readers[thread].span_count;
    return loader->readers[thread].spans;
}

int gp_loader_threads(const gp_loader *loader) {
    return loader->memory.threads;
}

gp_status gp_loader_take(gp_loader *loader, const gp_batch **out, gp_error *err) {
    gp_status status = GP_OK;
    const gp_batch *batch = NULL;
    pthread_mutex_lock(&loader->lock);
    if (loader->taken - loader->freed >= loader->options.held) give_back(loader, loader->freed);
    pass_over(loader);
    while (loader->filled == loader->taken && !loader->ended) pthread_cond_wait(&loader->change, &loader->lock);
    if (loader->filled > loader->taken)
        batch = &slot_of(loader, loader->taken++)->batch;
    else if (loader->error.status != GP_OK) {
        status = loader->error.status;
        if (err) *err = loader->error;
    }
    pthread_mutex_unlock(&loader->lock);
    if (status == GP_OK) *out = batch;
    return status;
}

gp_status gp_loader_explain(const gp_loader *loader, const gp_batch *batch, bool target, char text[GP_FLAW_TEXT],
                            gp_error *err) {
    const gp_loader_options *options = &loader->options;
    int64_t *order = NULL, first = batch->index * options->batch;
    if (batch->epoch == options->first_epoch) first += options->first_sample;
    gp_status status = GP_OK;
    text[0] = '\0';
    if (options->shuffle) {
        GP_RETURN_IF_FAILED(GP_NEW(&order, loader->count, err));
        gp_loader_order(options->seed, batch->epoch, loader->count, order);
    }
    for (int64_t i = 0; i < batch->samples && status == GP_OK && !text[0]; i++) {
        gp_sample_key key = {
            .index = order ? order[first + i] : first + i, .epoch = batch->epoch, .seed = options->seed};
        status = gp_dataset_explain(loader->dataset, key, target, text, err);
    }
    free(order);
    return status;
}
