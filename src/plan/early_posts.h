/* Buckets of gradients that are posted before their backward pass is over.
 *
 * A stage's gradients are posted in buckets (schedule/stages.h). The last backward of a mini-batch completes them one
 * after another, from the last parameter to the first. As soon as one is complete, its worker posts it, and goes on
 * with the backward. The instruction `post`, which follows the backward, then finds that it is done. So programs, waits
 * and slots are the same as without. On devices with queues nothing is posted early: what queues know of one another
 * follows from the places of posts in programs (plan/queues.h).
 *
 * Derived from programs and routines, pure; owned by the plan, read-only, any thread. */
#ifndef GP_PLAN_EARLY_POSTS_H
#define GP_PLAN_EARLY_POSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "schedule/play.h"

struct gp_plan;
struct gp_mini_plan;

/* For a mini-batch that trains: [workers]; routines are made. */
GP_MUST_USE gp_status gp_early_posts_create(const struct gp_plan *plan, const struct gp_mini_plan *mini,
                                            gp_worker_posts **out, gp_error *err);
void gp_early_posts_destroy(gp_worker_posts **posts, int workers);
/* The first of a backward; NULL: it posts nothing. */
const gp_early_post *gp_early_posts_find(const gp_worker_posts *posts, size_t pc);
/* Whether a post is carried out early. */
bool gp_early_posts_have(const gp_worker_posts *posts, size_t post);

#endif
