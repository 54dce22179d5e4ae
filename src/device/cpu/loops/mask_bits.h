/* A mask of dropout as bits: the draws of device/dropout_mask.h, several counters at once, one in each lane. Bit
 * i modulo 32 of word i / 32 says whether element i of a run is kept. Pure functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_MASK_BITS_H
#define GP_DEVICE_CPU_LOOPS_MASK_BITS_H

#include "device/cpu/loops/vector.h"
#include "device/dropout_mask.h"

/* The constants of one sample's mask. */
typedef struct gp_mask {
    const gp_dropout_attributes *dropout;
    const gp_step_scalars *scalars;
    int64_t place;  /* of the sample in the mini-batch */
    uint32_t least; /* gp_dropout_least */
} gp_mask;

#if defined(__SSE2__)

/* Counters at once. Each of their words is the lower half of a lane; what the upper halves hold does not matter. */
#if defined(__AVX512F__)
enum { GP_DRAWS = 8 };
#elif defined(__AVX2__)
enum { GP_DRAWS = 4 };
#else
enum { GP_DRAWS = 2 };
#endif
typedef uint64_t gp_words __attribute__((vector_size(GP_DRAWS * 8)));

static inline gp_words gp_all_words(uint64_t value) {
    return value + (gp_words){0};
}

/* Products of the lower halves. */
static inline gp_words gp_word_products(gp_words a, gp_words b) {
#if defined(__AVX512F__)
    return (gp_words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (gp_words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (gp_words)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}

/* The four words of even lanes, then those of odd ones: one bit for each word, whether its upper 24 bits are above
 * `limit`. */
static inline uint32_t gp_bits_above(gp_words first, gp_words second, int32_t limit) {
#if defined(__AVX512F__)
    __m512i even = _mm512_unpacklo_epi64((__m512i)first, (__m512i)second), most = _mm512_set1_epi32(limit);
    __m512i odd = _mm512_unpackhi_epi64((__m512i)first, (__m512i)second);
    uint32_t low = _mm512_cmpgt_epi32_mask(_mm512_srli_epi32(even, 8), most);
    uint32_t high = _mm512_cmpgt_epi32_mask(_mm512_srli_epi32(odd, 8), most);
#elif defined(__AVX2__)
    __m256i even = _mm256_unpacklo_epi64((__m256i)first, (__m256i)second), most = _mm256_set1_epi32(limit);
    __m256i odd = _mm256_unpackhi_epi64((__m256i)first, (__m256i)second);
    even = _mm256_cmpgt_epi32(_mm256_srli_epi32(even, 8), most);
    odd = _mm256_cmpgt_epi32(_mm256_srli_epi32(odd, 8), most);
    uint32_t low = (uint32_t)_mm256_movemask_ps((__m256)even), high = (uint32_t)_mm256_movemask_ps((__m256)odd);
#else
    __m128i even = _mm_unpacklo_epi64((__m128i)first, (__m128i)second), most = _mm_set1_epi32(limit);
    __m128i odd = _mm_unpackhi_epi64((__m128i)first, (__m128i)second);
    even = _mm_cmpgt_epi32(_mm_srli_epi32(even, 8), most);
    odd = _mm_cmpgt_epi32(_mm_srli_epi32(odd, 8), most);
    uint32_t low = (uint32_t)_mm_movemask_ps((__m128)even), high = (uint32_t)_mm_movemask_ps((__m128)odd);
#endif
    return low | high << 2 * GP_DRAWS;
}

/* gp_philox_draw in all lanes, from the group `first` on. The first half of the counters lies in even lanes, so that
 * gp_bits_above finds the bits in their order. */
static inline uint32_t gp_mask_part(const gp_mask *mask, uint32_t first) {
    static const uint64_t order[3][8] = {{0, 1}, {0, 2, 1, 3}, {0, 4, 1, 5, 2, 6, 3, 7}};
    const gp_words lower = gp_all_words(UINT32_MAX);
    gp_philox start = gp_dropout_counter(mask->dropout, mask->scalars, mask->place, first);
    gp_words word[4], lane;
    memcpy(&lane, order[GP_DRAWS / 4], sizeof lane);
    for (int w = 0; w < 4; w++) word[w] = gp_all_words(start.word[w]);
    word[0] += lane;
    uint32_t key0 = (uint32_t)mask->scalars->seed, key1 = (uint32_t)(mask->scalars->seed >> 32);
    for (int round = 0; round < GP_PHILOX_ROUNDS; round++) {
        gp_words product0 = gp_word_products(word[0], gp_all_words(GP_PHILOX_FACTOR_0));
        gp_words product1 = gp_word_products(word[2], gp_all_words(GP_PHILOX_FACTOR_1));
        word[0] = (product1 >> 32) ^ word[1] ^ gp_all_words(key0);
        word[1] = product1;
        word[2] = (product0 >> 32) ^ word[3] ^ gp_all_words(key1);
        word[3] = product0;
        key0 += GP_PHILOX_STEP_0;
        key1 += GP_PHILOX_STEP_1;
    }
    return gp_bits_above((word[0] & lower) | word[1] << 32, (word[2] & lower) | word[3] << 32,
                         (int32_t)mask->least - 1);
}

#else

enum { GP_DRAWS = 1 };

static inline uint32_t gp_mask_part(const gp_mask *mask, uint32_t first) {
    gp_philox draw = gp_dropout_draw(mask->dropout, mask->scalars, mask->place, first);
    uint32_t bits = 0;
    for (int lane = 0; lane < 4; lane++) bits |= (uint32_t)(draw.word[lane] >> 8 >= mask->least) << lane;
    return bits;
}

#endif

/* Words of gp_mask_run for a run of `count` elements; one more is read by gp_mask_word. */
#define GP_MASK_WORDS(count) (((count) + 3) / 32 + 2)

/* The bits of elements [first, first + count) of the sample; the first one's is bit `first` modulo 4. */
static inline void gp_mask_run(const gp_mask *mask, int64_t first, int64_t count, uint32_t *bits) {
    int64_t words = (first % 4 + count + 31) / 32;
    for (int64_t w = 0; w < words; w++) {
        bits[w] = 0;
        for (int g = 0; g < 8; g += GP_DRAWS) bits[w] |= gp_mask_part(mask, (uint32_t)(first / 4 + 8 * w + g)) << 4 * g;
    }
    bits[words] = 0;
}

/* The 32 bits from bit `at` on. */
static inline uint32_t gp_mask_word(const uint32_t *bits, int64_t at) {
    return (uint32_t)(((uint64_t)bits[at / 32 + 1] << 32 | bits[at / 32]) >> at % 32);
}

#endif
