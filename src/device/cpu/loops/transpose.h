/* Blocks of GP_LANES × GP_LANES floats transposed in registers. Pure functions of memory that the caller owns; any
 * thread. */
#ifndef GP_DEVICE_CPU_LOOPS_TRANSPOSE_H
#define GP_DEVICE_CPU_LOOPS_TRANSPOSE_H

#include "device/cpu/loops/vector.h"

/* to[c·to_pitch + r] = from[r·from_pitch + c]; the two do not overlap. */
#if defined(__AVX2__)
/* A register has four floats of row r, and four of row r + 4. */
static inline __m256 gp_row_pair(const float *from, int64_t pitch, int64_t row, int64_t column) {
    const float *low = from + row * pitch + column;
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(low + 4 * pitch), 1);
}

static inline void gp_transpose_block(const float *from, int64_t from_pitch, float *to, int64_t to_pitch) {
    for (int64_t c = 0; c < 8; c += 4) {
        __m256 row[4];
        for (int64_t r = 0; r < 4; r++) row[r] = gp_row_pair(from, from_pitch, r, c);
        __m256 low_01 = _mm256_unpacklo_ps(row[0], row[1]), low_23 = _mm256_unpacklo_ps(row[2], row[3]);
        __m256 high_01 = _mm256_unpackhi_ps(row[0], row[1]), high_23 = _mm256_unpackhi_ps(row[2], row[3]);
        _mm256_storeu_ps(to + c * to_pitch, _mm256_shuffle_ps(low_01, low_23, 0x44));
        _mm256_storeu_ps(to + (c + 1) * to_pitch, _mm256_shuffle_ps(low_01, low_23, 0xee));
        _mm256_storeu_ps(to + (c + 2) * to_pitch, _mm256_shuffle_ps(high_01, high_23, 0x44));
        _mm256_storeu_ps(to + (c + 3) * to_pitch, _mm256_shuffle_ps(high_01, high_23, 0xee));
    }
}
#elif defined(__SSE2__)
static inline void gp_transpose_block(const float *from, int64_t from_pitch, float *to, int64_t to_pitch) {
    __m128 row[4];
    for (int64_t r = 0; r < 4; r++) row[r] = _mm_loadu_ps(from + r * from_pitch);
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
    for (int64_t c = 0; c < 4; c++) _mm_storeu_ps(to + c * to_pitch, row[c]);
}
#else
static inline void gp_transpose_block(const float *from, int64_t from_pitch, float *to, int64_t to_pitch) {
    for (int64_t c = 0; c < GP_LANES; c++)
        for (int64_t r = 0; r < GP_LANES; r++) to[c * to_pitch + r] = from[r * from_pitch + c];
}
#endif

#endif
