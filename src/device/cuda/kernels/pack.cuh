/* Neighbouring elements that are read and written at once. */
#ifndef GP_DEVICE_CUDA_KERNELS_PACK_CUH
#define GP_DEVICE_CUDA_KERNELS_PACK_CUH

template <int count> struct alignas(4 * count) gp_pack { float at[count]; };

#endif
