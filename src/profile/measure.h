/* Measuring: a profile of a graph on devices.
 *
 * Opens a device of each kind that differs, times every op in its place (bench.h) in rounds that go over all devices
 * and layers, so that a noisy neighbour hits all alike, then copies. Devices of the host work at the same time where
 * they will in training (rounds.h). Threads spin in their waits if each has a processor, as in a run. Ends when the
 * medians are known narrowly enough, or when the time is over; every op is timed at least once. One thread calls;
 * blocks. */
#ifndef GP_PROFILE_MEASURE_H
#define GP_PROFILE_MEASURE_H

#include "profile/profile.h"

/* Called by the calling thread between ops: seconds since the time began, and the rounds that it has done. */
typedef struct gp_rounds_watch {
    void (*tell)(void *context, double seconds, int rounds); /* NULL: no calls */
    void *context;
} gp_rounds_watch;

/* Shares of an average micro-batch. */
typedef struct gp_measure_mix {
    double keeps; /* forwards that keep what backward needs */
    double first; /* backwards that overwrite gradients; the others add */
} gp_measure_mix;

typedef struct gp_measure_request {
    const gp_graph *graph;
    const gp_device_spec *devices; /* that differ (gp_profile_distinct) */
    int device_count;
    bool at_once;                  /* all of them that are on the host work at the same time */
    const gp_device_spec *company; /* devices of the host that work beside those then, and are not timed */
    int company_count;
    gp_update update;
    double clip_norm;
    int64_t samples; /* of a full micro-batch */
    gp_measure_mix mix;
    double seconds;          /* that it may take */
    size_t memory;           /* of a device that does not say: bytes that may be used at a time; 0: any */
    uint64_t (*clock)(void); /* nanoseconds; NULL: gp_clock */
    gp_rounds_watch watch;
} gp_measure_request;

/* Of the devices: the fewest rounds and the widest medians. */
typedef struct gp_measured {
    int rounds;
    double seconds, width;
} gp_measured;

/* Fills a profile that was made for these devices (gp_profile_create): times of layers and copies, how many devices
 * worked at the same time, and when it was taken. */
GP_MUST_USE gp_status gp_profile_measure(const gp_measure_request *request, gp_profile *profile, gp_measured *out,
                                         gp_error *err);

#endif
