/* A training by several processes for the tests of the CUDA device without a GPU. Each process is a thread. Messages go
 * over the loop wire (process/loop_wire.h) or over the recorder's lines. What fails in one process ends all. For one
 * test at a time; cmocka asserts inside, so main thread only, except team_hear. */
#ifndef GP_TESTS_CUDA_TEAM_H
#define GP_TESTS_CUDA_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cuda/recorder.h"
#include "pipeline/harness.h"

enum { TEAM_MAX_PROCESSES = 4, TEAM_MAX_WORKERS = 6, TEAM_GPUS = 6 };

/* A model of eight layers, with skips, whose input has 12 numbers. */
extern const char team_vectors[];

/* A training, and the processes of its workers. */
typedef struct team_setting {
    const char *model;
    int stages;
    int64_t layers[4];
    int replicas[4]; /* 0: one each */
    gp_schedule schedule;
    int processes;
    int process[TEAM_MAX_WORKERS]; /* [worker] */
    size_t bucket;                 /* bytes */
    bool shards;
} team_setting;

typedef struct team_options {
    const char *name;         /* for the messages of failed assertions */
    harness_options training; /* `process` and `processes` are used unless `alone`; each process gets its rank */
    int steps;                /* the second one on the smaller mini-batch, if there is one; an evaluation follows */
    bool alone;               /* one process has all workers */
    bool lines;               /* are planned, unless `alone`: asserted */
    bool silent;              /* processes other than 0 do not tell the others that they failed */
    uint64_t seed;            /* of the wire */
    uint32_t delay;           /* the most that a message waits on the wire [µs] */
    /* Before each instruction, with the harness of its process, in the worker's thread. Calls team_hear, or fails.
     * NULL: team_hear. */
    gp_status (*before)(void *h, const gp_site *site, gp_error *err);
} team_options;

typedef struct team_outcome {
    gp_error err;           /* of the process that failed first; its status is GP_OK if none did */
    uint64_t hash;          /* of the parameters and the loss after each step */
    const char *sentence;   /* recorder_end's */
    int aborted;            /* lines */
    recorder_counts counts; /* of all processes */
} team_outcome;

/* Options with TEAM_GPUS, norms and a limit of norms. The sizes of batches, the steps and what devices the workers have
 * are left to the caller. Borrows from *its. */
team_options team_options_of(const team_setting *its, gp_checkpoint_mode mode, bool lockstep);
/* Tells the recorder which events the thread has waited for before this instruction: only those of its own process,
 * since a thread sees nothing of the others. `h`: the harness of the process. Worker's thread only. */
gp_status team_hear(void *h, const gp_site *site, gp_error *err);
/* Plans, trains and ends, under a recorder with these options. Each run must hold as many bytes of staging as its plan
 * says. */
void team_run(const team_options *options, const recorder_options *recorder, team_outcome *out);
/* The same with a recorder that lets no call fail and leaves out no wait; returns the hash. Asserts that nothing failed
 * and that no line was aborted. `counts` may be NULL. */
uint64_t team_bits(const team_options *options, recorder_policy policy, uint64_t seed, recorder_counts *counts);
/* Runs the training once for every `stride`th call of the CUDA table, and lets that call fail. Asserts that the error
 * of a run that fails is of that call and names a worker, and that more than an eighth of the runs fail. Prints how
 * many do. */
void team_fail_calls(const team_options *options, long stride);

#endif
