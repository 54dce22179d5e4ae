/* The reference device: plain loops over f32 and f64, one thread, host memory, synchronous. The oracle of the tests and
 * the device of the gradient checks; slow on purpose.
 *
 * Sums run in double and are rounded once when they are stored, so that its f32 results are as good as f32 can hold. It
 * knows the plain format only. Threads: as device.h says.
 */
#ifndef GP_DEVICE_REF_REF_H
#define GP_DEVICE_REF_REF_H

#include "device/device.h"

extern const gp_device_kind gp_ref_kind;

#endif
