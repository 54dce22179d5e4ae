/* Buckets of gradients that are posted, and added up, before their backward pass is over.
 *
 * A stage's gradients are posted in buckets (schedule/stages.h). The last backward of a mini-batch completes them one
 * after another, from the last parameter to the first. As soon as one is complete, its worker posts it, and goes on
 * with the backward. The instruction `post`, which follows the backward, then finds that it is done. So programs, waits
 * and slots are the same as without. On a device with queues the post is an event in the midst of the backward. Another
 * queue collects the parts of other replicas meanwhile (GP_QUEUE_SUMS).
 *
 * Between processes on CPUs, parts of others arrive by themselves. After each op of a backward that no other stage
 * waits for, the worker looks whether those of the next bucket are there, adds them up, and posts the sums. Which
 * buckets it finds depends on time, but an op of a sum reads and writes nothing but that bucket, so that no result
 * does. The last pass of the worker must come before the instructions that are carried out early: then none of them can
 * be past already.
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
/* Whether an instruction belongs to one of the first `done` sums. */
bool gp_early_sums_have(const gp_worker_posts *posts, size_t done, size_t pc);
/* Whether sums may be found within a pass: a backward from which no other stage waits for gradients. */
bool gp_early_sums_fit(const gp_stages *stages, const gp_instr *pass);

#endif
