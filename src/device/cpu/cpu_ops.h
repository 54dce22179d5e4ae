/* The ops of the CPU device, all in f32: how each is prepared; loops/ has the loops, one file per family. Internal to
 * device/cpu; see cpu_call.h for the threads.
 *
 * No result depends on the number of threads: what is summed is summed in blocks whose bounds follow from the shapes.
 */
#ifndef GP_DEVICE_CPU_CPU_OPS_H
#define GP_DEVICE_CPU_CPU_OPS_H

#include "device/cpu/cpu_call.h"

#define GP_OP(NAME, name, ...) extern const gp_cpu_op gp_cpu_##name;
#include "device/op_table.inc"

#endif
