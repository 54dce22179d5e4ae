/* What the plans of libraries book as workspace: the toolkit's plans and the tests' twins of them book alike. Pure; any
 * thread. Internal to device/cuda. */
#ifndef GP_DEVICE_CUDA_CUDA_WORKSPACE_H
#define GP_DEVICE_CUDA_CUDA_WORKSPACE_H

#include "base/memory.h"
#include "device/op.h"

/* Libraries get workspaces at multiples of this, as memory has it that was allocated for them alone. Arenas know only
 * GP_ALIGNMENT, so each workspace is booked with as many bytes more. */
enum { GP_CUDA_WORKSPACE_ALIGNMENT = 256 };

static inline size_t gp_cuda_workspace_booked(size_t bytes) {
    return bytes ? gp_align_up(bytes, GP_ALIGNMENT) + GP_CUDA_WORKSPACE_ALIGNMENT : 0;
}

/* Bytes that cuBLASLt may use for a product with the result `result`: room for partial sums when few results are made
 * of long ones. */
static inline size_t gp_cuda_product_workspace(const gp_tensor *result) {
    enum { LEAST = 1 << 20, MOST = 32 << 20, PARTS = 16 };
    size_t bytes = gp_tensor_bytes(result);
    if (bytes >= (MOST - LEAST) / PARTS) return MOST;
    return gp_align_up(LEAST + bytes * PARTS, GP_ALIGNMENT);
}

#endif
