/* A case of an op that does what several others do one after another, whole and in parts, on one device kind. cmocka
 * asserts inside, so main thread only. */
#ifndef GP_TESTS_DEVICE_OP_WHOLE_H
#define GP_TESTS_DEVICE_OP_WHOLE_H

#include "device/device.h"
#include "device/op_cases.h"

/* All cases of all such ops: bits must be equal, relu's threshold met exactly in some. */
void op_whole_check(const gp_device_kind *kind, gp_dtype real, int threads);

#endif
