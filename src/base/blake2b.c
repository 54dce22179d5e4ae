#include "base/blake2b.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are taken from memory as they are");

enum { ROUNDS = 12 };

static const uint64_t start[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                  0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static const uint8_t order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static inline uint64_t rotate(uint64_t word, int right) {
    return word >> right | word << (64 - right);
}

static inline void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 63);
}

static void compress(gp_blake2b *state, const uint8_t *block, uint64_t bytes, int last) {
    uint64_t v[16], m[16];
    memcpy(m, block, sizeof m);
    memcpy(v, state->chain, sizeof state->chain);
    memcpy(v + 8, start, sizeof start);
    state->count += bytes;
    v[12] ^= state->count; /* the count's upper word is 0: no file has 2^64 bytes */
    if (last) v[14] = ~v[14];
    for (int r = 0; r < ROUNDS; r++) {
        const uint8_t *s = order[r % 10];
        for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) state->chain[i] ^= v[i] ^ v[i + 8];
}

void gp_blake2b_init(gp_blake2b *state, size_t digest_bytes) {
    *state = (gp_blake2b){.digest_bytes = digest_bytes};
    memcpy(state->chain, start, sizeof start);
    state->chain[0] ^= 0x01010000 ^ (uint64_t)digest_bytes; /* no key, no tree */
}

/* The last block is compressed apart, so a full one waits until something follows it. */
void gp_blake2b_add(gp_blake2b *state, const void *data, size_t bytes) {
    const uint8_t *from = data;
    while (bytes > 0) {
        if (state->used == GP_BLAKE2B_BLOCK) {
            compress(state, state->block, GP_BLAKE2B_BLOCK, 0);
            state->used = 0;
        }
        if (state->used == 0 && bytes > GP_BLAKE2B_BLOCK) {
            compress(state, from, GP_BLAKE2B_BLOCK, 0);
            from += GP_BLAKE2B_BLOCK;
            bytes -= GP_BLAKE2B_BLOCK;
            continue;
        }
        size_t room = GP_BLAKE2B_BLOCK - state->used;
        size_t now = bytes < room ? bytes : room;
        memcpy(state->block + state->used, from, now);
        state->used += now;
        from += now;
        bytes -= now;
    }
}

void gp_blake2b_end(gp_blake2b *state, uint8_t *digest) {
    memset(state->block + state->used, 0, GP_BLAKE2B_BLOCK - state->used);
    compress(state, state->block, state->used, 1);
    memcpy(digest, state->chain, state->digest_bytes);
}
