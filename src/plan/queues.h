/* Queues: a worker's device works through several at once, so that copies run beside computations. What a queue must
 * wait for: in the other queues of its worker, and of what stands in schedule/waits.h.
 *
 * What loads and receives write is read by computations, and what computations have read is overwritten when the slot
 * begins its next life: behind the last instruction of one queue stands a mark, an event, that the other one waits for.
 * Each value that a slot receives is a part of it, and only who touches a part is waited for. Likewise a bucket of
 * gradients: its parts and sums are collected beside computations that add them up, and that read the sums. A bucket
 * that is posted within a backward (plan/early_posts.h) tells of what comes before that one. What a queue knows to
 * have ended already, through whatever other waits, it does not wait for again; where following that over all workers
 * took more memory than is given for it, it knows that of its own worker only. A mini-batch begins when all queues have
 * run dry, or behind another of the same programs that is still under way, which takes waits of its own. Derived from
 * the programs, pure; the result is read-only, any thread.
 */
#ifndef GP_PLAN_QUEUES_H
#define GP_PLAN_QUEUES_H

#include "compile/stage_plan.h"
#include "schedule/play.h"
#include "schedule/program.h"
#include "schedule/queue.h"
#include "schedule/waits.h"

enum { GP_QUEUES_MEMORY = 32 << 20 }; /* bytes: what plans give */

typedef struct gp_queues_request {
    const gp_stages *stages;
    const gp_programs *programs;
    const gp_waits *waits;        /* those programs' */
    const gp_waits *behind;       /* where they begin behind another mini-batch; NULL: they do not */
    const gp_worker_posts *early; /* [worker] what is posted within backwards; NULL: nothing */
    const gp_stage_plan *plans;   /* [stage]; NULL: not known, any routine may touch all that a stage receives */
    int piece_sized, last_sized;  /* in them: of every micro-batch but the last; of the last */
    size_t memory;                /* bytes that may be taken meanwhile to follow all workers */
} gp_queues_request;

GP_MUST_USE gp_status gp_queues_create(const gp_queues_request *request, gp_program_queues **out, gp_error *err);
void gp_queues_destroy(gp_program_queues **queues);

#endif
