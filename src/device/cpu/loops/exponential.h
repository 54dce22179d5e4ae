/* The exponential and the logarithm of the activations and losses. Elements are computed alike wherever they stand, in
 * vectors or alone: there is no call and no table in these functions, so that the compiler makes vectors of loops over
 * them. No step may be fused. Pure functions; any thread.
 */
#ifndef GP_DEVICE_CPU_LOOPS_EXPONENTIAL_H
#define GP_DEVICE_CPU_LOOPS_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

static inline uint32_t gp_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float gp_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x for x ≤ 0, within 1 unit in the last place: 2^n·e^r with |r| ≤ ln 2 / 2 and e^r = 1 + r + r²·P(r). P is the
 * polynomial of degree 4 that comes nearest, within 4e-9 of e^r. Below −87 the result is 0. */
static inline float gp_exponential(float x) {
    const float round = 0x1.8p23F; /* the sum's last bit is 1: it has no room for a fraction */
    float shifted = x * 1.44269504F + round;
    float n = shifted - round;
    float r = (x - n * 0.693359375F) + n * 2.12194440e-4F; /* Cephes' two parts of ln 2 (Moshier, expf) */
    float square = r * r;
    float upper = 0.001381422199F * square + (0.008368898661F * r + 0.04166840572F);
    float p = upper * square + (0.1666651913F * r + 0.4999999335F);
    float scale = gp_float_of((gp_bits_of(shifted) - gp_bits_of(round) + 127U) << 23);
    float value = (p * square + r + 1) * scale;
    return x < -87 ? 0 : value;
}

/* log(1 + e) for 0 ≤ e ≤ 1, within 2 units in the last place: 2·artanh(s) with s = e/(2+e) ≤ 1/3. The polynomial over
 * s² is the least one of degree 3 that comes within 5e-9 of the value. */
static inline float gp_log_of_one_and(float e) {
    float s = e / (2 + e), z = s * s;
    float p = 0.14005993542F;
    p = p * z + 0.14000902609F;
    p = p * z + 0.20010763621F;
    p = p * z + 0.33333208143F;
    float twice = s + s;
    return twice + twice * (z * p);
}

#endif
