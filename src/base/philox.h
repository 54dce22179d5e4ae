/* Philox 4×32-10: a counter-based random generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). Pure functions; any thread.
 *
 * All randomness of the program is a function of (seed, counter): there is no stream that anybody advances, so that the
 * cut, the schedule and recomputation cannot change a draw. Counters, by purpose:
 *
 *   dropout         {element / 4, place in the mini-batch, node << 8 | purpose, step}, lane element % 4
 *   initial values  {element / 4, hash of the parameter's name (two words), purpose},  lane element % 4
 *   shuffling       {position / 4, epoch, 0, purpose},                                 lane position % 4
 *   synthetic input {element / 8, sample (two words), purpose},          half element % 8, the lower of a word first
 *   and targets     {element / 4, sample (two words), 1 << 8 | purpose},               lane element % 4
 *   transforms      {place in the data file (two words), epoch, draw << 16 | place in the list << 8 | purpose}:
 *                   draw 0 whether (lane 0), and where random_crop begins (row, column); draw 1 + a attempt a of
 *                   random_erasing (area, ratio, row, column)
 *
 * Elements count in PyTorch's order (channels first), or the channels of a sample where dropout takes whole ones; the
 * place in the mini-batch and the index of the node are those of the whole mini-batch and of the expanded graph.
 */
#ifndef GP_BASE_PHILOX_H
#define GP_BASE_PHILOX_H

#include <stdint.h>

typedef struct gp_philox {
    uint32_t word[4];
} gp_philox;

typedef enum gp_random_purpose {
    GP_RANDOM_INITIAL = 1,
    GP_RANDOM_SHUFFLE = 2,
    GP_RANDOM_DROPOUT = 3,
    GP_RANDOM_SYNTHETIC = 4,
    GP_RANDOM_AUGMENT = 5,
} gp_random_purpose;

/* What each round multiplies by and adds to the key. */
#define GP_PHILOX_FACTOR_0 0xD2511F53U
#define GP_PHILOX_FACTOR_1 0xCD9E8D57U
#define GP_PHILOX_STEP_0   0x9E3779B9U
#define GP_PHILOX_STEP_1   0xBB67AE85U
enum { GP_PHILOX_ROUNDS = 10 };

static inline gp_philox gp_philox_draw(uint64_t seed, gp_philox counter) {
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < GP_PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)GP_PHILOX_FACTOR_0 * counter.word[0];
        uint64_t product1 = (uint64_t)GP_PHILOX_FACTOR_1 * counter.word[2];
        gp_philox next = {{(uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0, (uint32_t)product1,
                           (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1, (uint32_t)product0}};
        counter = next;
        key0 += GP_PHILOX_STEP_0;
        key1 += GP_PHILOX_STEP_1;
    }
    return counter;
}

/* A draw as a number in [0, 1): 24 bits, exact in f32. */
static inline double gp_philox_uniform(uint32_t word) {
    return (double)(word >> 8) * 0x1p-24;
}

/* FNV-1a, 64 bits: the words of a parameter's name. */
uint64_t gp_hash_text(const char *text);
/* FNV-1a over bytes, going on from `hash` (0 to begin). */
uint64_t gp_hash_bytes(uint64_t hash, const void *bytes, uint64_t count);

#endif
