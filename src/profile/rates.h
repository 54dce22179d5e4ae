/* How fast a device computes and moves memory: by its rates, counted operations and bytes become seconds.
 *
 * Plain data. Rates are assumed, or measured once per machine and device (rates_measure.h). Pure; any thread. */
#ifndef GP_PROFILE_RATES_H
#define GP_PROFILE_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rates that are assumed of one CPU thread, for comparisons between layers. */
#define GP_COUNTED_FLOPS_PER_SECOND 5e10
#define GP_COUNTED_BYTES_PER_SECOND 5e9

typedef struct gp_rates {
    double flops, bytes; /* per second */
    double latency;      /* seconds that each op takes beside */
    double copy_bytes;   /* per second, of copies to the device */
    double copy_latency; /* seconds that each copy takes beside */
    int64_t taken;       /* when they were measured, in seconds since 1970; 0: they are assumed */
    bool brief;          /* measured in a moment: they say how long a plan takes, but choose no plan */
} gp_rates;

/* As many times those of one CPU thread. */
gp_rates gp_rates_assumed(int threads);
/* Those of `threads` threads, from those of one. */
gp_rates gp_rates_of_threads(const gp_rates *one, int threads);

/* Seconds of an op: the slower of computing and moving memory, as a roofline (Williams, Waterman, Patterson 2009), and
 * the latency. */
double gp_rates_seconds(const gp_rates *rates, double flops, double bytes);

/* Ops that were timed together. */
typedef struct gp_timed_work {
    double flops, bytes, seconds;
    int ops;
} gp_timed_work;
/* Sets flops, bytes and latency. The latency is the time of the shortest op. For the work that computes longer than it
 * moves memory, the sum of the counted times is that of the measured ones; so for the other work. A rate without work
 * stays as it is in *rates, which must be above 0. Work without ops or time does not count. */
void gp_rates_fit(const gp_timed_work *work, size_t count, gp_rates *rates);

#endif
