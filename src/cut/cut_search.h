/* Which cuts there are under a bound: for every place between layers the stages that can begin there so that they and
 * all later ones keep within it. With the solver's parts that come after a search.
 *
 * Owned by the solver that makes it; borrows the index. One thread. */
#ifndef GP_CUT_CUT_SEARCH_H
#define GP_CUT_CUT_SEARCH_H

#include "cut/cut_span.h"

typedef struct gp_cut_search {
    const gp_span_index *index;
    int words;     /* of 64 stages each */
    uint64_t *can; /* [layers + 1][words] bit s: stages s … cover the layers from here on; the end: their number */
    int *least,
        *most;       /* [layers + 1] the stages that could begin here as far as sums of costs say; least > most: none */
    int class_count; /* of stages that are alike in all that a span's cost and bytes depend on */
    int *class_of;   /* [stage] */
    int *of_class;   /* [class] its first stage */
    uint64_t *members;   /* [class][words] */
    int least_alive;     /* saved ones, of all stages */
    int64_t most_memory; /* of all workers; INT64_MAX: one has no limit */
    bool free;           /* rules are not looked at */
    int64_t more;        /* bytes that every limit is raised by */
    gp_span span;
} gp_cut_search;

GP_MUST_USE gp_status gp_cut_search_init(gp_cut_search *search, const gp_span_index *index, gp_error *err);
void gp_cut_search_fini(gp_cut_search *search);

/* What of a search that failed would have to be larger for it to find more: the least cost above the bound, the least
 * bytes that a limit would have to grow by. INT64_MAX: nothing. */
typedef struct gp_cut_short {
    int64_t cost, bytes;
} gp_cut_short;

/* Fills `can` for stages that cost at most `bound` each; true where all stages together cover the layers. */
bool gp_cut_search_run(gp_cut_search *search, int64_t bound, gp_cut_short *missing);
/* After a run that said true: the cut that gp_cut_solve documents. */
void gp_cut_search_pick(gp_cut_search *search, int64_t bound, int64_t *layers);

/* Why no cut is possible. GP_CONFIG where places and rules alone allow none; looks at no cost and no byte. */
GP_MUST_USE gp_status gp_cut_check_places(const gp_cut_problem *problem, gp_error *err);
/* After gp_cut_check_places, and a search without a bound that found nothing: GP_CONFIG. Leaves the search unusable. */
gp_status gp_cut_explain(gp_cut_search *search, gp_error *err);

/* For workers with several stages. Begins with a cut in which each stage is as cheap as it can be, and moves single
 * cuts of layers[stage] as long as that makes the dearer of the two workers concerned cheaper, or what they take beyond
 * their memory less. *bottleneck is that of the cut. GP_CONFIG where the stages of some worker still do not fit
 * together; which does not prove that no cut does. */
GP_MUST_USE gp_status gp_cut_share_workers(const gp_span_index *index, gp_span *span, int64_t *layers,
                                           int64_t *bottleneck, gp_error *err);

#endif
