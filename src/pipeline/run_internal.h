/* What the files of a run share: the run itself, its workers, their channels and the command they carry out.
 *
 * The run owns all of it. Each field says who writes it; what both sides use lies behind a signal. Functions here are
 * for the worker's own thread. */
#ifndef GP_PIPELINE_RUN_INTERNAL_H
#define GP_PIPELINE_RUN_INTERNAL_H

#include <pthread.h>
#include <sched.h>

#include "base/sync.h"
#include "pipeline/diagnose.h"
#include "pipeline/pulse.h"
#include "pipeline/run.h"
#include "process/wire.h"
#include "plan/bound.h"
#include "plan/copy_order.h"

typedef enum gp_command_kind {
    GP_COMMAND_NONE,
    GP_COMMAND_STEP,
    GP_COMMAND_READ,
    GP_COMMAND_WRITE,
    GP_COMMAND_REFRESH,
    GP_COMMAND_QUIT
} gp_command_kind;

/* A range of a worker's arena, and the host memory that it is copied to or from. */
typedef struct gp_block {
    int worker;
    size_t offset, bytes; /* in PyTorch's order */
    void *host;
    const gp_param_plan *param; /* whose tensor it is; NULL: no parameter's */
} gp_block;

/* A command to some or all workers. The trainer writes it before it raises `posted` of these workers, and writes the
 * next one when they are done. */
typedef struct gp_command {
    gp_command_kind kind;
    const gp_block *blocks; /* READ, WRITE: of all workers, each takes its own; STEP: one, read after the step */
    size_t block_count;
    int mini;
    /* STEP: it is begun, ended, or both; begun behind one that is under way, ended before one. */
    bool begins, ends, behind, before;
    const gp_step_input *input; /* of what is begun */
} gp_command;

/* Events of the copies from one slot of the sender; NULL: that end's device does at once what it is given. */
typedef struct gp_copy_events {
    gp_event *sent;   /* of the sender's device */
    gp_event *pulled; /* of the receiver's */
} gp_copy_events;

/* A copy in flight; the sender writes it before it raises `sent`. */
typedef struct gp_copy {
    const void *address;
    gp_copy_events *events;
} gp_copy;

/* The path of an edge. A signal tells the other worker's thread how many copies of a step were sent, or received; the
 * event makes its stream wait for the work itself. */
typedef struct gp_channel {
    gp_signal sent, pulled; /* command << 16 | copies in it so far */
    gp_copy *copies;        /* [number of the copy % in_flight] */
    gp_copy_events *events; /* [slot that was sent from] */
    size_t in_flight, slots;
} gp_channel;

/* A member's part in a collective. The signal says in which command it has posted or collected last: twice the
 * command's number, and one more if it has collected. The events say when the work was over. Addresses are the plan's.
 */
typedef struct gp_joining {
    gp_signal joined;
    gp_event *posted, *collected; /* of the member's device; NULL: it does at once what it is given */
    int stage;
} gp_joining;

/* A stage in the exchanges of its group. They are numbered as the group's first replica has them, which has samples of
 * all micro-batches of which another one has some. The signal says which the stage has posted its part for; of events
 * there are two, so that one can be recorded while the last is still waited for. */
typedef struct gp_meeting {
    gp_signal posted;    /* command << GP_MEETING_BITS | number in the step, from 1 */
    gp_event *events[2]; /* [number % 2]; of the stage's device; NULL: it does at once what it is given */
    /* The pass that the stage computes, and where the first replica's program has it. Its worker's thread only. */
    uint64_t command;
    uint64_t before, after; /* exchanges of the step before the pass, and with it */
    size_t pc;              /* behind it */
} gp_meeting;

enum { GP_MEETING_BITS = 28 };

typedef struct gp_spans gp_spans;         /* pipeline/spans.h */
typedef struct gp_far gp_far;             /* pipeline/far.h */
typedef struct gp_far_lines gp_far_lines; /* pipeline/far_lines.h */
typedef struct gp_team gp_team;           /* pipeline/team.h */

