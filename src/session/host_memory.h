/* The host's part of a plan: all that a run takes of this machine's memory, before it begins.
 *
 * A function of the configuration, of what the data files say of themselves, and of the plan. Arenas, mini-batches,
 * the shuffled order and the buffer of the largest parameter are reserved before the first step. Records and the copy
 * of the state are bounds: records grow with the steps, and the copy exists only while a snapshot is written or the
 * configuration changes. The copy for a snapshot at about a time (train.save_every: about 10 minutes) is not planned:
 * it is taken where there is room. What the program and its libraries hold without a run is measured once. A value
 * without pointers; one thread. */
#ifndef GP_SESSION_HOST_MEMORY_H
#define GP_SESSION_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/machine_memory.h"
#include "base/shape.h"
#include "base/status.h"
#include "data/loader.h"
#include "trace/trace_options.h"

typedef struct gp_session gp_session; /* session/session.h */

/* Kinds of the host's memory, as reports and metrics.jsonl name them. X(suffix, name, key) */
#define GP_HOST_MAP(X)                                                                                                 \
    X(ARENAS, "arenas of CPU workers", "arenas")                                                                       \
    X(TRAINING, "data, training", "training_data")                                                                     \
    X(EVALUATION, "data, evaluation", "evaluation_data")                                                               \
    X(ORDER, "data, shuffled order", "shuffled_order")                                                                 \
    X(READING, "data, samples while they are read", "reading")                                                         \
    X(SOURCES, "data, inflated files and tables", "sources")                                                           \
    X(STATE, "copy of the run's state", "state_copy")                                                                  \
    X(PREDICTION, "predictions of a mini-batch", "prediction")                                                         \
    X(PARAMETER, "largest parameter, for reading and writing", "parameter")                                            \
    X(RECORDS, "records for the report and timeline", "records")                                                       \
    X(RUN, "signals and events between workers", "signals")                                                            \
    X(STAGING, "buffers of messages between processes", "messages")                                                    \
    X(BOUND, "bound ops of workers, est.", "bound")                                                                    \
    X(PINNED, "pinned for GPUs, est.", "pinned")                                                                       \
    X(LIBRARIES, "kernels that libraries make, est.", "libraries")                                                     \
    X(HEADERS, "headers of files, est.", "headers")                                                                    \
    X(THREADS, "threads, est.", "threads")

typedef enum gp_host_kind {
#define GP_HOST_KIND(suffix, name, key) GP_HOST_##suffix,
    GP_HOST_MAP(GP_HOST_KIND)
#undef GP_HOST_KIND
        GP_HOST_KINDS
} gp_host_kind;

const char *gp_host_kind_name(gp_host_kind kind);
const char *gp_host_kind_key(gp_host_kind kind);

/* Sizes in bytes; SIZE_MAX: more than can be counted. */
typedef struct gp_host_memory {
    size_t bytes[GP_HOST_KINDS];
    size_t planned;                        /* their sum */
    size_t snapshot;                       /* not planned: the copy of the state for a snapshot, if there is room */
    size_t program;                        /* of the program and its libraries without a run; 0: not measured */
    size_t stacks;                         /* of address space that the threads to come take */
    int threads;                           /* to come */
    size_t neighbours;                     /* arenas of the run's other processes on this machine; not planned here */
    gp_loader_memory training, evaluation; /* slots 0: none */
} gp_host_memory;

/* The account of a run (report/account.h): bytes that it takes without its records, and step times that it keeps. */
enum { GP_ACCOUNT_BYTES = 256, GP_ACCOUNT_TIMES = 4096 };

/* The shape of one prediction. */
gp_shape gp_prediction_shape(const gp_session *session);
/* For a session that is planned. GP_MEMORY. `trace`: the timeline that is asked for; NULL: none. */
GP_MUST_USE gp_status gp_host_memory_plan(const gp_session *session, const gp_trace_options *trace, gp_host_memory *out,
                                          gp_error *err);
/* The sum for each process of the run, which process 0 can tell; the caller frees it. GP_MEMORY. */
GP_MUST_USE gp_status gp_host_memory_processes(const gp_session *session, const gp_trace_options *trace, size_t **out,
                                               gp_error *err);
/* Before the run begins: takes down what the program holds without it. From now on the process's peak is the run's. */
void gp_host_memory_measure(gp_host_memory *host);
/* Whether the copy for a snapshot has room beside all that the run has still to take of its plan, and beside other
 * programs, of the control group too. */
bool gp_host_memory_has_room(const gp_host_memory *host, const gp_machine_memory *machine);
/* GP_MEMORY if the run needs more than this machine, its control group or its address space leaves. */
GP_MUST_USE gp_status gp_host_memory_check(const gp_host_memory *host, const gp_machine_memory *machine, gp_error *err);

#endif
