/* The order in which a loader reads samples: how many mini-batches an epoch has, and how one is shuffled. */
#include "base/philox.h"
#include "data/loader.h"

int64_t gp_loader_batches(int64_t count, int64_t batch, bool drop_last) {
    if (batch < 1) return 0;
    return count / batch + (!drop_last && count % batch != 0);
}

/* A number below `below`, every one equally likely (Lemire, "Fast random integer generation in an interval", 2019): the
 * few draws that would make some numbers likelier are thrown away, and the next attempt has a counter of its own. */
static gp_philox draw(uint64_t seed, int64_t epoch, int64_t position, uint32_t attempt) {
    gp_philox counter = {{(uint32_t)(position / 4), (uint32_t)epoch, attempt, GP_RANDOM_SHUFFLE}};
    return gp_philox_draw(seed, counter);
}

/* `drawn`: the first attempt of this position and its neighbours. */
static uint32_t draw_below(uint64_t seed, int64_t epoch, int64_t position, gp_philox drawn, uint32_t below) {
    for (uint32_t attempt = 1;; attempt++) {
        uint64_t product = (uint64_t)drawn.word[position % 4] * below;
        if ((uint32_t)product >= (0U - below) % below) return (uint32_t)(product >> 32);
        drawn = draw(seed, epoch, position, attempt);
    }
}

void gp_loader_order(uint64_t seed, int64_t epoch, int64_t count, int64_t *order) {
    gp_philox drawn = {{0}};
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        if (i == count - 1 || i % 4 == 3) drawn = draw(seed, epoch, i, 0);
        int64_t j = draw_below(seed, epoch, i, drawn, (uint32_t)(i + 1));
        int64_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}
