/* Neighbouring elements that are read and written at once: one, or four at a multiple of 16 bytes.
 *
 * Four elements of a struct are four stores to the compiler, which makes one of them only where it sees that their
 * addresses follow each other; of most kernels it does not. So stores of four are the toolkit's __stwb, an ordinary
 * store of 16 bytes. scripts/check-kernels.py demands them, and whole loads, of what nvcc makes of each kernel. */
#ifndef GP_DEVICE_CUDA_KERNELS_PACK_CUH
#define GP_DEVICE_CUDA_KERNELS_PACK_CUH

#include <stdint.h>

template <int count> struct alignas(4 * count) gp_pack { float at[count]; };

template <int count> static __device__ inline gp_pack<count> gp_pack_load(const float *from) {
    return *(const gp_pack<count> *)from;
}

static __device__ inline void gp_pack_store(float *to, const gp_pack<1> &pack) {
    *to = pack.at[0];
}

static __device__ inline void gp_pack_store(float *to, const gp_pack<4> &pack) {
    __stwb((float4 *)to, make_float4(pack.at[0], pack.at[1], pack.at[2], pack.at[3]));
}

/* Numbers below 2³¹, as int32_t, or below 256, as uint8_t. */
static __device__ inline void gp_numbers_store(int32_t *to, const int32_t (&number)[1]) {
    *to = number[0];
}

static __device__ inline void gp_numbers_store(int32_t *to, const int32_t (&number)[4]) {
    __stwb((int4 *)to, make_int4(number[0], number[1], number[2], number[3]));
}

static __device__ inline void gp_numbers_store(uint8_t *to, const int32_t (&number)[1]) {
    *to = (uint8_t)number[0];
}

static __device__ inline void gp_numbers_store(uint8_t *to, const int32_t (&number)[4]) {
    uint32_t word = 0; /* little-endian, as GPUs and their hosts are */
    for (int i = 0; i < 4; i++) word |= (uint32_t)(uint8_t)number[i] << 8 * i;
    __stwb((uint32_t *)to, word);
}

static __device__ inline void gp_numbers_load(const int32_t *from, int32_t (&number)[1]) {
    number[0] = *from;
}

static __device__ inline void gp_numbers_load(const int32_t *from, int32_t (&number)[4]) {
    int4 four = *(const int4 *)from;
    number[0] = four.x, number[1] = four.y, number[2] = four.z, number[3] = four.w;
}

static __device__ inline void gp_numbers_load(const uint8_t *from, int32_t (&number)[1]) {
    number[0] = *from;
}

static __device__ inline void gp_numbers_load(const uint8_t *from, int32_t (&number)[4]) {
    uint32_t word = *(const uint32_t *)from;
    for (int i = 0; i < 4; i++) number[i] = (int32_t)(word >> 8 * i & 0xff);
}

#endif
