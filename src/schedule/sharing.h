/* Processors that the threads of several workers share, in virtual time: the player's.
 *
 * A job is a computation or copy that a thread carries out. While the jobs under way need more threads than there are
 * processors, all of them progress at processors / threads of their speed (fluid processor sharing); else at full
 * speed. The caller begins and ends jobs in the order of time. Each event costs O(log jobs). Pure; one thread.
 */
#ifndef GP_SCHEDULE_SHARING_H
#define GP_SCHEDULE_SHARING_H

#include "schedule/heap.h"

typedef struct gp_sharing {
    int processors;
    int threads;     /* that the jobs under way need */
    double now;      /* time of the last event */
    double progress; /* seconds of work that a job under way since the start would have done */
    gp_heap jobs;    /* under way, by the progress at which they end; the caller frees its items */
} gp_sharing;

/* When the first of the jobs under way ends, if no other begins before; INFINITY: there is none. */
double gp_sharing_first_end(const gp_sharing *sharing);
/* A job takes `seconds` > 0 at full speed, and `threads` ≥ 1. `who` has no other one. GP_MEMORY. */
GP_MUST_USE gp_status gp_sharing_begin(gp_sharing *sharing, double time, double seconds, int threads, int who,
                                       gp_error *err);
/* Ends that first job, of which there is one; returns who had it. */
int gp_sharing_end(gp_sharing *sharing);

#endif
