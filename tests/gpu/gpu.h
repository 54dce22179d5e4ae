/* What the tests with label `gpu` share: whether there is a GPU. They use the machine's own (the table that the program
 * was built with), and are skipped where there is none; a second build of each uses host memory in its place
 * (cuda/host_api.h, GPU_ON_HOST), so that the tests themselves are run everywhere. Main thread only. */
#ifndef GP_TESTS_GPU_GPU_H
#define GP_TESTS_GPU_GPU_H

#include <stdbool.h>

#include "device/cuda/cuda_api.h"

/* False, and the cause on stdout, where the test is to end with GPU_SKIPPED. Sets up gp_cuda. */
bool gpu_is_there(void);
enum { GPU_SKIPPED = 77 };

/* Devices that the machine has; ≥ 1 once gpu_is_there. */
int gpu_count(void);

/* Whether work goes on after a call and memory ends somewhere: a GPU, not host memory in its place. */
bool gpu_is_real(void);

#endif
