#include "data/loader.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

/* One buffer of the ring. Between being filled and being given back it is the consumer's, else the thread's. */
typedef struct slot {
    char *input;
    char *target;
    gp_batch batch;
} slot;

struct gp_loader {
    /* Constant once the thread runs. */
    gp_dataset *dataset;
    gp_loader_options options;
    int64_t count;      /* samples of the dataset */
    int64_t batches;    /* per epoch */
    size_t input_bytes; /* of one sample */
    size_t target_bytes;
    void *scratch; /* gp_dataset_read's; loader's thread only */
    slot *slots;   /* depth + 1: one is in the consumer's hands */
    int slot_count;
    bool started;
    pthread_t thread;

    int64_t *order;      /* of the epoch under way; loader's thread only */
    int64_t order_epoch; /* 0: none yet */

    atomic_bool stop; /* read between samples, so that destroy need not wait for a batch */
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint64_t filled; /* batches read so far; lock */
    uint64_t freed;  /* batches given back by the consumer; lock */
    bool ended;      /* nothing comes after `filled`; lock */
    gp_error error;  /* why it ended, where its status is not GP_OK; lock */

    uint64_t taken; /* consumer only */
};

int64_t gp_loader_batches(int64_t count, int64_t batch, bool drop_last) {
    return count / batch + (!drop_last && count % batch != 0);
}

/* A number below `below`, every one equally likely (Lemire, "Fast random integer generation in an interval", 2019): the
 * few draws that would make some numbers likelier are thrown away, and the next attempt has a counter of its own. */
static uint32_t draw_below(uint64_t seed, int64_t epoch, int64_t position, uint32_t below) {
    for (uint32_t attempt = 0;; attempt++) {
        gp_philox counter = {{(uint32_t)(position / 4), (uint32_t)epoch, attempt, GP_RANDOM_SHUFFLE}};
        uint64_t product = (uint64_t)gp_philox_draw(seed, counter).word[position % 4] * below;
        if ((uint32_t)product >= (0U - below) % below) return (uint32_t)(product >> 32);
    }
}

