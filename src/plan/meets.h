/* Whom a worker meets in lockstep's barriers.
 *
 * A worker issues the copies of a clock into its memory, meets others in a barrier, and then issues its computation.
 * What that is for: no copy of the clock queues behind a computation that was issued early. A computation can delay the
 * copies into its worker's memory, which its own program has before, and the copies out of it, which other workers
 * issue. So a worker need only meet the workers that copy from it in that clock: in its i-th barrier it waits for all
 * receives from it that stand before the receiver's i-th barrier. Where two workers share a device that copies beside
 * computing, one's computations can delay the other's copies: there all workers meet.
 *
 * Derived from the programs, pure; the result is read-only, any thread.
 */
#ifndef GP_PLAN_MEETS_H
#define GP_PLAN_MEETS_H

#include "base/status.h"
#include "device/device.h"
#include "schedule/program.h"
#include "schedule/waits.h"

/* As gp_waits, by barrier in place of instruction: barrier b of a worker, from 0, waits for items[first[b]] …
 * items[first[b+1]−1], all GP_WAIT_PULLED. *out stays NULL where all workers meet, and where there are no barriers. The
 * programs are valid: barriers are equal. */
GP_MUST_USE gp_status gp_meets_create(const gp_stages *stages, const gp_programs *programs,
                                      const gp_device_spec *devices, gp_waits **out, gp_error *err);

#endif
