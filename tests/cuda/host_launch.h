/* Launches on the host, held to what they promise: the same bits in every order of threads and blocks, and no memory
 * touched but what they declare. Any thread, one launch at a time: the caller sees to it that nothing else uses the
 * memory of host_memory.h meanwhile. */
#ifndef GP_TESTS_CUDA_HOST_LAUNCH_H
#define GP_TESTS_CUDA_HOST_LAUNCH_H

#include "cuda/host_kernels.h"

/* All declared ranges lie in blocks of host_memory.h. */
GP_MUST_USE gp_status gp_host_launch_check(const gp_cuda_launch *launch, gp_error *err);
/* Runs it in several orders, each on the bytes that it found, and demands equal bits of what it declares to write. */
GP_MUST_USE gp_status gp_host_launch_orders(const gp_cuda_launch *launch, gp_error *err);
/* The same, and once with poison in all memory that it does not declare: that has to stay as it is, and what is written
 * has to come out alike. Under AddressSanitizer that memory may not even be looked at. For small cases: copies
 * everything there is. */
GP_MUST_USE gp_status gp_host_launch_ranges(const gp_cuda_launch *launch, gp_error *err);

#endif
