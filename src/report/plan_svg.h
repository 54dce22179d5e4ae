/* --svg: a plan's mini-batch as a picture: a lane for each worker, its memory below.
 *
 * Computations by kind, copies as thin marks, waiting as what is left free; memory as bytes alive against the arena, on
 * one scale for all workers. Of many workers some are drawn, evenly chosen; of many instructions what part of the time
 * goes to which kind, column by column. Light or dark as the reader's browser wants it. Borrows all for the call; one
 * thread per stream. */
#ifndef GP_REPORT_PLAN_SVG_H
#define GP_REPORT_PLAN_SVG_H

#include "base/status.h"
#include "plan/plan.h"
#include "profile/profile.h"

/* What each such picture begins with. */
extern const char gp_plan_svg_head[];

/* The mini-batch that the report of the plan is about, as it is expected, into a file, whole or not at all. `profile`:
 * NULL for counted times. */
GP_MUST_USE gp_status gp_plan_svg_write(const gp_plan *plan, const gp_profile *profile, const char *path,
                                        gp_error *err);

#endif
