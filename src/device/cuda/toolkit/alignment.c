#include "device/cuda/toolkit/toolkit.h"

int64_t gp_cuda_alignment(const gp_tensor *tensor) {
    return gp_tensor_contiguous(tensor) ? 16 : (int64_t)gp_dtype_size(tensor->dtype);
}
