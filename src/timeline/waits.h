/* What a wait in a timeline was for, in words: found from the plan and from the spans of the other workers, when the
 * file is written.
 *
 * Of all that an instruction waits for, what came last is the reason. Owned by the caller, borrows plan and recorder;
 * one thread, while nothing is recorded. */
#ifndef GP_TIMELINE_WAITS_H
#define GP_TIMELINE_WAITS_H

#include "plan/plan.h"
#include "trace/recorder.h"

typedef struct gp_wait_finder gp_wait_finder;

GP_MUST_USE gp_status gp_wait_finder_create(const gp_plan *plan, const gp_recorder *recorder, gp_wait_finder **out,
                                            gp_error *err);
void gp_wait_finder_destroy(gp_wait_finder **finder);

/* The mini-batch of span `index` of a worker's lane: how many the run had recorded before it. A worker may have no
 * instructions in a mini-batch, as a replica has none without a sample. */
size_t gp_wait_finder_mini_batch(const gp_wait_finder *finder, int worker, size_t index);

/* Members of a JSON object: `"for":"send s0 m3 e0 on worker 0 (activation)","for_worker":0,"for_pc":12`. For the time
 * before span `index` of a worker's lane, until its inputs were ready; `barrier`: for the span itself, a barrier's.
 * Buffer is returned. */
enum { GP_WAIT_TEXT = 256 };
const char *gp_wait_finder_text(const gp_wait_finder *finder, int worker, size_t index, bool barrier,
                                char buffer[GP_WAIT_TEXT]);

#endif
