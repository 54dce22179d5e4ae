#include "device/cpu/cpu_own.h"

#include "device/cpu/cpu_ops.h"

#define DEFINE(NAME, name, its) const gp_cpu_op gp_cpu_##name = {.book = its};
GP_CPU_OWN_OPS(DEFINE)
