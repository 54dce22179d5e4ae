/* Philox 4×32-10, as base/philox.h has it for the host: the same words from the same seed and counter. */
#ifndef GP_DEVICE_CUDA_KERNELS_PHILOX_CUH
#define GP_DEVICE_CUDA_KERNELS_PHILOX_CUH

#include <stdint.h>

struct gp_draw {
    uint32_t word[4];
};

static __device__ inline gp_draw gp_philox_draw(uint64_t seed, gp_draw counter) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53U * counter.word[0];
        uint64_t product1 = (uint64_t)0xCD9E8D57U * counter.word[2];
        counter = {{(uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0, (uint32_t)product1,
                    (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1, (uint32_t)product0}};
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    return counter;
}

/* A word by number, without an array that has to lie in memory. */
static __device__ inline uint32_t gp_draw_word(const gp_draw &draw, int number) {
    uint32_t low = number & 1 ? draw.word[1] : draw.word[0], high = number & 1 ? draw.word[3] : draw.word[2];
    return number & 2 ? high : low;
}

#endif
