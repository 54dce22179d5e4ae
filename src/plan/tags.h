/* Tags: the numbers of messages between the processes of a run. All processes have the same plan, so the same tags.
 *
 * The tags of edges come first, then those of collectives, of exchanges within a pass, and of lines.
 *
 * Derived from a plan, pure; any thread. */
#ifndef GP_PLAN_TAGS_H
#define GP_PLAN_TAGS_H

#include "plan/plan.h"

/* Micro-batches of the mini-batch that has most; at least 1. Each edge has as many tags. */
int gp_tags_micros(const gp_plan *plan);
uint32_t gp_tag_of_edge(const gp_plan *plan, uint32_t edge, uint16_t micro);
/* What the first contributor sends to the first collector; the tags of the other pairs follow, by contributors. */
uint32_t gp_tag_of_collective(const gp_plan *plan, size_t collective);
/* Whether the wire carries what the stage's group exchanges within a pass. */
bool gp_tags_has_exchange(const gp_plan *plan, int stage);
/* Of what a stage sends to the first replica of its group; those to the others follow. */
uint32_t gp_tag_of_exchange(const gp_plan *plan, int stage);
/* What a line's ends agree on (pipeline/far_lines.h). */
uint32_t gp_tag_of_line(const gp_plan *plan, uint32_t number);
/* The first tag that no edge, collective, exchange or line uses. */
uint32_t gp_tags_end(const gp_plan *plan);

#endif
