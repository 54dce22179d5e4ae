/* Messages in a play: copies between processes, which begin when they are sent and arrive by themselves.
 *
 * Parts of collectives are messages too: they leave when a member posts, and a collector waits until all have arrived.
 * On shared links messages queue for lanes (links.h). For the player, which owns it; one thread. */
#ifndef GP_SCHEDULE_PLAY_MESSAGES_H
#define GP_SCHEDULE_PLAY_MESSAGES_H

#include "schedule/play.h"

/* From a member that posts to one that collects. */
typedef struct gp_message {
    size_t collect; /* index of the collector's event */
    int from, to;   /* workers */
    double bytes;
} gp_message;

typedef struct gp_messages {
    const gp_links *links; /* NULL: there are no messages, and no lanes */
    double *free_at;       /* [lane] */
    size_t first_event;    /* number of the first event of a collective */
    size_t events;         /* of collectives */
    gp_message *items;     /* by the event of the post */
    size_t count, capacity;
    size_t *first;   /* [event + 1] in items */
    uint32_t *due;   /* [event of a collector] messages that have not arrived */
    double *arrived; /* likewise: when the last one did */
} gp_messages;

/* Lists the parts that are messages. */
GP_MUST_USE gp_status gp_messages_init(gp_messages *messages, const gp_play_request *request, gp_error *err);
void gp_messages_fini(gp_messages *messages);

/* Whether a send or receive is of a message. */
bool gp_messages_has_edge(const gp_messages *messages, const gp_play_request *request, const gp_instr *instr);
/* What the event of a post sends: *count messages. */
const gp_message *gp_messages_of(const gp_messages *messages, size_t event, size_t *count);
/* A message that asks at `time` has its lanes from the returned time on. */
double gp_messages_take(gp_messages *messages, int from, int to, double time, double seconds);
bool gp_messages_queue(const gp_messages *messages, int from, int to);
/* Without its latency. */
double gp_messages_seconds(const gp_messages *messages, int from, int to, double bytes);
double gp_messages_latency(const gp_messages *messages, int from, int to);

#endif
