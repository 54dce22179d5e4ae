/* A session: a configuration made ready to run. The graph, the data that it names, the partition and the plan.
 *
 * gp_session_open does everything that comes before a device does any work; --plan ends there. Owns all of it. One
 * thread.
 */
#ifndef GP_SESSION_SESSION_H
#define GP_SESSION_SESSION_H

#include <stdio.h>

#include "balance/balance.h"
#include "balance/device_order.h"
#include "base/status.h"
#include "data/loader.h"
#include "model/graph.h"
#include "plan/plan.h"
#include "profile/measure.h"
#include "schedule/schedule_file.h"
#include "session/host_memory.h"
#include "session/sharing.h"
#include "settings/config.h"
#include "settings/rate.h"

/* Where times come from, for `balance: auto` and expectations. */
typedef enum gp_profiling {
    GP_PROFILING_NONE,    /* counted operations and bytes */
    GP_PROFILING_FIND,    /* a profile that was kept and fits; touches no device */
    GP_PROFILING_MEASURE, /* the same, or else one that is measured now, where the balance is to be found by time */
} gp_profiling;

/* The other processes of a launch, which help process 0 before the run. */
typedef struct gp_helpers {
    /* Measures the links between them (profile/link_times.h). */
    gp_status (*measure)(void *context, gp_profile_link out[GP_LINK_KINDS], gp_error *err);
    /* *out[process]: the bus addresses of its GPUs; the helpers'. */
    gp_status (*addresses)(void *context, const gp_bus_addresses **out, gp_error *err);
    void *context;
    bool has[GP_LINK_KINDS]; /* kinds of links that the launch has */
} gp_helpers;

/* What the command line asks for beyond the configuration. */
typedef struct gp_session_options {
    /* Not NULL: this session predicts, in one process. It has these weights in place of train.init, no training, and
     * its data.eval needs no targets. Borrowed for the call. */
    const char *weights;
    int processes, rank; /* of a run with several; 0: this process alone, or what the ranks of the devices need */
    const int *machines; /* gp_processes_machines; NULL: not known. Borrowed while the session is open */
    /* Not NULL: this process follows another one, which knows how many samples of training and evaluation data there
     * are. It opens the data only if its stages need them. Borrowed while the session is open. */
    const int64_t *data_samples;
    bool norms;   /* each step finds the squares of its gradients; changes no result */
    bool resumes; /* the weights are a snapshot's: train.init is not looked at, and may be gone */
    int64_t step; /* the session begins with the configuration that holds in this step; 0: with the first one */
    gp_profiling profiling;
    /* This session looks for a balance, by time whatever the configuration says: data and weights are not looked at. */
    bool balances;
    bool orders; /* it looks for the order in which the devices should stand, too */
    bool tries;  /* one of many that are tried: if it does not fit, `unfit` says so, and no remedy is looked for */
    const char *profile; /* the profile's file; NULL: by `profiling`. Borrowed for the call, as is the next */
    struct gp_profile *
        *given; /* not NULL, and there is one: that is taken over; where opening fails it is given back */
    /* NULL: a profile that is measured has no links, and `shares` holds. Borrowed for the call. */
    const gp_helpers *helpers;
    bool shares;             /* a GPU belongs to workers of several processes */
    const char *profile_out; /* where a profile that is measured is written; NULL: where such are kept */
    bool again;              /* measured though one was kept */
    double seconds;          /* that measuring may take; 0: as long as the run is worth */
    /* What planning may take; NULL: what this machine leaves. Borrowed while the session is open. */
    const gp_machine_memory *machine;
    int processors;                /* that predictions share among the workers; 0: those this process may use */
    FILE *notice;                  /* gets progress of work that takes seconds (ticker.h); NULL: none */
    const gp_trace_options *trace; /* the timeline that is asked for; NULL: none. Borrowed while the session is open */
} gp_session_options;