typedef struct gp_worker {
    gp_run *run;
    int index;
    pthread_t thread;
    bool started;
    gp_signal posted; /* number of its last command; the trainer raises it */
    gp_signal done;   /* number of the last command that it carried out, + 1 */
    atomic_bool left; /* its thread is at its end, and carries out no more of them */
    gp_device *device;
    gp_stream *queue[GP_QUEUES];
    gp_event **marks; /* as many as a program has */
    int mark_count;
    gp_spans *spans; /* NULL: no trace is written yet */
    char *arena;
    gp_bindings bindings;
    uint64_t command; /* number of its last command; the trainer writes it before it raises `posted` */
    size_t barriers;  /* of its program that it has passed */
    size_t sums;      /* of the step's early ones (plan/early_posts.h) that it has found within a backward */
    gp_pulse pulse;   /* of instructions but barriers, which are waits */
    uint32_t note;    /* the last of its program that it has enqueued (pipeline/places.h) */
    bool named;       /* a profiler may want the names of instructions */
} gp_worker;

struct gp_run {
    const gp_plan *plan;
    gp_wire *wire;       /* to the other processes; NULL: the run is alone */
    gp_far *far;         /* edges and collectives that lead there, of workers on the host */
    gp_far_lines *lines; /* those of workers on GPUs */
    gp_team *team;       /* calls between the processes (pipeline/team.h); NULL: the run is alone */
    gp_hooks hooks;
    bool notes;            /* see gp_run_note; written by the trainer between commands */
    gp_recorder *recorder; /* NULL: none; written by the trainer between commands */
    gp_finding *watches;   /* [worker] the first that it saw; NULL: no worker looks at values. Written as recorder */
    gp_cancel cancel;
    gp_barrier barrier;
    gp_command command;
    uint64_t commands;         /* posted so far; trainer only, as what follows */
    uint64_t wakes;            /* of workers, by all commands */
    int under_way;             /* steps: 0 … 2 */
    int mini;                  /* theirs */
    int turn;                  /* of the one that was begun last */
    gp_step_scalars report[2]; /* [turn] what it comes to */
    gp_worker *workers;
    cpu_set_t *processors; /* [worker] that its threads run on, and no other worker's; NULL: workers are not pinned */
    uint32_t spin;         /* microseconds: gp_wait_spin of the workers and of their devices' threads */
    gp_copy_orders *orders;
    gp_channel *channels; /* [edge] */
    gp_joining *joinings; /* [gp_stages_place] */
    size_t joining_count;
    gp_meeting *meetings; /* [stage] */
};

/* Whether a worker is one of another process. Such a worker has no thread, device and arena here. */
static inline bool gp_run_is_far(const gp_run *run, int worker) {
    return run->wire && gp_plan_worker_is_far(run->plan, worker);
}
/* The kind of the worker's device. */
static inline const gp_device_kind *gp_worker_kind(const gp_worker *worker) {
    return worker->run->plan->devices[worker->index].kind;
}
/* Worker's thread: enqueues the program of a mini-batch, or waits until it is carried out, or both. */
GP_MUST_USE gp_status gp_worker_step(gp_worker *worker, gp_error *err);
/* Worker's thread: enqueues the copy of a block, if it is this worker's. A parameter is in PyTorch's order on the host.
 */
GP_MUST_USE gp_status gp_worker_copy_block(gp_worker *worker, const gp_block *block, bool in, gp_error *err);
/* Trainer's thread: writes zeros to all parameters and states. */
GP_MUST_USE gp_status gp_run_clear(gp_run *run, gp_error *err);
/* Trainer's thread: gives a command to its workers, and waits until they have carried it out. */
GP_MUST_USE gp_status gp_run_post(gp_run *run, const gp_command *command, gp_error *err);
/* Ends the threads of all workers. */
void gp_run_join(gp_run *run);
/* The two halves of gp_run_post. */
void gp_run_give(gp_run *run, const gp_command *command);
GP_MUST_USE gp_status gp_run_wait(gp_run *run, gp_error *err);
/* Worker's thread: runs a routine with these slots. A backward posts the buckets that it completes, and adds up those
 * that have arrived. `mini`: whose
 * instruction it is; NULL: of no program. */
GP_MUST_USE gp_status gp_worker_routine(gp_worker *worker, const gp_stage_plan *stage, const gp_routine *routine,
                                        const gp_mini_plan *mini, const gp_instr *instr, int64_t first_sample,
                                        gp_error *err);

#endif
