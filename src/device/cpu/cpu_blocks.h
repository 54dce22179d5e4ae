/* Sums over all elements of a tensor, in blocks whose bounds follow from the shape, so that the number of threads
 * changes no bit. Internal to device/cpu; the op's own call and workspace. */
#ifndef GP_DEVICE_CPU_CPU_BLOCKS_H
#define GP_DEVICE_CPU_CPU_BLOCKS_H

#include "device/cpu/cpu_call.h"

/* How many blocks x has. */
int64_t gp_cpu_blocks(gp_rows x);
/* The sum over elements [begin, end) in row-major order. */
typedef double (*gp_cpu_block)(const void *context, int64_t begin, int64_t end);
/* The blocks' sums, added in their order. `grain`: blocks that are worth a thread. */
double gp_cpu_sum_blocks(const gp_cpu_call *call, gp_rows x, int64_t grain, gp_cpu_block block, const void *context);

enum { GP_CPU_BLOCK = 4096 }; /* elements */

#endif
