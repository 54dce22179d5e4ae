/* The plan of a run: everything that is known before a device does any work.
 *
 * From a graph, a partition and the devices: stages and copies, a program for each size of mini-batch that the run will
 * meet, each stage's routines and addresses, and one arena per worker, to the byte. Making it touches no device and
 * starts no thread. The plan borrows the graph and owns the rest; read-only once it is made, any thread.
 */
#ifndef GP_PLAN_PLAN_H
#define GP_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/machine_memory.h"
#include "base/status.h"
#include "checkpoint/policy.h"
#include "compile/stage_plan.h"
#include "plan/early_posts.h"
#include "plan/queues.h"
#include "schedule/links.h"
#include "schedule/program.h"
#include "schedule/schedules.h"
#include "base/share.h"
#include "schedule/waits.h"

/* A size of mini-batch that the run meets. */
typedef struct gp_mini_size {
    int64_t samples; /* ≥ 1 */
    bool training;   /* else evaluation */
} gp_mini_size;

/* What carries messages between GPUs of different processes: lines (plan/lines.h), or the wire, through buffers of the
 * host (plan/staging.h). AUTO: lines, if they are possible. */
typedef enum gp_carrier { GP_CARRIER_AUTO, GP_CARRIER_WIRE, GP_CARRIER_LINES } gp_carrier;

typedef struct gp_plan_request {
    const gp_graph *graph;
    const int64_t *layers; /* per stage */
    int stages;
    const int *replicas;           /* of each worker of the schedule, and so of its stages; NULL: one */
    gp_place replicas_place;       /* that a refusal of them names, if there is one */
    const gp_device_spec *devices; /* one per worker: each replica counts */
    const int *process;            /* [worker] the process that has it; NULL: all are in one */
    int processes, rank;           /* how many there are, and which one makes this plan; 0: one */
    gp_carrier carrier;            /* changes no result */
    const gp_links *links;         /* between workers; NULL: all workers are in one process, and no link is given */
    gp_update update;
    double clip_norm;     /* > 0: gradients are clipped to this norm of them all (torch.nn.utils.clip_grad_norm_);
                             a step whose norm is not finite changes nothing */
    bool shard_optimizer; /* replicas of a stage share out its optimizer state, and the updates; changes no result */
    size_t bucket; /* bytes of gradients that replicas exchange at a time, about; 0: as the program has it. Changes no
                      result (for tests) */
    bool norms;    /* the norm is found also where nothing is clipped; changes no result */
    bool predict;  /* evaluations keep what the loss is given, for gp_run_prediction */
    bool unfused;  /* each op by itself where the device could do several as one; changes no bit (for tests) */
    bool unshared; /* no two buffers of a routine are packed over one another; changes no bit (for tests) */
    int64_t batch; /* samples of a full mini-batch */
    int micro_batches;
    gp_schedule schedule;                  /* says how many workers the stages are on */
    gp_checkpoint_mode checkpoint;         /* of every stage */
    const gp_checkpoint_mode *checkpoints; /* [stage]; not NULL: of each in place of that; replicas have one */
    const bool *keeps; /* [node] its output is kept from each forward to backward, where its stage recomputes at all, so
                          that what is only needed for it is not computed again; NULL: none. Changes no result */
    bool lockstep;
    const gp_mini_size *sizes; /* duplicates are planned once */
    int size_count;
    int processors; /* see gp_plan */
    bool pin;       /* likewise */
    /* A plan that takes more of it than is left is refused before it is made; NULL: none is. Borrowed for the call. */
    const gp_machine_memory *host_memory;
} gp_plan_request;

/* One size of mini-batch: how it is cut, who does what when. A mini-batch of n is cut into pieces of ⌈n/m⌉, the last
 * one smaller (torch.chunk). */
typedef struct gp_mini_plan {
    bool training;
    int64_t samples;
    int pieces;
    int64_t piece, last;         /* samples of every micro-batch but the last; of the last */
    int piece_sized, last_sized; /* indices in gp_stage_plan.sized */
    gp_programs *programs;
    gp_waits *waits;
    gp_waits *meets;        /* what each barrier waits for (plan/meets.h); NULL: there all workers meet, or are none */
    gp_worker_posts *early; /* [worker] what its backwards post; NULL: it does not train */
    gp_waits *behind;       /* where it begins behind another of its size; NULL: it never does */
    gp_program_queues *queues; /* NULL: all devices are the host, and do at once what they are given */
    gp_routine *total, *step;  /* [stage] */
    gp_routine **reduce;       /* [stage][bucket]; NULL: the stage has no replicas, or it does not train */
} gp_mini_plan;

