/* Plays programs without devices: when each instruction would start and end, given how long each takes.
 *
 * Waits, barriers and the order on each worker are those of the executor, read from the same programs. A pass that
 * replicas compute together begins on all of them when all can begin it. It is how slots
 * find their lives, how the validator proves that nothing deadlocks, what --plan expects of a step, and what
 * gpipe-balance compares schedules by. Pure; one thread.
 */
#ifndef GP_SCHEDULE_PLAY_H
#define GP_SCHEDULE_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "schedule/links.h"
#include "schedule/queue.h"
#include "schedule/waits.h"

/* Seconds (or any unit) that an instruction takes once it has started; ≥ 0. */
typedef double (*gp_duration)(const void *context, int worker, size_t pc, const gp_instr *instr);

/* What a copy instruction of a message carries: part i of a collect, from which stage; or all of a send (i 0, from its
 * own stage). False: there is no such part. */
typedef bool (*gp_play_part)(const void *context, const gp_instr *instr, int i, int *from, double *bytes);

/* Who copies what a worker receives. */
typedef enum gp_play_copies {
    GP_PLAY_PULLED, /* its thread, which does nothing else meanwhile */
    GP_PLAY_QUEUED, /* its device's queues (schedule/access.h), beside computations */
    GP_PLAY_POSTED, /* the transport, from when it is sent: a receive only waits until it has arrived */
} gp_play_copies;

/* A post that is carried out within the backward that makes its part (plan/early_posts.h): the instruction `post`
 * within the backward `pc`, when `ops` ops of its routine are over. */
typedef struct gp_early_post {
    uint32_t pc, post, ops;
    double share; /* of the time of the backward that is over then, about */
} gp_early_post;

/* A bucket of gradients that is added up within a backward, if all parts of it arrive by then (plan/early_posts.h): the
 * instructions that collect the parts, add them up, and post the sums. */
typedef struct gp_early_sum {
    uint32_t collect, reduce, post; /* post 0: there is none */
} gp_early_sum;

/* Of a worker: posts by pc and then by ops, sums in the order of the program. */
typedef struct gp_worker_posts {
    gp_early_post *items;
    size_t count, capacity;
    gp_early_sum *sums;
    size_t sum_count, sum_capacity;
} gp_worker_posts;

typedef struct gp_play_request {
    const gp_stages *stages;
    const gp_programs *programs;
    const gp_waits *waits;           /* those programs'; without slots as if there were enough */
    const gp_waits *meets;           /* likewise, by barrier; NULL: threads all meet in each */
    const gp_program_queues *queues; /* likewise; not NULL where a worker's copies are QUEUED */
    const gp_play_copies *copies;    /* [worker]; NULL: PULLED */
    gp_duration duration, latency;   /* NULL: 0. A copy takes both, and holds its channel and queue for the first. Asked
                                        about the receive; where copies are POSTED, about the send */
    const void *context;
    const gp_worker_posts *early; /* [worker] posts and sums within backwards; NULL: each at its place in the program */
    bool channels; /* from each worker to each other one copy at a time, as they ask; else any number at once */
    /* Between processes, if a link between them is given, copies and parts of collectives are messages: they begin when
     * they are sent or posted, as if the receiver had room, take the link's time, and need no thread. On a shared link
     * inside a process a copy waits for its lane. NULL: none. Then without `channels`. */
    const gp_links *links;
    gp_play_part part; /* not NULL with links */
    /* > 0: the threads of all workers, of each host if there are links, share so many processors (schedule/sharing.h)
     * when they compute, and when they copy; a device's queues and copies on channels need none. 0: a processor for
     * each thread. */
    int processors;
    const int *threads; /* [worker] that its computations need; a copy needs one. NULL: one each */
    bool timeline;      /* keep start and end of each instruction */
} gp_play_request;

/* One worker's mini-batch. */
typedef struct gp_play_worker {
    double *start, *end; /* [pc]; NULL: not kept */
    double *issued;  /* [pc] from when its device may start it; NULL: not kept, or no host threads (schedule/issue.h) */
    uint32_t *after; /* likewise: of a copy, pc + 1 of the computation that was issued to its source before it, if it
                        waits for that one and not only for the one that made its value; 0: none */
    double busy;     /* sum of its computations, from start to end: sharing processors makes them longer */
    double copying;  /* likewise of its loads and receives; POSTED: 0 */
    double first, last; /* its computations begin and end; those that take no time do not count */
    size_t copies;      /* from other devices into its own; schedule/issue.h only */
    double delay; /* sum over them: from the end of the computation that made the value to the start of the copy */
} gp_play_worker;

typedef struct gp_play {
    int workers;
    gp_play_worker *worker;
    double length;   /* end of the last instruction */
    double *arrived; /* [edge·micro-batches + micro]; NULL: not all copies are POSTED, or times are not kept */
} gp_play;

/* GP_PROGRAM with the sentence where the programs deadlock: which worker waits at which instruction for what. */
GP_MUST_USE gp_status gp_play_run(const gp_play_request *request, gp_play **out, gp_error *err);
void gp_play_destroy(gp_play **play);

/* For players: a result in which nothing has happened yet, to be ended after a failure too. The end of a play that
 * failed destroys it; else a worker that computes nothing begins at 0. */
GP_MUST_USE gp_status gp_play_begin(const gp_programs *programs, bool timeline, bool issued, gp_play **out,
                                    gp_error *err);
GP_MUST_USE gp_status gp_play_end(gp_play **play, gp_status status, gp_play **out);

/* The longest time from the first computation of a worker to its last, the worker, and the share of that time in which
 * it computes nothing. */
typedef struct gp_play_span {
    int worker;
    double seconds, bubble;
} gp_play_span;
gp_play_span gp_play_longest(const gp_play *play);
/* Share of all workers' time, up to the end of the last instruction, in which they compute nothing. */
double gp_play_bubble(const gp_play *play);

#endif
