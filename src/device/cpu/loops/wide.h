/* Vectors as wide as this version's registers, 16 floats with AVX-512, for what is not bound by memory. Half a vector
 * is loaded and stored too, so that 8 columns need no scalars; its other lanes are zero. Pure functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_WIDE_H
#define GP_DEVICE_CPU_LOOPS_WIDE_H

#include "device/cpu/loops/vector.h"

#if defined(__AVX512F__)
enum { GP_WIDE = 16 };
#else
enum { GP_WIDE = (int)GP_LANES };
#endif

enum { GP_TWO_WIDE = 2 * (int)GP_WIDE };
typedef float gp_wide __attribute__((vector_size(GP_WIDE * 4)));
typedef float gp_wide_at __attribute__((vector_size(GP_WIDE * 4), aligned(4), may_alias));
typedef int32_t gp_wide_ints __attribute__((vector_size(GP_WIDE * 4)));
typedef double gp_wide_doubles __attribute__((vector_size(GP_WIDE * 4)));
typedef double gp_wide_doubles_at __attribute__((vector_size(GP_WIDE * 4), aligned(8), may_alias));

static inline gp_wide gp_wide_all(float value) {
    return value - (gp_wide){0};
}

/* `lanes`: GP_WIDE, or half of it. */
static inline gp_wide gp_wide_load(const float *from, int64_t lanes) {
    if (lanes == GP_WIDE) return *(const gp_wide_at *)from;
#if defined(__AVX512F__)
    return (gp_wide)_mm512_zextps256_ps512(_mm256_loadu_ps(from));
#elif defined(__AVX2__)
    return (gp_wide)_mm256_zextps128_ps256(_mm_loadu_ps(from));
#elif defined(__SSE2__)
    return (gp_wide)_mm_castsi128_ps(_mm_loadl_epi64((const void *)from));
#else
    gp_wide out = {0};
    for (int i = 0; i < GP_WIDE / 2; i++) out[i] = from[i];
    return out;
#endif
}

static inline void gp_wide_store(float *to, gp_wide value, int64_t lanes) {
    if (lanes == GP_WIDE) {
        *(gp_wide_at *)to = value;
        return;
    }
#if defined(__AVX512F__)
    _mm256_storeu_ps(to, _mm512_castps512_ps256((__m512)value));
#elif defined(__AVX2__)
    _mm_storeu_ps(to, _mm256_castps256_ps128((__m256)value));
#elif defined(__SSE2__)
    _mm_storel_epi64((void *)to, _mm_castps_si128((__m128)value));
#else
    for (int i = 0; i < GP_WIDE / 2; i++) to[i] = value[i];
#endif
}

/* 0 where x is not above y, or one of them is NaN. */
static inline gp_wide gp_wide_keep_above(gp_wide x, gp_wide y, gp_wide value) {
#if defined(__AVX512F__)
    return (gp_wide)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_GT_OQ), (__m512)value);
#else
    return (gp_wide)((gp_wide_ints)value & (gp_wide_ints)(x > y));
#endif
}

/* Half a vector, as doubles. */
static inline gp_wide_doubles gp_wide_low(gp_wide value) {
#if defined(__AVX512F__)
    return (gp_wide_doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)value));
#else
    return (gp_wide_doubles)gp_low((gp_floats)value);
#endif
}

static inline gp_wide_doubles gp_wide_high(gp_wide value) {
#if defined(__AVX512F__)
    return (gp_wide_doubles)_mm512_cvtps_pd(
        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd((__m512)value), 1)));
#else
    return (gp_wide_doubles)gp_high((gp_floats)value);
#endif
}

/* As many floats as half a vector has. */
static inline gp_wide_doubles gp_widen_half(const float *from) {
#if defined(__AVX512F__)
    return (gp_wide_doubles)_mm512_cvtps_pd(_mm256_loadu_ps(from));
#else
    return (gp_wide_doubles)gp_widen(from);
#endif
}

/* The reverse: rounds half a vector of doubles, and stores it. */
static inline void gp_narrow_half(float *to, gp_wide_doubles value) {
#if defined(__AVX512F__)
    _mm256_storeu_ps(to, _mm512_cvtpd_ps((__m512d)value));
#elif defined(__AVX2__)
    _mm_storeu_ps(to, _mm256_cvtpd_ps((__m256d)value));
#elif defined(__SSE2__)
    _mm_storel_epi64((void *)to, _mm_castps_si128(_mm_cvtpd_ps((__m128d)value)));
#else
    for (int i = 0; i < GP_WIDE / 2; i++) to[i] = (float)value[i];
#endif
}

static inline gp_wide_doubles gp_wide_doubles_all(double value) {
    return value - (gp_wide_doubles){0};
}

static inline gp_wide_doubles gp_wide_load_doubles(const double *from) {
    return *(const gp_wide_doubles_at *)from;
}

static inline void gp_wide_store_doubles(double *to, gp_wide_doubles value) {
    *(gp_wide_doubles_at *)to = value;
}

#endif
