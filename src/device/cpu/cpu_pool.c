#include "device/cpu/cpu_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sync.h"

/* Microseconds for which a helper spins at most: longer than most gaps between two loops. Helpers must not hold
 * processors while libgomp's threads compute, or while their worker waits for another one (docs/cpu-threads.md). */
enum { HELPER_SPIN = 100 };

typedef struct pool_thread {
    gp_signal done; /* raised to the number of the loop that it has finished */
    gp_cpu_pool *pool;
    int part;
    pthread_t thread;
} pool_thread;

struct gp_cpu_pool {
    gp_signal start; /* raised to the number of the loop to do */
    uint64_t loops;
    gp_cancel never; /* waits inside an op are short: they are not cancelled */
    int threads;
    uint32_t spin; /* gp_wait_spin of the helpers */
    /* The loop under way: written by the caller before `start`, read by the threads after it. */
    gp_cpu_range range; /* NULL: end */
    void *context;
    int64_t count;
    int64_t parts;
    pool_thread *helper; /* threads − 1 */
};

static void do_part(const gp_cpu_pool *pool, int64_t part) {
    if (part >= pool->parts) return;
    int64_t quotient = pool->count / pool->parts;
    int64_t remainder = pool->count % pool->parts;
    int64_t begin = part * quotient + (part < remainder ? part : remainder);
    int64_t end = begin + quotient + (part < remainder);
    pool->range(pool->context, begin, end);
}

/* Loops often follow one another closely, and to wake a thread takes longer than most of them. So the wait spins first,
 * if the thread that created the pool does. */
static void wait_for(const gp_cpu_pool *pool, gp_signal *signal, uint64_t value) {
    gp_status status = gp_signal_wait(signal, value, &pool->never, NULL);
    assert(status == GP_OK);
    (void)status;
}

static void *helper_main(void *argument) {
    pool_thread *self = argument;
    gp_cpu_pool *pool = self->pool;
    gp_wait_spin(pool->spin);
    for (uint64_t loop = 1;; loop++) {
        wait_for(pool, &pool->start, loop);
        if (!pool->range) return NULL;
        do_part(pool, self->part);
        gp_signal_raise(&self->done, loop);
    }
}

static void join_helpers(gp_cpu_pool *pool, int started) {
    pool->range = NULL;
    gp_signal_raise(&pool->start, ++pool->loops);
    for (int i = 0; i < started; i++) pthread_join(pool->helper[i].thread, NULL);
}

static gp_status start_helpers(gp_cpu_pool *pool, gp_error *err) {
    for (int i = 0; i < pool->threads - 1; i++) {
        pool_thread *helper = &pool->helper[i];
        gp_signal_init(&helper->done);
        helper->pool = pool;
        helper->part = i + 1;
        int failed = pthread_create(&helper->thread, NULL, helper_main, helper);
        if (failed) {
            join_helpers(pool, i);
            return gp_fail(err, GP_MEMORY, "cpu: thread %d of %d could not be started: %s", i + 2, pool->threads,
                           strerror(failed));
        }
        pthread_setname_np(helper->thread, "gp-cpu-pool");
    }
    return GP_OK;
}

/* Signals stand on cache lines of their own, which calloc does not promise. */
static void *zeroed_lines(size_t bytes) {
    bytes = gp_align_up(bytes, GP_ALIGNMENT);
    void *block = aligned_alloc(GP_ALIGNMENT, bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

gp_status gp_cpu_pool_create(int threads, gp_cpu_pool **out, gp_error *err) {
    assert(threads >= 1);
    gp_cpu_pool *pool = zeroed_lines(sizeof *pool);
    if (!pool) return gp_fail(err, GP_MEMORY, "out of memory: a pool of %d threads", threads);
    pool->threads = threads;
    pool->spin = gp_wait_spins() < HELPER_SPIN ? gp_wait_spins() : HELPER_SPIN;
    gp_signal_init(&pool->start);
    gp_status status = gp_cancel_init(&pool->never, err);
    if (status != GP_OK) goto free_pool;
    pool->helper = zeroed_lines((size_t)threads * sizeof *pool->helper);
    if (!pool->helper) {
        status = gp_fail(err, GP_MEMORY, "out of memory: a pool of %d threads", threads);
        goto fini_cancel;
    }
    status = start_helpers(pool, err);
    if (status != GP_OK) goto free_helpers;
    *out = pool;
    return GP_OK;

free_helpers:
    free(pool->helper);
fini_cancel:
    gp_cancel_fini(&pool->never);
free_pool:
    free(pool);
    return status;
}

void gp_cpu_pool_destroy(gp_cpu_pool **pool_at) {
    gp_cpu_pool *pool = *pool_at;
    if (!pool) return;
    join_helpers(pool, pool->threads - 1);
    free(pool->helper);
    gp_cancel_fini(&pool->never);
    free(pool);
    *pool_at = NULL;
}

void gp_cpu_pool_for(gp_cpu_pool *pool, int64_t count, int64_t grain, gp_cpu_range range, void *context) {
    assert(count >= 0 && grain >= 1);
    int64_t parts = count / grain < pool->threads ? count / grain : pool->threads;
    if (parts <= 1) {
        if (count > 0) range(context, 0, count);
        return;
    }
    pool->range = range;
    pool->context = context;
    pool->count = count;
    pool->parts = parts;
    gp_signal_raise(&pool->start, ++pool->loops);
    do_part(pool, 0);
    for (int i = 0; i < pool->threads - 1; i++) wait_for(pool, &pool->helper[i].done, pool->loops);
}
