#include "device/cuda/cuda_api.h"

#ifdef GP_CUDA_TOOLKIT
extern const gp_cuda_api gp_cuda_toolkit;
const gp_cuda_api *gp_cuda = &gp_cuda_toolkit;
#else
const gp_cuda_api *gp_cuda = NULL;
#endif
