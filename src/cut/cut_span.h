/* Cost and memory of consecutive layers as one stage, as it grows layer by layer. These are no sums over layers: a
 * value that enters counts once, and a value that is used up no longer leaves.
 *
 * An index is made once per problem, which it borrows; one thread per span. */
#ifndef GP_CUT_CUT_SPAN_H
#define GP_CUT_CUT_SPAN_H

#include "base/status.h"
#include "cut/cut_problem.h"

/* A use of a value by a layer. */
typedef struct gp_span_use {
    int value;
    int before; /* the layer that uses it before this one, else its producer */
} gp_span_use;

typedef struct gp_span_index {
    const gp_cut_problem *problem;
    int *use_begin; /* [layer + 1] in uses */
    gp_span_use *uses;
    int *made_begin;   /* [layer + 1] in made */
    int *made;         /* values by producer */
    int64_t *sums;     /* [kind][layers + 1] cost of the layers before */
    int64_t *crossing; /* [kind][layers + 1] what the values that a cut there divides cost to copy */
    int64_t *floor;    /* [layers + 1] the same with each layer on the kind on which it is cheapest */
} gp_span_index;

/* What layers cost and take on a kind of device. */
typedef struct gp_span_kind {
    int64_t copies;                  /* cost of values that enter */
    int64_t fixed, saved, transient; /* bytes */
} gp_span_kind;

/* Layers first … end − 1. */
typedef struct gp_span {
    int first, end;
    int64_t entering, leaving; /* bytes of values */
    int64_t gradients;         /* bytes of theirs that come and go */
    gp_span_kind *on;          /* [kind]; the caller's */
} gp_span;

/* GP_UNSUPPORTED where costs or bytes together exceed an int64. */
GP_MUST_USE gp_status gp_span_index_init(gp_span_index *index, const gp_cut_problem *problem, gp_error *err);
void gp_span_index_fini(gp_span_index *index);

/* An empty span before layer `first`; keeps span->on. */
void gp_span_begin(const gp_span_index *index, gp_span *span, int first);
/* Adds the layer behind the span's last one. */
void gp_span_extend(const gp_span_index *index, gp_span *span);

/* Costs of the layers before `layer`. */
static inline const int64_t *gp_span_sums(const gp_span_index *index, int kind) {
    return index->sums + (int64_t)kind * (index->problem->layer_count + 1);
}
static inline const int64_t *gp_span_crossing(const gp_span_index *index, int kind) {
    return index->crossing + (int64_t)kind * (index->problem->layer_count + 1);
}
int64_t gp_span_cost(const gp_span_index *index, const gp_span *span, int kind);
/* Bytes but the transients. */
int64_t gp_span_bytes(const gp_cut_problem *problem, const gp_span *span, int stage);
/* Bytes that no longer span has less of, on a kind of device with so many micro-batches alive. */
int64_t gp_span_floor(const gp_span *span, int kind, int alive);

/* What layers first … end − 1 cost and take as this stage; `span` becomes theirs. */
gp_cut_numbers gp_span_numbers(const gp_span_index *index, gp_span *span, int stage, int first, int end);

#endif
