/* Which element a thread has.
 *
 * Kernels count in `index`, a type that they are instantiated for twice: int32_t, for launches all of whose memory lies
 * within 2³¹ elements (gp_cuda_kernel_for), and int64_t: divisions of 64 bits take several times as long. */
#ifndef GP_DEVICE_CUDA_KERNELS_INDEX_CUH
#define GP_DEVICE_CUDA_KERNELS_INDEX_CUH

#include <stdint.h>

template <typename index> struct gp_place_of { index row, column; };
typedef gp_place_of<int64_t> gp_place;

/* The number of this thread in the whole grid. */
template <typename index> static __device__ inline index gp_item() {
    return (index)blockIdx.x * (index)blockDim.x + (index)threadIdx.x;
}

/* One thread for each of rows·columns items; false behind the last one. */
template <typename index>
static __device__ inline bool gp_place_find(int64_t rows, int64_t columns, gp_place_of<index> *at) {
    index item = gp_item<index>();
    if (item >= (index)(rows * columns)) return false;
    at->row = item / (index)columns;
    at->column = item - at->row * (index)columns;
    return true;
}

/* Both instantiations of a kernel `name` that takes `args_type`: `work<index>(args)`. bounds: launch bounds of that for
 * large tensors, or nothing. */
#define GP_KERNEL_BOTH(name, args_type, work) GP_KERNEL_BOTH_BOUNDED(name, args_type, work, )
#define GP_KERNEL_BOTH_BOUNDED(name, args_type, work, bounds)                                                          \
    __global__ void gp_kernel_##name(args_type args) {                                                                 \
        work<int32_t>(args);                                                                                           \
    }                                                                                                                  \
    __global__ void bounds gp_kernel_##name##_wide(args_type args) {                                                   \
        work<int64_t>(args);                                                                                           \
    }

/* A kernel `name` that takes `args_type`: `work<4>(args)` for four neighbouring elements where args.by_four is set,
 * else `work<1>(args)`. */
#define GP_KERNEL_PACKED(name, args_type, work)                                                                        \
    __global__ void gp_kernel_##name(args_type args) {                                                                 \
        if (args.by_four)                                                                                              \
            work<4>(args);                                                                                             \
        else                                                                                                           \
            work<1>(args);                                                                                             \
    }

/* Both instantiations of such a kernel: `work<index, 4>(args)` or `work<index, 1>(args)`. */
#define GP_KERNEL_BOTH_PACKED(name, args_type, work, bounds)                                                           \
    template <typename index> static __device__ void work##_packed(const args_type &args) {                            \
        if (args.by_four)                                                                                              \
            work<index, 4>(args);                                                                                      \
        else                                                                                                           \
            work<index, 1>(args);                                                                                      \
    }                                                                                                                  \
    GP_KERNEL_BOTH_BOUNDED(name, args_type, work##_packed, bounds)

#endif
