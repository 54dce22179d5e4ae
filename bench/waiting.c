/* What waiting costs two workers that hand over to one another as GPipe's do: with several times of spinning, in turn.
 *
 * Usage: bench_waiting [rounds] [microseconds of a forward on the first worker]
 *
 * A step has 4 micro-batches. The first worker's forward takes f, its backward 2f; the second one's twice as long. The
 * computation is a loop of arithmetic in registers, so that all that differs is waiting. Printed for each time of
 * spinning: the quartiles of the steps' times beside the ideal, and the share of hand-overs after which both workers
 * were on one processor. CPU steal of each round stands beside it: rounds with steal say little. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sync.h"

enum { MICRO = 4, STEPS = 40, SPINS = 3, MOST_ROUNDS = 64 };

static const uint32_t spins[SPINS] = {0, 200, 2000};

typedef struct pair {
    gp_cancel cancel;
    gp_signal forward, backward, begin;
    uint32_t spin;
    double turns; /* of the loop for f */
    _Atomic int processor[2];
    int together, handed;
    pthread_t thread;
} pair;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile double sink;

static void compute(double turns) {
    double x = 1;
    for (int64_t i = 0; i < (int64_t)turns; i++) x = x * 0.999999 + 1e-6;
    sink = x;
}

static void await(gp_signal *signal, uint64_t value, pair *all) {
    gp_error err;
    if (gp_signal_wait(signal, value, &all->cancel, &err) != GP_OK) exit(1);
}

static void *second(void *argument) {
    pair *all = argument;
    gp_wait_spin(all->spin);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t m = 1; m <= MICRO; m++) {
            await(&all->forward, step * MICRO + m, all);
            all->processor[1] = sched_getcpu();
            all->handed++;
            all->together += all->processor[0] == all->processor[1];
            compute(2 * all->turns);
        }
        for (uint64_t m = 1; m <= MICRO; m++) {
            compute(4 * all->turns);
            gp_signal_raise(&all->backward, step * MICRO + m);
        }
    }
    return NULL;
}

static void first(pair *all, double *seconds) {
    for (uint64_t step = 0; step < STEPS; step++) {
        double began = now();
        for (uint64_t m = 1; m <= MICRO; m++) {
            all->processor[0] = sched_getcpu();
            compute(all->turns);
            gp_signal_raise(&all->forward, step * MICRO + m);
        }
        for (uint64_t m = 1; m <= MICRO; m++) {
            await(&all->backward, step * MICRO + m, all);
            all->processor[0] = sched_getcpu();
            compute(2 * all->turns);
        }
        seconds[step] = now() - began;
    }
}

static double steal(void) {
    unsigned long long v[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return 0;
    int read = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
                      &v[6], &v[7]);
    (void)fclose(file);
    return read == 8 ? (double)v[7] : 0;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(int which, double turns, double *seconds, int *together, int *handed) {
    static pair all;
    gp_error err;
    memset(&all, 0, sizeof all);
    if (gp_cancel_init(&all.cancel, &err) != GP_OK) exit(1);
    gp_signal_init(&all.forward);
    gp_signal_init(&all.backward);
    all.spin = spins[which];
    all.turns = turns;
    gp_wait_spin(all.spin);
    if (gp_thread_start(&all.thread, 0, second, &all) != 0) exit(1);
    first(&all, seconds);
    pthread_join(all.thread, NULL);
    *together += all.together;
    *handed += all.handed;
    gp_cancel_fini(&all.cancel);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 6;
    double f = argc > 2 ? atof(argv[2]) : 750, turns = 1e6;
    static double seconds[SPINS][MOST_ROUNDS * STEPS];
    int together[SPINS] = {0}, handed[SPINS] = {0};
    double stolen[SPINS] = {0};
    if (rounds < 1 || rounds > MOST_ROUNDS) return 2;
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        double began = now();
        compute(turns);
        if (now() - began < best) best = now() - began;
    }
    turns *= 1e-6 * f / best;
    for (int r = 0; r < rounds; r++)
        for (int m = 0; m < SPINS; m++) {
            double before = steal();
            run(m, turns, seconds[m] + (size_t)r * STEPS, &together[m], &handed[m]);
            stolen[m] += steal() - before;
        }
    /* The first worker's forward and backward, and all of the second one's. */
    printf("# ideal %.2f ms; quartiles of %d steps, share of hand-overs on one processor, steal\n",
           1e-3 * f * (3 + 6 * MICRO), rounds * STEPS);
    for (int m = 0; m < SPINS; m++) {
        size_t count = (size_t)rounds * STEPS;
        qsort(seconds[m], count, sizeof(double), compare);
        printf("spins %4u us %6.2f %6.2f %6.2f ms   %5.1f %%   %.0f ms\n", spins[m], 1e3 * seconds[m][count / 4],
               1e3 * seconds[m][count / 2], 1e3 * seconds[m][count * 3 / 4], 100.0 * together[m] / handed[m],
               10 * stolen[m]);
    }
    return 0;
}
