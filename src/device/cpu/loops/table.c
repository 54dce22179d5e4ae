/* All loops of this version. */
#include "device/cpu/loops/loops.h"

#define TEXT(version) #version
#define NAME(version) TEXT(version)

#define ENTRY(KIND, name, book) [GP_OP_##KIND] = &GP_CPU_LOOP(name),

const gp_cpu_loops GP_CPU_LOOP(loops) = {
    .name = NAME(GP_CPU_VERSION),
    .loop = {GP_CPU_OWN_OPS(ENTRY)},
    .column_sum = GP_CPU_LOOP(column_sum),
};