typedef struct gp_plan {
    const gp_graph *graph;
    gp_types types; /* the graph's */
    gp_update update;
    double clip_norm;
    int micro_batches;
    gp_schedule schedule;
    gp_checkpoint_mode *checkpoints; /* [number of the stage]; programs of a file go by their own */
    bool lockstep;                   /* so too */
    gp_stages *stages;               /* ->norms: the norm of the gradients is found */
    gp_op_cache *cache;
    gp_stage_plan *stage; /* [stage] */
    int workers;
    gp_device_spec *devices; /* [worker] */
    int *process;            /* [worker] the process that has it, from 0 */
    int processes, rank;     /* how many there are, and which one this is */
    bool lines; /* lines carry messages between GPUs of different processes; else the wire does. So too if it is a plan
                   for other machines (gp_plan_processes) */
    gp_links *links;         /* NULL: as in the request */
    size_t *arena;           /* [worker] bytes */
    size_t *transient_base;  /* [worker] from the arena's start */
    size_t *evaluation_base; /* likewise: transients of evaluations, which go on over the transient area */
    size_t *bound;           /* [worker] bytes of the host's memory that bound ops take, about (plan/bound.h) */
    gp_mini_plan *minis;
    int mini_count;
    int processors; /* that all threads of the workers on the host share, for predictions. 0: one for each thread */
    bool pin;       /* each worker on the host has processors of its own, if there are enough; changes no result */
} gp_plan;

/* The first worker that is a replica of a worker of the schedule. */
int gp_plan_request_worker(const gp_plan_request *request, int of_schedule);

/* GP_CONFIG with a place for what a layer refuses; without one for a partition that does not fit the graph.
 * GP_UNSUPPORTED with the numbers for a plan that takes more than `host_memory` leaves. */
GP_MUST_USE gp_status gp_plan_create(const gp_plan_request *request, gp_plan **out, gp_error *err);
void gp_plan_destroy(gp_plan **plan);

/* Index of the mini-batch plan; −1 where the size is not planned. */
int gp_plan_find(const gp_plan *plan, bool training, int64_t samples);
/* The mini-batch that reports are about, index in plan->minis: the largest that trains, else the largest. */
int gp_plan_largest_mini(const gp_plan *plan);
/* Over how many samples batch norms that train take their statistics in that mini-batch: shares of micro-batches, with
 * `sync` those of a group of replicas. */
typedef struct gp_norm_samples {
    int64_t least, most; /* 0: no batch norm trains */
    int64_t joined;      /* the least, if all replicas synchronised */
} gp_norm_samples;
gp_norm_samples gp_plan_norm_samples(const gp_plan *plan);
/* Whether a worker, or the worker of a stage, is in another process than the one that made the plan. */
static inline bool gp_plan_worker_is_far(const gp_plan *plan, int worker) {
    return plan->process[worker] != plan->rank;
}
static inline bool gp_plan_stage_is_far(const gp_plan *plan, int stage) {
    return gp_plan_worker_is_far(plan, plan->stage[stage].worker);
}
/* How many processes the workers are in, and which one has a worker: in the run, or, of a plan for other machines, as
 * its links say. */
int gp_plan_processes(const gp_plan *plan);
int gp_plan_process_of(const gp_plan *plan, int worker);
/* Threads that compute at the same time on the host's processors: those of all workers on the host. */
int gp_plan_threads(const gp_plan *plan);
/* The same of the host that has most of them, if there are links: the threads that share plan->processors. */
int gp_plan_host_threads(const gp_plan *plan);
/* Whether these are more than plan->processors, so that they take turns. */
bool gp_plan_shares(const gp_plan *plan);
/* Whether some device goes on with what it was given when the call has returned. */
bool gp_plan_works_on(const gp_plan *plan);
/* Whether copies may run beside computations, so that queues order them. */
bool gp_plan_has_queues(const gp_plan *plan);
/* Whether a mini-batch that trains has programs of a file, as they stand. */
bool gp_plan_has_programs(const gp_plan *plan);
/* Whether copies and computations keep apart by barriers, in programs of a file too. */
bool gp_plan_has_barriers(const gp_plan *plan);
enum { GP_PLAN_CHECKPOINT_TEXT = GP_CHECKPOINT_TEXT + 60 };
/* "except_last", "[always, never]", "as the file says"; buffer is returned. */
const char *gp_plan_checkpoint_text(char buffer[GP_PLAN_CHECKPOINT_TEXT], const gp_plan *plan);
static inline gp_pieces gp_mini_pieces(const gp_mini_plan *mini) {
    return (gp_pieces){mini->pieces, mini->piece, mini->last};
}
/* Samples of micro-batch `micro`. */
int64_t gp_mini_samples(const gp_mini_plan *mini, int micro);
/* A stage's share of it, from the beginning of the mini-batch on; it may be empty. */
gp_share gp_mini_share(const gp_mini_plan *mini, const gp_stage *stage, int micro);
/* The frames and routines that an instruction of a stage uses. */
const gp_sized *gp_mini_sized(const gp_mini_plan *mini, const gp_stage_plan *stage, int micro);

