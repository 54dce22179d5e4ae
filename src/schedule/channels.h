/* Channels: copies from one worker to another go one at a time.
 *
 * For the players, which own them. Pure; one thread.
 */
#ifndef GP_SCHEDULE_CHANNELS_H
#define GP_SCHEDULE_CHANNELS_H

#include "base/status.h"
#include "schedule/program.h"

typedef struct gp_channels {
    int *of_edge;    /* [edge] number of its channel */
    double *free_at; /* [channel] */
} gp_channels;

GP_MUST_USE gp_status gp_channels_init(gp_channels *channels, const gp_stages *stages, const gp_programs *programs,
                                       gp_error *err);
void gp_channels_fini(gp_channels *channels);
/* When a copy starts that asks at `time`; it has the channel for `seconds`. Copies ask in the order of their times. */
double gp_channels_take(gp_channels *channels, uint32_t edge, double time, double seconds);

#endif
