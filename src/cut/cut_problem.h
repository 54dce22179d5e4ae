/* What is cut: layers with costs and bytes, the values that they exchange, and the workers of the stages. Plain
 * numbers.
 *
 * A stage costs what its layers cost on its device, and the copies of values that it uses and does not make: each value
 * once, however many of the layers use it, and its gradient's way back too. Costs are integers (picoseconds, or bytes):
 * no sum depends on its order, and ties are ties.
 *
 * A problem and all that it points to belong to the caller. Read-only; any thread. */
#ifndef GP_CUT_CUT_PROBLEM_H
#define GP_CUT_CUT_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value that layers use. */
typedef struct gp_cut_value {
    int producer;      /* layer; −1: none, it is loaded wherever it is used */
    const int *users;  /* layers, ascending, each once, behind the producer */
    int user_count;    /* ≥ 1 */
    int64_t bytes;     /* of one micro-batch, in proportion fewer on a stage with fewer samples; where nothing has a
                          memory limit, not looked at */
    int64_t gradients; /* bytes of its gradient; 0: no layer needs it */
} gp_cut_value;

/* Bytes of a layer. */
typedef struct gp_cut_bytes {
    int64_t fixed;     /* parameters, gradients, optimizer state: whatever outlives the step */
    int64_t saved;     /* per micro-batch, from its forward (or recompute) to its backward */
    int64_t transient; /* while one of its passes runs */
} gp_cut_bytes;

/* What a kind of device makes of layers and values. */
typedef struct gp_cut_kind {
    const int64_t *layers; /* [layer] cost, ≥ 0 */
    const int64_t *copies; /* [value] cost of having it on a stage that uses it and does not make it, ≥ 0; NULL: none */
    const gp_cut_bytes *bytes; /* [layer], of as many samples as its stages have; NULL in all kinds: memory is not
                                  looked at */
} gp_cut_kind;

typedef struct gp_cut_worker {
    int kind;
    int64_t memory; /* bytes that its stages may take together; 0: no limit */
    char name[48];  /* for messages */
} gp_cut_worker;

/* A stage's worker, and how many micro-batches it has alive at once under its schedule and checkpoint mode. */
typedef struct gp_cut_stage {
    int worker;
    int stash;       /* of what enters it */
    int saved;       /* of what its layers keep for backward */
    int outbox;      /* of what it gives to later stages, beside what is saved */
    int gradient;    /* of gradients that come and go */
    int64_t samples; /* that the stage has of a micro-batch, ≤ the problem's; 0: all of them */
} gp_cut_stage;

/* What may be between a layer and the one before it. */
typedef enum gp_cut_rule { GP_CUT_FREE, GP_CUT_MUST, GP_CUT_NEVER } gp_cut_rule;

typedef struct gp_cut_problem {
    int layer_count;
    const char *const *layer_names; /* [layer], for messages; NULL: by index */
    int64_t samples;                /* that values are of; 0: no stage has fewer */
    const gp_cut_rule *rules;       /* [layer], the first one's has no meaning; NULL: all free */
    const gp_cut_value *values;
    int value_count;
    const gp_cut_kind *kinds;
    int kind_count;
    const gp_cut_worker *workers;
    int worker_count;
    const gp_cut_stage *stages;
    int stage_count;
    const int *stage_kinds; /* [stage] what its worker is for it, where that depends on the stage; NULL: the worker's */
} gp_cut_problem;

static inline int gp_cut_kind_of(const gp_cut_problem *problem, int stage) {
    return problem->stage_kinds ? problem->stage_kinds[stage] : problem->workers[problem->stages[stage].worker].kind;
}

static inline bool gp_cut_looks_at_memory(const gp_cut_problem *problem) {
    return problem->kinds[0].bytes != NULL;
}

/* Whether some worker has several stages. */
static inline bool gp_cut_shares_workers(const gp_cut_problem *problem) {
    return problem->stage_count > problem->worker_count;
}

/* Of a layer; free at both ends. */
static inline gp_cut_rule gp_cut_rule_at(const gp_cut_problem *problem, int layer) {
    bool inside = layer > 0 && layer < problem->layer_count;
    return inside && problem->rules ? problem->rules[layer] : GP_CUT_FREE;
}

/* What a stage of a cut costs and takes. */
typedef struct gp_cut_numbers {
    int64_t cost;
    int64_t bytes;     /* all but transients */
    int64_t transient; /* the most of its layers' */
} gp_cut_numbers;

#endif
