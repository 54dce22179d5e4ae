/* Inside the player: what goes through programs, and what it waits for.
 *
 * The player owns all of it. One thread. */
#ifndef GP_SCHEDULE_PLAY_INTERNAL_H
#define GP_SCHEDULE_PLAY_INTERNAL_H

#include "schedule/play_messages.h"
#include "schedule/sharing.h"

/* GP_ASKS: for a channel or for processors. */
typedef enum gp_sleep_kind {
    GP_AWAKE,
    GP_ON_EVENT,
    GP_ON_MARK,
    GP_ON_MESSAGES,
    GP_IN_BARRIER,
    GP_IN_GROUP,
    GP_ASKS
} gp_sleep_kind;

/* In place of an agent that asks: a part of a collective. */
#define GP_OF_MESSAGE UINT32_MAX

/* What goes through a program in order: a thread through all of it; a device's queue through what is its. */
typedef struct gp_agent {
    int worker;
    int queue; /* gp_queue; −1: a thread */
    size_t pc;
    size_t barriers; /* that it has passed */
    double clock;    /* the last of its instructions is over; GP_ASKS: its instruction may begin */
    gp_sleep_kind sleeps;
    double summed; /* the last bucket that it could add up early is, so far (play_sums.c) */
    bool joined;   /* its group may compute the pass that comes */
    /* GP_ON_EVENT: its number; GP_ON_MARK: the mark; GP_ON_MESSAGES: the event of the collector; GP_IN_GROUP: which of
     * `groups` */
    size_t until;
    const gp_wait *event; /* GP_ON_EVENT */
} gp_agent;

/* Replicas that compute a pass together: those that could begin it. */
typedef struct gp_play_group {
    int arrived;
    double time; /* of the last one */
} gp_play_group;

typedef struct gp_player {
    gp_play_request request;
    const gp_stages *stages;
    const gp_programs *programs;
    gp_play *play;
    gp_agent *agents; /* by worker, then queue */
    int *first;       /* [worker + 1] its agents */
    int threads;      /* agents that meet in barriers */
    int meeting;
    double meeting_time;
    gp_play_group *groups; /* [2·stage of the group's first replica + 1 of the last micro-batch] */
    double *when;          /* [number of the event] when it happened; NaN: not yet */
    double **marks;        /* [worker][mark], likewise; NULL: no queues */
    int *awake;            /* agents that can go on */
    int awake_count;
    gp_heap asks;   /* copies that ask for their channel, and jobs that ask for processors */
    uint64_t asked; /* for a channel, so far */
    gp_channels channels;
    gp_messages messages;
    gp_sharing *sharing; /* [host] its processors */
    int hosts;
    int jobs;    /* under way on them */
    bool shares; /* threads need more processors than there are */
} gp_player;

size_t gp_player_number(const gp_player *p, const gp_wait *event);
void gp_player_wake(gp_player *p, int index);
/* Those of a worker that sleep until that happens. */
void gp_player_wake_those(gp_player *p, int worker, gp_sleep_kind sleeps, size_t until);
/* Wakes those that wait for the event. */
void gp_player_happened(gp_player *p, gp_wait event, double time);
/* What item `at` of these waits is over: *time becomes the last time. False: the agent sleeps until an event happens.
 */
bool gp_player_events_over(gp_player *p, gp_agent *a, const gp_worker_waits *waits, size_t at, double *time);
/* The same for all that the agent's next instruction waits for. */
bool gp_player_waits_over(gp_player *p, gp_agent *a, double *time);
/* When what the agent's instruction, from `start` to `end`, posts was posted: sums of buckets may have been before. */
double gp_player_posted(gp_player *p, gp_agent *a, const gp_instr *instr, double start, double end);
/* A pass that replicas compute together begins when all can. False: the agent sleeps until then. */
bool gp_player_join_group(gp_player *p, gp_agent *a, double *time);

#endif
