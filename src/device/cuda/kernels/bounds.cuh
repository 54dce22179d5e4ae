/* How many registers a kernel may take. */
#ifndef GP_DEVICE_CUDA_KERNELS_BOUNDS_CUH
#define GP_DEVICE_CUDA_KERNELS_BOUNDS_CUH

/* Of a kernel in blocks of at most 256 threads: a multiprocessor is to run `count` of its blocks at a time. They share
 * 65,536 registers: four blocks leave 64 to a thread, three leave 80. Kernels that the compiler gives fewer anyway have
 * no bound, which would only tempt it to take more. scripts/check-kernels.py holds every kernel to 64, and names those
 * that may have 80. */
#define GP_KERNEL_BLOCKS(count) __launch_bounds__(256, count)

#endif
