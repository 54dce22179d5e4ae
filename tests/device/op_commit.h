/* Batch norm's running statistics over a mini-batch in pieces, on any device kind: channels whose mean is 100,000 times
 * their deviation. cmocka asserts inside, so main thread only. */
#ifndef GP_TESTS_DEVICE_OP_COMMIT_H
#define GP_TESTS_DEVICE_OP_COMMIT_H

#include "device/device.h"

/* Fails the test where running mean or variance are not as exact over several pieces, equal or not, as over one. */
void check_large_mean_commit(const gp_device_kind *kind);

#endif
