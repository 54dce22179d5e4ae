/* Channels: copies from one worker to another go one at a time, in the order in which they ask.
 *
 * For the player only, which owns it. Who asks later by the clock must not be served first: gp_channels_next may be
 * called when nobody can ask for an earlier time any more. Pure; one thread.
 */
#ifndef GP_SCHEDULE_CHANNELS_H
#define GP_SCHEDULE_CHANNELS_H

#include <stdbool.h>

#include "base/status.h"
#include "schedule/program.h"

/* A copy that asks. */
typedef struct gp_transfer {
    double time;             /* from when */
    double seconds, latency; /* for the first it has the channel; it ends after both */
    uint32_t edge;
    uint16_t micro;
    int who; /* the player's: who waits for it */
    uint64_t order;
} gp_transfer;

typedef struct gp_channels {
    int *of_edge;      /* [edge] number of its channel */
    double *free_at;   /* [channel] */
    gp_transfer *heap; /* those that wait, the first in time on top */
    size_t count, capacity;
    uint64_t asked;
} gp_channels;

GP_MUST_USE gp_status gp_channels_init(gp_channels *channels, const gp_stages *stages, const gp_programs *programs,
                                       gp_error *err);
void gp_channels_fini(gp_channels *channels);
GP_MUST_USE gp_status gp_channels_ask(gp_channels *channels, gp_transfer transfer, gp_error *err);
/* From when the next one asks; INFINITY: nothing asks. */
double gp_channels_peek(const gp_channels *channels);
/* The next one and when it starts; false: nobody asks. */
bool gp_channels_next(gp_channels *channels, gp_transfer *out, double *start);

#endif
