/* A gp_cuda_api on host memory: every call has done its work when it returns. Own kernels run on fibers
 * (host_launch.h), what the libraries do is done by `ref`. Any number of devices, whose memory is the host's.
 *
 * Set gp_cuda to it before the first device is opened. Any thread; work is done by one at a time. */
#ifndef GP_TESTS_CUDA_HOST_API_H
#define GP_TESTS_CUDA_HOST_API_H

#include <stdbool.h>

#include "device/cuda/cuda_api.h"

extern const gp_cuda_api gp_host_api;

/* How launches are run from now on; all threads. */
typedef enum gp_host_care {
    GP_HOST_ONCE,   /* in one order */
    GP_HOST_ORDERS, /* in several, with equal bits (the default) */
    GP_HOST_RANGES, /* and with undeclared memory poisoned: nothing else may use the device's memory meanwhile */
} gp_host_care;
void gp_host_api_set_care(gp_host_care care);

/* Parts for other tables. Plans: ref, for the ops that are the libraries', with workspaces as large as theirs;
 * GP_UNSUPPORTED, "not available yet", for others. */
GP_MUST_USE gp_status gp_host_plan_create(gp_prepared *prepared, gp_error *err);
void gp_host_plan_destroy(gp_cuda_plan *plan);
GP_MUST_USE gp_status gp_host_plan_run(const gp_prepared *prepared, void *const operands[], void *workspace,
                                       gp_error *err);

#endif
