/* Processors that the threads of several workers share, in virtual time: the player's.
 *
 * A job is a computation or copy that a thread carries out. While the jobs under way need more threads than there are
 * processors, all of them progress at processors / threads of their speed (fluid processor sharing); else at full
 * speed. Jobs may be added out of order, but never earlier than an event that gp_sharing_next has returned. Each event
 * costs O(log jobs). Pure; one thread.
 */
#ifndef GP_SCHEDULE_SHARING_H
#define GP_SCHEDULE_SHARING_H

#include <stdbool.h>

#include "base/status.h"

typedef struct gp_job {
    double time;    /* when it begins */
    double seconds; /* > 0; how long it takes at full speed */
    int threads;    /* ≥ 1 */
    int who;        /* the player's agent; it has one job at a time */
} gp_job;

typedef struct gp_job_entry {
    double key; /* time at which it begins; once it is under way, progress at which it ends */
    gp_job job;
} gp_job_entry;

typedef struct gp_job_heap {
    gp_job_entry *items; /* the least on top; of equal keys the least agent */
    int count;
} gp_job_heap;

typedef struct gp_sharing {
    int processors;
    int threads;     /* that the jobs under way need */
    double now;      /* time of the last event */
    double progress; /* seconds of work that a job under way since the start would have done */
    gp_job_heap waiting, running;
} gp_sharing;

/* `most`: jobs at a time. */
GP_MUST_USE gp_status gp_sharing_init(gp_sharing *sharing, int processors, int most, gp_error *err);
void gp_sharing_fini(gp_sharing *sharing);
void gp_sharing_add(gp_sharing *sharing, const gp_job *job);
/* Time of the next event; INFINITY: none. */
double gp_sharing_peek(const gp_sharing *sharing);
/* Carries out the next event, of which there is one. True: that job has ended, at *end. */
bool gp_sharing_next(gp_sharing *sharing, gp_job *job, double *end);

#endif
