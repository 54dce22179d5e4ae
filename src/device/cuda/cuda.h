/* GPUs through CUDA: own kernels for what is bound by memory, cuDNN's graphs for convolutions, cuBLASLt for matrix
 * products; f32. Planning needs neither a device nor a driver, and any thread may do it; see device.h for the rest. */
#ifndef GP_DEVICE_CUDA_CUDA_H
#define GP_DEVICE_CUDA_CUDA_H

#include "device/device.h"

extern const gp_device_kind gp_cuda_kind;

/* False where the program was built without the toolkit: nothing of the kind may be called then. */
bool gp_cuda_built(void);

#endif
