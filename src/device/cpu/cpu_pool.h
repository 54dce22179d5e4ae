/* A few threads that share out loops. Owned by one open device; only its worker's thread calls.
 *
 * The division of a loop depends on its length and the number of threads alone, never on timing. Idle threads sleep. If
 * the creator of the pool spins in its waits (gp_wait_spin), they spin before, for a shorter time than a worker.
 */
#ifndef GP_DEVICE_CPU_CPU_POOL_H
#define GP_DEVICE_CPU_CPU_POOL_H

#include <stdint.h>

#include "base/status.h"

typedef struct gp_cpu_pool gp_cpu_pool;

/* Does items [begin, end) of a loop. Called by several threads at once, with ranges that do not overlap. */
typedef void (*gp_cpu_range)(void *context, int64_t begin, int64_t end);

/* threads ≥ 1, the calling thread among them. GP_DEVICE where the system gives no more threads. */
GP_MUST_USE gp_status gp_cpu_pool_create(int threads, gp_cpu_pool **out, gp_error *err);
/* Ends and joins the threads. */
void gp_cpu_pool_destroy(gp_cpu_pool **pool);
/* Items 0 to count−1, in as many equal parts as there are threads, fewer where a part would have less than `grain`
 * items. Returns when all are done. The caller does the first part. */
void gp_cpu_pool_for(gp_cpu_pool *pool, int64_t count, int64_t grain, gp_cpu_range range, void *context);

#endif
