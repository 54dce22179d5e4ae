/* Cuts a sequence of layers into stages: exact solutions as pure functions on arrays of numbers. One thread, no state.
 *
 * The bottleneck of a partition is its most expensive stage; torchgpipe's partitioner (Bárány et al., 1308.2452)
 * approximates it, these find the least.
 */
#ifndef GP_BALANCE_PARTITION_H
#define GP_BALANCE_PARTITION_H

#include <stdint.h>

#include "base/status.h"

/* layers[s] ≥ 1 for each of `stages` ≤ count contiguous stages, so that the largest sum of costs (≥ 0) of a stage is
 * the least possible. Among the partitions that reach it: the one whose stages, first to last, come as near as they can
 * to an equal share of the costs that are left (their sum by the number of stages left, in whole units); of stages
 * equally near, the one nearest to an equal share of the layers that are left. Takes O(count · log) time. GP_CONFIG
 * where stages > count, GP_UNSUPPORTED where the costs together exceed an int64. */
GP_MUST_USE gp_status gp_partition_min_max(const int64_t *cost, int count, int stages, int64_t *layers, gp_error *err);

#endif
