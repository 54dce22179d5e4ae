/* Optimizers: all parameters of a stage in one launch. Internal to device/cuda; only enqueues, in the thread of the
 * calls' stream, and keeps nothing. */
#ifndef GP_DEVICE_CUDA_CUDA_UPDATE_H
#define GP_DEVICE_CUDA_CUDA_UPDATE_H

#include "device/cuda/cuda_call.h"

/* Does the runs of `count` ops sgd or adam, of one stream, whose memory but for the scalars is apart: as one after
 * another would, to the bit, in one launch for each kind, set of attributes and GP_KERNEL_UPDATE_ENTRIES parameters. */
GP_MUST_USE gp_status gp_cuda_update_many(const gp_cuda_call *calls, int count, gp_error *err);

#endif