/* Address of an operand for an instruction: bytes from its worker's arena. `slots` has the slot per frame. */
typedef struct gp_slot_choice {
    uint16_t slot[GP_FRAMES];
} gp_slot_choice;
gp_slot_choice gp_instr_slots(const gp_stages *stages, const gp_instr *instr);
size_t gp_plan_offset(const gp_plan *plan, const gp_stage_plan *stage, const gp_slot_choice *slots, int micro,
                      gp_address address);
/* Whether a step of that mini-batch may be begun behind one that is under way. */
bool gp_plan_overlaps(const gp_plan *plan, int mini);
/* Makes mini->queues, of programs, waits (both) and stages that are made; `memory` as there. */
GP_MUST_USE gp_status gp_mini_queues(const gp_plan *plan, gp_mini_plan *mini, size_t memory, gp_error *err);
/* The routine of F, R, B, I, W; false: another instruction. */
bool gp_instr_routine_kind(bool training, const gp_instr *instr, gp_routine_kind *kind);
/* The ops of its routines that an instruction skips. */
static inline gp_when gp_instr_skips(const gp_instr *instr) {
    return instr->flags & GP_INSTR_FIRST ? GP_WHEN_REST : GP_WHEN_FIRST;
}
/* The routine of F, R, B, norm, clip; NULL for other instructions. */
const gp_routine *gp_instr_routine(const gp_mini_plan *mini, const gp_stage_plan *stage, const gp_instr *instr);
/* The routines that an instruction runs, in order; how many: 0 to 2. An F that is the mini-batch's last on its stage
 * has the loss's total for its second. */
enum { GP_INSTR_ROUTINES = 2 };
int gp_instr_routines(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr,
                      const gp_routine *out[GP_INSTR_ROUTINES]);
/* A range of its stage's memory that an instruction copies into, or says that others may read. */
typedef struct gp_move {
    int from;             /* the stage that has made the data; −1: the host */
    int value;            /* −1: a part of a collective */
    size_t offset, bytes; /* in the arena of the instruction's worker */
    size_t source;        /* of a collect: where it is copied from, in the arena of the contributor's worker */
    int64_t first;        /* of a load: the first sample, in the mini-batch */
} gp_move;
/* The ranges of a load, send, receive, post or collect, one after another. Moves of a stage without parameters have 0
 * bytes. */
typedef struct gp_moves {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    const gp_instr *instr;
    size_t contributor; /* to a collective */
    int next, ranges;   /* ranges: that it has; −1: not yet counted. next: of these; else of the instruction's */
} gp_moves;
static inline gp_moves gp_moves_of(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    return (gp_moves){plan, mini, instr, 0, 0, -1};
}
/* False: the instruction has no more. */
bool gp_moves_next(gp_moves *moves, gp_move *out);
/* The i-th of them, from 0. */
bool gp_instr_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int i, gp_move *out);
/* The i-th range, from 0, that a stage copies in an exchange: from each of the other replicas, in order. False: there
 * are no more. */
bool gp_exchange_move(const gp_plan *plan, const gp_stage_plan *stage, const gp_exchange *exchange, int micro, int i,
                      gp_move *out);
/* Where the stage's own part lies. */
size_t gp_exchange_own(const gp_plan *plan, const gp_stage_plan *stage, const gp_exchange *exchange, int micro);
/* Bytes of all its ranges. */
size_t gp_instr_bytes(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr);

#endif
