/* The search for a plan: stages and their threads, schedule and checkpoint policy, each with its best cut, by the
 * expected step. Micro-batches and replicas, on which batch norm depends, stay as configured, or are searched too.
 *
 * Every candidate is the configuration with these keys in place of its own, opened as a run opens it, so that what is
 * found is what would run; it counts where its plan keeps within the devices' memory. Where not even the cut for
 * `never` does, the cut for `always` is tried with a mode for each stage too (search_stages.h). When the devices'
 * threads are more than the processors, the same is tried on fewer devices: the first ones, as many as have a processor
 * for each thread. Threads of CPU devices are also divided among other numbers of stages. The caller owns what is
 * found. One thread.
 */
#ifndef GP_TUNE_SEARCH_H
#define GP_TUNE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/machine_memory.h"
#include "base/status.h"
#include "profile/profile.h"
#include "session/session.h"
#include "settings/config.h"
#include "tune/search_devices.h"

/* Taking turns costs what no prediction knows: caches, and other programs' turns. It must gain more than this share. */
#define GP_SEARCH_GAIN 0.1

typedef struct gp_search_request {
    const char *config;           /* path */
    const char *const *overrides; /* of --set */
    int override_count;
    bool frees_micro_batches, frees_replicas; /* that the search may change */
    const char *frees;   /* how the command line says so, for commands that are printed; NULL: neither */
    const char *profile; /* that times come from; NULL: kept ones, or measured for each size of micro-batch */
    int processes;       /* of a launch with several; 0: those that ranks need, or that pipeline.links asks for */
    const int *machines; /* [process], as in a session's options. Borrowed, as is the next */
    const gp_helpers *helpers;
    double seconds;                   /* that measuring may take in all */
    bool again;                       /* measured though some were kept */
    int processors;                   /* that predictions share among the workers; 0: those this process may use */
    FILE *notice;                     /* gets progress (ticker.h); NULL: none. Borrowed */
    const gp_machine_memory *machine; /* what planning may take; NULL: what this machine leaves. Borrowed */
} gp_search_request;

/* A plan that fits. */
typedef struct gp_candidate {
    const gp_search_way *way; /* borrowed from the search */
    int micro_batches;
    const char *schedule; /* as pipeline.schedule says it */
    char *checkpoint;     /* as pipeline.checkpoint says it; owned */
    int stages, workers;  /* each stage once; each replica */
    int64_t *layers;      /* [stage]; owned */
    size_t *arena;        /* [worker] bytes; owned */
    size_t memory;        /* of the largest */
    double seconds;       /* of a step */
    int threads;          /* that compute on the processors */
    double bubble;        /* share of the workers' time in which they compute nothing */
    gp_norm_samples norm; /* of batch norm's statistics */
    bool equal;           /* to the fastest of those that may be recommended: the difference is within the spread */
} gp_candidate;

typedef struct gp_search {
    /* Those that fit, by seconds; of equal ones the one with less memory first. The first one is recommended: the
     * simplest of those whose step is as short as the shortest, within the spread (fewest stages, then fewest
     * micro-batches, then workers). When the shortest has threads that take turns, and the shortest of those without is
     * at most GP_SEARCH_GAIN longer, it is one without. Not ranked: by stages, micro-batches, workers.
     */
    gp_candidate *items;
    size_t count, capacity;
    int measured;                          /* profiles */
    int processors, threads;               /* that there are; that all the configured devices compute with */
    int few;                               /* devices of the plans on fewer devices; 0: none were tried */
    gp_search_ways ways;                   /* in which stages and replicas were placed */
    int64_t oldest;                        /* when the oldest profile was taken, in seconds since 1970; 0: not known */
    double slowdown;                       /* the greatest of all profiles */
    double spread;                         /* so too (gp_profile_spread) */
    bool disturbed;                        /* while one was measured, twice: then nothing is ranked */
    char disturbance[GP_DISTURBANCE_TEXT]; /* what shows it */
    int untimed;                      /* threads of a stage that were not tried: the named profile has no such times */
    int tried, too_large, refused;    /* refused: the model forbids it, as batch norm does with too few values,
                                         or planning it takes more memory than is left */
    char why[GP_ERROR_TEXT + 120];    /* the first that was too large or refused: which, and why; "": none */
    gp_config *config;                /* gp_search_load's, of the file and --set */
    const gp_search_request *request; /* borrowed as long as the search is looked at */
} gp_search;

/* The configuration without what is searched for, which may be of other devices; micro_batches excepted. */
GP_MUST_USE gp_status gp_search_load(const char *path, const char *const *overrides, int override_count,
                                     gp_config **out, gp_error *err);
/* GP_CONFIG where no candidate fits: why the first does not. The caller calls gp_search_fini in any case. */
GP_MUST_USE gp_status gp_search_run(const gp_search_request *request, gp_search *out, gp_error *err);
void gp_search_fini(gp_search *search);

/* For people: the fastest, and those that give up time for memory. */
GP_MUST_USE gp_status gp_search_report(const gp_search *search, FILE *out, gp_error *err);
/* All that fit as one JSON object; times in milliseconds. */
GP_MUST_USE gp_status gp_search_report_json(const gp_search *search, FILE *out, gp_error *err);
/* Puts the recommended plan into the configuration file, which is replaced once, and changes nothing else in it.
 * GP_DATA if plans are not ranked. */
GP_MUST_USE gp_status gp_search_write(const gp_search *search, const char *path, gp_error *err);

#endif
