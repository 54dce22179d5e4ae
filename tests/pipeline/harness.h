/* Runs a small training end to end from a model's YAML text: graph, plan, workers, a few steps on made-up data. For
 * tests; cmocka asserts inside, so main thread only. */
#ifndef GP_TESTS_PIPELINE_HARNESS_H
#define GP_TESTS_PIPELINE_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/tree.h"
#include "model/graph.h"
#include "pipeline/run.h"
#include "plan/plan.h"
#include "size.h"

typedef struct harness_options {
    const char *model; /* YAML of the model: subtree */
    const int64_t *layers;
    int stages;
    gp_schedule schedule; /* GPipe's unless said */
    const int *replicas;  /* of each worker of the schedule; NULL: one */
    bool shard_optimizer;
    size_t bucket;
    const gp_device_kind *kind;
    gp_dtype real;
    gp_checkpoint_mode checkpoint;
    const gp_checkpoint_mode *checkpoints; /* of each stage in its place; NULL: none */
    uint64_t keeps;                        /* bit n % 64: the output of node n is kept for recomputing */
    bool lockstep;
    int micro_batches;
    int64_t batch, last;                /* samples of a full mini-batch; of the one that ends an epoch (0: none) */
    int64_t evaluation;                 /* 0: none */
    int threads;                        /* 0: 1 */
    int devices;                        /* that the workers are spread over; 0: 1 */
    const gp_device_kind *odd;          /* of every second worker; NULL: as the others */
    const gp_device_kind *const *kinds; /* [worker] in place of both; NULL: none */
    double clip_norm;                   /* 0: not clipped */
    bool norms;                         /* found though nothing is clipped */
    const gp_update *update;            /* NULL: SGD with momentum */
    bool unfused;                       /* each op by itself */
    bool unshared;                      /* buffers share no bytes */
    bool predict;                       /* evaluations keep what the loss is given */
    bool pin;                           /* workers have processors of their own */
    bool no_notes;                      /* queues write no progress notes */
    int processes, rank;                /* 0: one */
    const int *process;                 /* [worker] */
    gp_carrier carrier;
    const char *refused; /* the plan must be refused, by a sentence that begins so; NULL: it is made */
} harness_options;

typedef struct harness {
    gp_yaml_document *document;
    gp_graph *graph;
    gp_plan *plan;
    gp_run *run;
    int64_t input_elements, target_elements; /* of a sample */
    int64_t classes;                         /* 0: targets are numbers */
    void *input;                             /* of the larger mini-batch */
    void *target;
    harness_options options;
} harness;

/* Graph and plan. */
void harness_plan(harness *h, const harness_options *options);
/* How many ops of a kind a routine of all stages has, for the largest micro-batches; those that add to gradients where
 * others overwrite them count twice. */
int harness_ops(const harness *h, gp_routine_kind routine, gp_op_kind kind);
/* Workers, and parameters from seed 7. */
void harness_start(harness *h, const gp_hooks *hooks);
/* The same where it may fail; harness_end, or gp_run_destroy, in any case. */
gp_status harness_try_start(harness *h, const gp_hooks *hooks, gp_error *err);
/* The second half of a start: parameters from seed 7, into h->run. */
gp_status harness_fill(harness *h, gp_error *err);
/* Step `step` (from 1) on a mini-batch of `samples` made from the step's number. */
gp_status harness_step(harness *h, int64_t samples, bool training, uint32_t step, gp_step_result *result,
                       gp_error *err);
/* Its two halves: the mini-batch into h->input and h->target; a step on what is there. */
void harness_make_data(harness *h, int64_t samples, uint32_t step);
gp_status harness_run(harness *h, int64_t samples, bool training, uint32_t step, gp_step_result *result, gp_error *err);
/* The first half of a step, which gp_run_end ends. */
gp_status harness_begin(harness *h, int64_t samples, bool training, uint32_t step, gp_error *err);
/* Hash of all parameters, buffers and optimizer states. */
uint64_t harness_hash(harness *h);
void harness_end(harness *h);

/* `steps` steps, each third one on the smaller mini-batch, an evaluation at the end; the hash of parameters and losses.
 */
uint64_t harness_steps(harness *h, int steps);
/* The whole. */
uint64_t harness_train(const harness_options *options, const gp_hooks *hooks, int steps);

#endif