void gp_loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int64_t *order) {
    for (int64_t i = 0; i < count; i++) order[i] = i;
    if (!shuffle) return;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = draw_below(seed, epoch, i, (uint32_t)(i + 1));
        int64_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static gp_status read_batch(gp_loader *self, int64_t number, slot *to, gp_error *err) {
    const gp_loader_options *options = &self->options;
    int64_t epoch = options->first_epoch + number / self->batches;
    int64_t index = number % self->batches;
    int64_t first = index * options->batch;
    int64_t samples = self->count - first < options->batch ? self->count - first : options->batch;
    if (self->order_epoch != epoch) {
        gp_loader_order(options->seed, epoch, options->shuffle, self->count, self->order);
        self->order_epoch = epoch;
    }
    int64_t counts = 0;
    for (int64_t i = 0; i < samples; i++) {
        int64_t counted = 0;
        if (atomic_load_explicit(&self->stop, memory_order_relaxed)) return GP_CANCELLED;
        gp_sample_key key = {.index = self->order[first + i], .epoch = epoch, .seed = options->seed};
        GP_RETURN_IF_FAILED(gp_dataset_read(self->dataset, key, self->scratch,
                                            to->input + (size_t)i * self->input_bytes,
                                            to->target + (size_t)i * self->target_bytes, &counted, err));
        counts += counted;
    }
    to->batch = (gp_batch){
        .input = to->input, .target = to->target, .samples = samples, .counts = counts, .epoch = epoch, .index = index};
    return GP_OK;
}

/* False when the loader is being destroyed. */
static bool wait_for_slot(gp_loader *self) {
    pthread_mutex_lock(&self->lock);
    while (!atomic_load(&self->stop) && self->filled - self->freed == (uint64_t)self->slot_count)
        pthread_cond_wait(&self->change, &self->lock);
    bool go_on = !atomic_load(&self->stop);
    pthread_mutex_unlock(&self->lock);
    return go_on;
}

static void publish(gp_loader *self, gp_status status, const gp_error *error) {
    pthread_mutex_lock(&self->lock);
    if (status == GP_OK) {
        self->filled++;
    } else {
        self->ended = true;
        self->error = *error;
    }
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

static void publish_end(gp_loader *self) {
    pthread_mutex_lock(&self->lock);
    self->ended = true;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

static void *run(void *argument) {
    gp_loader *self = argument;
    gp_error error = {.status = GP_OK};
    int64_t end = INT64_MAX;
    if (self->options.epochs > 0 && !gp_int64_mul(self->options.epochs, self->batches, &end)) end = INT64_MAX;
    for (int64_t number = self->options.skip; number < end; number++) {
        if (!wait_for_slot(self)) return NULL;
        /* Only this thread writes `filled`, so it may read it without the lock. */
        gp_status status = read_batch(self, number, &self->slots[self->filled % (uint64_t)self->slot_count], &error);
        if (atomic_load(&self->stop)) return NULL;
        publish(self, status, &error);
        if (status != GP_OK) return NULL;
    }
    publish_end(self);
    return NULL;
}

static gp_status make_slots(gp_loader *self, const gp_sample_spec *spec, gp_error *err) {
    int64_t elements = 0, targets = 0;
    size_t input_bytes, target_bytes;
    size_t samples = (size_t)(self->options.batch < self->count ? self->options.batch : self->count);
    if (!gp_shape_elements(spec->input, &elements) || !gp_shape_elements(spec->target, &targets) ||
        !gp_size_mul((size_t)elements, gp_dtype_size(spec->input_dtype), &self->input_bytes) ||
        !gp_size_mul(self->input_bytes, samples, &input_bytes) || input_bytes > SIZE_MAX - GP_ALIGNMENT ||
        !gp_size_mul((size_t)targets, gp_dtype_size(spec->target_dtype), &self->target_bytes) ||
        !gp_size_mul(self->target_bytes, samples, &target_bytes))
        return gp_fail(err, GP_MEMORY, "out of memory: a mini-batch of %zu samples", samples);
    GP_RETURN_IF_FAILED(GP_NEW(&self->slots, self->slot_count, err));
    for (int i = 0; i < self->slot_count; i++) {
        slot *made = &self->slots[i];
        if (posix_memalign((void **)&made->input, GP_ALIGNMENT, gp_align_up(input_bytes, GP_ALIGNMENT)) != 0) {
            made->input = NULL;
            return gp_fail(err, GP_MEMORY, "out of memory: a mini-batch of %zu samples, %zu bytes", samples,
                           input_bytes);
        }
        GP_RETURN_IF_FAILED(gp_new_array((void **)&made->target, target_bytes, 1, err));
    }
    GP_RETURN_IF_FAILED(gp_new_array(&self->scratch, gp_dataset_scratch(self->dataset), 1, err));
    return GP_NEW(&self->order, self->count, err);
}

static gp_status check_options(const gp_loader *self, gp_error *err) {
    const gp_loader_options *options = &self->options;
    assert(options->batch >= 1 && options->first_epoch >= 1 && options->skip >= 0 && options->depth >= 1);
    if (self->batches == 0) {
        return gp_fail(err, GP_CONFIG,
                       "the data set has %" PRId64 " samples, fewer than the mini-batch of %" PRId64
                       ", which drop_last leaves out: nothing is left to read",
                       self->count, options->batch);
    }
    if (options->shuffle && self->count > UINT32_MAX) {
        return gp_fail(err, GP_UNSUPPORTED, "%" PRId64 " samples cannot be shuffled; at most %" PRIu32 " can",
                       self->count, UINT32_MAX);
    }
    return GP_OK;
}

/* Signals are the business of the main thread. */
static gp_status start(gp_loader *self, gp_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&self->thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return gp_fail(err, GP_INTERNAL, "the loader's thread cannot be started: %s", strerror(failed));
    self->started = true;
    return GP_OK;
}

gp_status gp_loader_create(gp_dataset *dataset, const gp_sample_spec *spec, const gp_loader_options *options,
                           gp_loader **out, gp_error *err) {
    gp_loader *self = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->dataset = dataset;
    self->options = *options;
    self->count = gp_dataset_count(dataset);
    self->batches = gp_loader_batches(self->count, options->batch, options->drop_last);
    self->slot_count = options->depth + 1;
    atomic_init(&self->stop, false);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->change, NULL);
    gp_status status = check_options(self, err);
    if (status == GP_OK) status = make_slots(self, spec, err);
    if (status == GP_OK) status = start(self, err);
    if (status != GP_OK) {
        gp_loader_destroy(&self);
        return status;
    }
    *out = self;
    return GP_OK;
}

void gp_loader_destroy(gp_loader **loader) {
    if (!loader || !*loader) return;
    gp_loader *self = *loader;
    if (self->started) {
        pthread_mutex_lock(&self->lock);
        atomic_store(&self->stop, true);
        pthread_cond_broadcast(&self->change);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
    }
    pthread_cond_destroy(&self->change);
    pthread_mutex_destroy(&self->lock);
    for (int i = 0; self->slots && i < self->slot_count; i++) {
        free(self->slots[i].input);
        free(self->slots[i].target);
    }
    free(self->slots);
    free(self->scratch);
    free(self->order);
    free(self);
    *loader = NULL;
}

gp_status gp_loader_take(gp_loader *loader, const gp_batch **out, gp_error *err) {
    gp_status status = GP_OK;
    const gp_batch *batch = NULL;
    pthread_mutex_lock(&loader->lock);
    if (loader->freed < loader->taken) {
        loader->freed = loader->taken;
        pthread_cond_broadcast(&loader->change);
    }
    while (loader->filled == loader->taken && !loader->ended) pthread_cond_wait(&loader->change, &loader->lock);
    if (loader->filled > loader->taken)
        batch = &loader->slots[loader->taken++ % (uint64_t)loader->slot_count].batch;
    else if (loader->error.status != GP_OK) {
        status = loader->error.status;
        if (err) *err = loader->error;
    }
    pthread_mutex_unlock(&loader->lock);
    if (status == GP_OK) *out = batch;
    return status;
}
