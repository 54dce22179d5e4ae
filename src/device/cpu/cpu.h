/* The CPU device kind: oneDNN for convolutions and matmuls, own loops in f32 for everything else.
 *
 * One worker opens one device and owns it. Streams work at once in the calling thread, so that an event is recorded
 * when the call returns. With spec.threads > 1 the device keeps a small pool of threads for its own loops, and oneDNN
 * uses as many OpenMP threads. Prepared ops are immutable and may be run by several workers at the same time.
 */
#ifndef GP_DEVICE_CPU_CPU_H
#define GP_DEVICE_CPU_CPU_H

#include "device/device.h"

extern const gp_device_kind gp_cpu_kind;

#endif
