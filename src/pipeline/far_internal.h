/* What the files of messages between processes share (pipeline/far.h).
 *
 * far.c has the edges, far_collectives.c the collectives, far_exchange.c the exchanges within a pass, and far_staging.c
 * the buffers of the host. Opened and closed by the trainer's thread; the rest is for the worker's own thread. */
#ifndef GP_PIPELINE_FAR_INTERNAL_H
#define GP_PIPELINE_FAR_INTERNAL_H

#include "pipeline/far.h"
#include "plan/staging.h"

typedef struct gp_far_pair gp_far_pair; /* far_collectives.c */
typedef struct gp_far_peer gp_far_peer; /* far_exchange.c */

/* Of one worker in one mini-batch: receives items[first[i]] … items[first[i+1]−1] may begin before instruction i. */
typedef struct gp_far_early {
    uint32_t *first; /* instructions + 1 entries */
    uint32_t *items; /* instructions that receive */
} gp_far_early;

/* What was last sent from a buffer: a command's message. Those of earlier commands have gone. */
typedef struct gp_far_user {
    gp_parcel *parcel; /* NULL: nothing */
    uint64_t command;
} gp_far_user;

/* The buffers of an edge. */
typedef struct gp_far_ring {
    char *memory;
    gp_staging_ring its; /* count 0: the memory of the arena */
    gp_far_user *users;  /* [buffer] */
} gp_far_ring;

struct gp_far {
    size_t staged;         /* bytes of all buffers */
    gp_parcel **parcels;   /* [edge] one for each micro-batch; NULL: the edge does not lead to another process */
    gp_far_ring *rings;    /* [edge] */
    gp_far_pair **pairs;   /* [collective] */
    size_t *pair_counts;   /* [collective] */
    gp_far_peer **peers;   /* [stage] one for each replica of its group; NULL: it exchanges with no other process */
    gp_far_early *earlies; /* [mini·workers + worker] */
    int early_count;
};

static inline int gp_far_process_of(const gp_run *run, int stage) {
    return run->plan->process[run->plan->stage[stage].worker];
}

/* A buffer of the host, counted in far->staged. No bytes: none. */
GP_MUST_USE gp_status gp_far_new_buffer(gp_far *far, size_t bytes, char **out, gp_error *err);
/* On the host: until an event of the worker's own device has happened. That is not to compute: it may take as long as
 * other workers do. NULL: it has. */
GP_MUST_USE gp_status gp_far_wait_computed(gp_worker *worker, const gp_event *event, gp_error *err);
/* Copies what is computed from the arena to a buffer of the host. */
GP_MUST_USE gp_status gp_far_take_out(gp_worker *worker, char *to, const char *address, size_t bytes, gp_error *err);

/* If it fails, it must still be closed. */
GP_MUST_USE gp_status gp_far_open_collectives(gp_run *run, gp_error *err);
void gp_far_close_collectives(gp_run *run);
/* Begins the receives of what others scatter. It has places of its own, which are free from the step's beginning on. */
void gp_far_begin_buckets(gp_worker *worker, const gp_mini_plan *mini);
/* Until a stage's own part of a collective has gone to all. */
GP_MUST_USE gp_status gp_far_wait_posted(gp_worker *worker, uint32_t collective, int from, gp_error *err);

/* If it fails, it must still be closed. */
GP_MUST_USE gp_status gp_far_open_peers(gp_run *run, gp_error *err);
void gp_far_close_peers(gp_run *run);
/* Until the stage's parts of exchanges have gone to all. */
GP_MUST_USE gp_status gp_far_wait_peers(gp_worker *worker, int stage, gp_error *err);

#endif
