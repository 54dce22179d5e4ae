/* What the sources of this folder share. Each is compiled once for each version of the loops; GP_CPU_VERSION is the
 * version's name. A loop that another file names is called GP_CPU_LOOP(name), so that the versions' symbols differ.
 * Constants and functions of the op's own call; threads as in cpu_call.h.
 */
#ifndef GP_DEVICE_CPU_LOOPS_LOOPS_H
#define GP_DEVICE_CPU_LOOPS_LOOPS_H

#include "device/cpu/cpu_loops.h"
#include "device/cpu/cpu_own.h"

#ifndef GP_CPU_VERSION
#define GP_CPU_VERSION plain /* a header is also read by itself */
#endif

#define GP_CPU_JOINED(name, version) gp_cpu_##name##_##version
#define GP_CPU_JOIN(name, version)   GP_CPU_JOINED(name, version)
#define GP_CPU_LOOP(name)            GP_CPU_JOIN(name, GP_CPU_VERSION)

#define GP_CPU_DECLARE(NAME, name, book) extern const gp_cpu_loop GP_CPU_LOOP(name);
GP_CPU_OWN_OPS(GP_CPU_DECLARE)
#undef GP_CPU_DECLARE

extern const gp_cpu_loops GP_CPU_LOOP(loops);
void GP_CPU_LOOP(column_sum)(gp_cpu_pool *pool, gp_column_sum sum);

#endif
