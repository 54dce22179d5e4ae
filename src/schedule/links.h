/* Links: what data take from one worker to another. Inside a process, between processes of a host, between hosts.
 *
 * A copy of n bytes takes latency + n / bandwidth. On a shared link copies queue: they hold a *lane* for n / bandwidth,
 * one at a time. A host has one lane to the network and one from it, which all its workers share; a shared link between
 * the processes of a host is one lane, and so is one inside a process.
 *
 * Plain data; pure functions; any thread. */
#ifndef GP_SCHEDULE_LINKS_H
#define GP_SCHEDULE_LINKS_H

#include <stdbool.h>

#include "base/status.h"
#include "schedule/program.h"

typedef enum gp_link_kind {
    GP_LINK_PROCESS, /* inside a process */
    GP_LINK_HOST,    /* between processes of a host */
    GP_LINK_NETWORK, /* between hosts */
    GP_LINK_KINDS
} gp_link_kind;
/* "inside a process" */
const char *gp_link_kind_text(gp_link_kind kind);
/* "process": its key in files. */
const char *gp_link_kind_name(gp_link_kind kind);

typedef struct gp_link {
    bool given; /* else copies take what the devices' copies take */
    bool shared;
    double latency;   /* seconds */
    double bandwidth; /* bytes per second; > 0 */
    bool measured;    /* a profile gives it; else the configuration does */
} gp_link;

typedef struct gp_links {
    gp_link of[GP_LINK_KINDS];
    int workers, processes, hosts;
    int *process, *host; /* [worker]; owned */
} gp_links;

/* All workers in one process; no link is given. */
GP_MUST_USE gp_status gp_links_create(int workers, gp_links **out, gp_error *err);
GP_MUST_USE gp_status gp_links_copy(const gp_links *links, gp_links **out, gp_error *err);
void gp_links_destroy(gp_links **links);

gp_link_kind gp_links_kind(const gp_links *links, int from, int to);
/* Of copies from one worker to another. NULL: none is given, or there are no links (NULL), or both are one worker. */
const gp_link *gp_links_between(const gp_links *links, int from, int to);
/* Whether such copies are messages: they begin when they are sent, and arrive while both workers do other work. */
bool gp_links_are_messages(const gp_links *links, int from, int to);

/* Lanes have numbers from 0. */
int gp_links_lanes(const gp_links *links);
/* Those that a copy holds, both at once; −1: no lane, or no second one. */
void gp_links_find_lanes(const gp_links *links, int from, int to, int lane[2]);
/* "from host 3", "host 3", "process 3"; buffer is returned. */
enum { GP_LANE_TEXT = 32 };
const char *gp_links_lane_text(const gp_links *links, int lane, char buffer[GP_LANE_TEXT]);

/* ---- without links ----------------------------------------------------------------------------------------------- */

/* Channels, for simulations: copies from one worker to another go one at a time. Owned by a player. */
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
