/* Why no cut is possible: the sentence of gp_cut_solve.
 *
 * Part of the solver: owns nothing, and uses up the search that it is given. One thread. */
#ifndef GP_CUT_CUT_EXPLAIN_H
#define GP_CUT_CUT_EXPLAIN_H

#include "cut/cut_search.h"

/* GP_CONFIG where places and rules alone allow no cut; looks at no cost and no byte. */
GP_MUST_USE gp_status gp_cut_check_places(const gp_cut_problem *problem, gp_error *err);
/* After gp_cut_check_places, and a search without a bound that found nothing: GP_CONFIG. Leaves the search unusable. */
gp_status gp_cut_explain(gp_cut_search *search, gp_error *err);

#endif