struct gp_session {
    gp_config *whole;     /* the run's configuration with its changes; owned */
    gp_config *config;    /* the one that holds: `whole`, or that of one of its changes */
    int changes;          /* that hold */
    int64_t after, until; /* steps before these changes; the last step with them, INT64_MAX: no change follows */
    /* As it was opened with: what is borrowed for the call is gone. `processors` is known; programs of a schedule's
     * file decide `norms`. */
    gp_session_options options;
    gp_graph *graph;
    gp_sample_spec spec;
    gp_dataset *train, *eval;            /* NULL: none, or not needed */
    int64_t train_samples, eval_samples; /* of the data; 0: none, or not needed */
    gp_device_spec *devices;
    int *process;    /* [worker] the process that has it */
    gp_links *links; /* NULL: the configuration has none */
    gp_schedule schedule;
    gp_schedule_file *schedule_file; /* NULL: the schedule is none of a file */
    gp_update update;
    gp_profile *profile;      /* that times come from, or rates to count with; NULL: counted at assumed rates */
    char *profile_difference; /* what of a profile that was named does not fit; NULL, or "": all does */
    gp_measured measured;     /* rounds 0: the profile was not measured now */
    int *order;               /* [worker] the device, as configured, that stands there; NULL: as configured */
    bool moved;               /* that order is not the configured one */
    gp_device_order orders;   /* where order is not NULL: what finding it came to */
    gp_cut_rule *rules;       /* [layer] where a cut must be and may not be */
    bool *keeps;              /* [node] its output is kept although its stage recomputes */
    bool *own_keeps;          /* those that layers ask for themselves, and pipeline.checkpoint does not */
    int64_t *layers;          /* per stage: the balance as it runs */
    gp_plan *plan;
    gp_host_memory host;   /* of the run; not of a session that looks for a balance */
    gp_error unfit;        /* of a session that tries: why the plan does not fit; GP_OK: it does */
    int64_t epoch_steps;   /* mini-batches per epoch; 0: no training data */
    gp_epochs epochs;      /* count 0: no training data */
    int64_t steps;         /* of the whole run, if no change follows */
    gp_host_memory *later; /* of the later_count configurations that follow */
    int later_count;
};

/* The last step with this configuration. */
int64_t gp_session_last(const gp_session *session);
gp_run_length gp_session_length(const gp_session *session);
/* Goes on to the configuration of the next change. On failure the session keeps all but its data. */
GP_MUST_USE gp_status gp_session_change(gp_session *session, gp_error *err);

/* Takes the configuration, whatever happens: *config is NULL afterwards. `options` NULL: all zero. GP_CONFIG with a
 * place, also if the plan exceeds a given `memory`; GP_UNSUPPORTED if planning takes more memory than is left; GP_DATA
 * for data files and train.init. */
GP_MUST_USE gp_status gp_session_open(gp_config **config, const gp_session_options *options, gp_session **out,
                                      gp_error *err);
void gp_session_close(gp_session **session);
/* Samples of a full micro-batch. */
int64_t gp_session_piece(const gp_session *session);
/* Of these, the samples of the largest share that a replica has: profiles are of as many. */
int64_t gp_session_share(const gp_session *session);
/* The plan of another cut; `layers` per stage. The session outlives it. */
GP_MUST_USE gp_status gp_session_plan_cut(const gp_session *session, const int64_t *layers, gp_plan **out,
                                          gp_error *err);
/* The plan of the session's cut with a checkpoint mode for each stage, and outputs kept [node]. */
GP_MUST_USE gp_status gp_session_plan_policy(const gp_session *session, const gp_checkpoint_mode *modes,
                                             const bool *keeps, gp_plan **out, gp_error *err);
/* Which of the plan's mini-batches that is; GP_INTERNAL where it has none of that size. */
GP_MUST_USE gp_status gp_session_find_mini(const gp_session *session, bool training, int64_t samples, int *out,
                                           gp_error *err);
/* Just before the run begins: takes down what the program holds by itself. GP_MEMORY if the run's plan exceeds what
 * this machine leaves to the process: for those who run it, not for those who look at it. */
GP_MUST_USE gp_status gp_session_check_machine(gp_session *session, gp_error *err);

#endif
