/* Which element a thread has. */
#ifndef GP_DEVICE_CUDA_KERNELS_INDEX_CUH
#define GP_DEVICE_CUDA_KERNELS_INDEX_CUH

#include <stdint.h>

typedef struct gp_place {
    int64_t row, column;
} gp_place;

/* One thread for each of rows·columns items; false behind the last one. */
static __device__ inline bool gp_place_find(int64_t rows, int64_t columns, gp_place *at) {
    int64_t item = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= rows * columns) return false;
    at->row = item / columns;
    at->column = item - at->row * columns;
    return true;
}

#endif
