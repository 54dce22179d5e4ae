/* What the files of a run share: the run itself, its workers, their mail and the command they carry out.
 *
 * The run owns all of it. Each field says who writes it; what both sides use lies behind a signal. Functions here are
 * for the worker's own thread. */
#ifndef GP_PIPELINE_RUN_INTERNAL_H
#define GP_PIPELINE_RUN_INTERNAL_H

#include <pthread.h>

#include "base/sync.h"
#include "pipeline/diagnose.h"
#include "pipeline/run.h"

typedef enum gp_command_kind {
    GP_COMMAND_NONE,
    GP_COMMAND_STEP,
    GP_COMMAND_READ,
    GP_COMMAND_WRITE,
    GP_COMMAND_REFRESH,
    GP_COMMAND_QUIT
} gp_command_kind;

/* What the workers are to do; written by the trainer before it raises `posted`, read by the workers after. */
typedef struct gp_command {
    gp_command_kind kind;
    int worker; /* STEP, READ, WRITE: whose turn it is; others skip */
    int mini;
    /* STEP: it is begun, ended, or both; begun behind one that is under way, ended before one. */
    bool begins, ends, behind, before;
    const gp_step_input *input; /* of what is begun */
    size_t offset, bytes;       /* in the arena; STEP: what is read when the step is done */
    void *host;
    const gp_param_plan *param; /* READ, WRITE: whose tensor it is; NULL: no parameter's */
} gp_command;

/* One edge and micro-batch: what was sent, where it lies, and that it was pulled. A signal tells the other worker's
 * thread that the event was recorded (signals count commands); the event makes its stream wait for the work itself. */
typedef struct gp_mail {
    gp_signal sent, pulled;
    gp_event *sent_event;   /* of the sender's device */
    gp_event *pulled_event; /* of the receiver's */
    const void *address;    /* written before `sent` is raised, read after */
} gp_mail;

typedef struct gp_spans gp_spans; /* pipeline/spans.h */

typedef struct gp_worker {
    gp_run *run;
    int index;
    pthread_t thread;
    bool started;
    gp_signal done; /* commands carried out */
    gp_device *device;
    gp_stream *queue[GP_QUEUES];
    gp_event **marks; /* as many as a program has */
    int mark_count;
    gp_spans *spans; /* NULL until somebody traces */
    char *arena;
    uint64_t command; /* that it is carrying out */
    size_t barriers;  /* of its program that it has passed */
    uint32_t note;    /* the last of its program that it has enqueued (pipeline/places.h) */
    bool named;       /* a profiler may want the names of instructions */
} gp_worker;

struct gp_run {
    const gp_plan *plan;
    gp_hooks hooks;
    gp_recorder *recorder; /* NULL: none; written by the trainer between commands */
    gp_watch *watches;     /* [worker]; NULL: nobody looks at values; written by the trainer between commands */
    gp_cancel cancel;
    gp_barrier barrier;
    gp_signal posted; /* number of the last command */
    gp_command command;
    uint64_t commands;         /* posted so far; trainer only, as what follows */
    int under_way;             /* steps: 0 … 2 */
    int mini;                  /* theirs */
    int turn;                  /* of the one that was begun last */
    gp_step_scalars report[2]; /* [turn] what it comes to */
    gp_worker *workers;
    gp_mail *mail; /* [edge·max_pieces + micro] */
    int max_pieces;
};

/* The mail of an edge and micro-batch. */
static inline gp_mail *gp_run_mail(gp_run *run, uint32_t edge, uint16_t micro) {
    return &run->mail[(size_t)edge * (size_t)run->max_pieces + micro];
}

/* Events that mark places of the worker's queues, in the mini-batch that has most of them. */
int gp_run_marks(const gp_plan *plan, int worker);
/* Worker's thread: enqueues the program of a mini-batch, or waits until it is carried out, or both. */
GP_MUST_USE gp_status gp_worker_step(gp_worker *worker, gp_error *err);
/* Worker's thread: enqueues a WRITE (`in`) or READ. A parameter is in PyTorch's order on the host. */
GP_MUST_USE gp_status gp_worker_copy(gp_worker *worker, const gp_command *command, bool in, gp_error *err);
/* Worker's thread: runs a routine with these slots. */
GP_MUST_USE gp_status gp_worker_routine(gp_worker *worker, const gp_stage_plan *stage, const gp_routine *routine,
                                        const gp_instr *instr, int64_t first_sample, gp_error *err);

#endif
