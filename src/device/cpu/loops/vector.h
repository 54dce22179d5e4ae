/* Vectors of floats, as wide as this version's registers, by the compilers' vector extension. What a loop computes for
 * one element must not depend on the width: lanes are columns or places, never parts of one sum, unless the sum has
 * GP_SUM_LANES parts in every version. Pure functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_VECTOR_H
#define GP_DEVICE_CPU_LOOPS_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* 8 with AVX-512 too: pictures often have 8 channels, and what is bound by memory gains nothing from more. */
#if defined(__AVX2__)
enum { GP_LANES = 8 };
#else
enum { GP_LANES = 4 };
#endif

/* Of any address that a float may have. */
typedef float gp_floats_at __attribute__((vector_size(GP_LANES * 4), aligned(4), may_alias));
typedef int32_t gp_ints_at __attribute__((vector_size(GP_LANES * 4), aligned(1), may_alias));

typedef float gp_floats __attribute__((vector_size(GP_LANES * 4)));
typedef int32_t gp_ints __attribute__((vector_size(GP_LANES * 4)));

static inline gp_floats gp_load(const float *from) {
    return *(const gp_floats_at *)from;
}

static inline gp_ints gp_load_ints(const int32_t *from) {
    return (gp_ints) * (const gp_ints_at *)from;
}

/* Begins to bring a line of memory into the cache; any address. */
static inline void gp_fetch(const float *from) {
    __builtin_prefetch(from);
}

static inline void gp_store(float *to, gp_floats value) {
    *(gp_floats_at *)to = value;
}

/* Half a vector of floats, as doubles. */
typedef double gp_doubles __attribute__((vector_size(GP_LANES * 4)));
typedef double gp_doubles_at __attribute__((vector_size(GP_LANES * 4), aligned(8), may_alias));

static inline gp_doubles gp_widen(const float *from) {
#if defined(__AVX2__)
    return (gp_doubles)_mm256_cvtps_pd(_mm_loadu_ps(from));
#elif defined(__SSE2__)
    return (gp_doubles)_mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const void *)from)));
#else
    gp_doubles out;
    for (int i = 0; i < GP_LANES / 2; i++) out[i] = (double)from[i];
    return out;
#endif
}

static inline gp_doubles gp_low(gp_floats value) {
#if defined(__AVX2__)
    return (gp_doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)value));
#elif defined(__SSE2__)
    return (gp_doubles)_mm_cvtps_pd((__m128)value);
#else
    gp_doubles out;
    for (int i = 0; i < GP_LANES / 2; i++) out[i] = (double)value[i];
    return out;
#endif
}

static inline gp_doubles gp_high(gp_floats value) {
#if defined(__AVX2__)
    return (gp_doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)value, 1));
#elif defined(__SSE2__)
    return (gp_doubles)_mm_cvtps_pd(_mm_movehl_ps((__m128)value, (__m128)value));
#else
    gp_doubles out;
    for (int i = 0; i < GP_LANES / 2; i++) out[i] = (double)value[GP_LANES / 2 + i];
    return out;
#endif
}

static inline void gp_store_doubles(double *to, gp_doubles value) {
    *(gp_doubles_at *)to = value;
}

static inline gp_floats gp_all(float value) {
    return value - (gp_floats){0};
}

/* GP_LANES bytes as integers, and back; gcc 12 has no good code for __builtin_convertvector here. */
static inline gp_ints gp_load_bytes(const uint8_t *from) {
#if defined(__AVX2__)
    return (gp_ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
#elif defined(__SSE2__)
    int32_t four;
    memcpy(&four, from, sizeof four);
    __m128i zero = _mm_setzero_si128(), pairs = _mm_unpacklo_epi8(_mm_cvtsi32_si128(four), zero);
    return (gp_ints)_mm_unpacklo_epi16(pairs, zero);
#else
    gp_ints out;
    for (int i = 0; i < GP_LANES; i++) out[i] = from[i];
    return out;
#endif
}

static inline void gp_store_bytes(uint8_t *to, gp_ints values) {
#if defined(__AVX2__)
    __m256i pairs = _mm256_packs_epi32((__m256i)values, (__m256i)values), bytes = _mm256_packus_epi16(pairs, pairs);
    _mm_storel_epi64((void *)to, _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
#elif defined(__SSE2__)
    __m128i pairs = _mm_packs_epi32((__m128i)values, (__m128i)values);
    int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(pairs, pairs));
    memcpy(to, &four, sizeof four);
#else
    for (int i = 0; i < GP_LANES; i++) to[i] = (uint8_t)values[i];
#endif
}

/* `mask` has all bits of a lane set, or none. */
static inline gp_floats gp_choose(gp_ints mask, gp_floats yes, gp_floats no) {
    return (gp_floats)(((gp_ints)yes & mask) | ((gp_ints)no & ~mask));
}

/* a > b ? a : b, in each lane: b if either is NaN. */
static inline gp_floats gp_larger(gp_floats a, gp_floats b) {
#if defined(__AVX2__)
    return (gp_floats)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (gp_floats)_mm_max_ps((__m128)a, (__m128)b);
#else
    return gp_choose(a > b, a, b);
#endif
}

/* 0 where the mask is not set. */
static inline gp_floats gp_keep(gp_ints mask, gp_floats value) {
    return (gp_floats)((gp_ints)value & mask);
}

/* Short rows are copied without a call, which takes half the time for 32 bytes. From 128 bytes on memcpy is as fast in
 * the version for AVX2, and faster in the one for SSE2 (bench/results/2026-11-23-copies.txt). */
static inline void gp_copy_row(char *to, const char *from, int64_t bytes) {
    enum { VECTOR = (int)GP_LANES * 4, SHORT = 64 };
    if (bytes % VECTOR != 0 || bytes > SHORT) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < bytes; i += VECTOR) {
        const gp_ints_at *x = (const void *)(from + i);
        gp_ints_at *y = (void *)(to + i);
        *y = *x;
    }
}

#endif
