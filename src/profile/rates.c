#include "profile/rates.h"

#include <math.h>

/* Enough for ops to settle on the side where they belong. */
enum { FIT_TURNS = 20 };

gp_rates gp_rates_assumed(int threads) {
    const gp_rates one = {.flops = GP_COUNTED_FLOPS_PER_SECOND,
                          .bytes = GP_COUNTED_BYTES_PER_SECOND,
                          .copy_bytes = GP_COUNTED_BYTES_PER_SECOND};
    return gp_rates_of_threads(&one, threads);
}

gp_rates gp_rates_of_threads(const gp_rates *one, int threads) {
    gp_rates rates = *one;
    rates.flops *= threads > 1 ? threads : 1;
    rates.bytes *= threads > 1 ? threads : 1;
    return rates;
}

static bool is_computing(const gp_rates *rates, double flops, double bytes) {
    return flops / rates->flops > bytes / rates->bytes;
}

double gp_rates_seconds(const gp_rates *rates, double flops, double bytes) {
    double longer = is_computing(rates, flops, bytes) ? flops / rates->flops : bytes / rates->bytes;
    return longer + rates->latency;
}

/* Work and time of the ops that compute, and of those that move memory. */
typedef struct sums {
    double flops, flop_seconds, bytes, byte_seconds;
} sums;

static bool counts(const gp_timed_work *work) {
    return work->ops > 0 && work->seconds > 0;
}

static sums add_up(const gp_timed_work *work, size_t count, const gp_rates *rates) {
    sums all = {0};
    for (size_t i = 0; i < count; i++) {
        double seconds = work[i].seconds - work[i].ops * rates->latency;
        if (!counts(&work[i]) || !(seconds > 0)) continue;
        if (is_computing(rates, work[i].flops, work[i].bytes)) {
            all.flops += work[i].flops;
            all.flop_seconds += seconds;
        } else {
            all.bytes += work[i].bytes;
            all.byte_seconds += seconds;
        }
    }
    return all;
}

void gp_rates_fit(const gp_timed_work *work, size_t count, gp_rates *rates) {
    double latency = HUGE_VAL;
    for (size_t i = 0; i < count; i++)
        if (counts(&work[i]) && work[i].seconds / work[i].ops < latency) latency = work[i].seconds / work[i].ops;
    rates->latency = latency < HUGE_VAL ? latency : 0;
    for (int turn = 0; turn < FIT_TURNS; turn++) {
        sums all = add_up(work, count, rates);
        if (all.flops > 0) rates->flops = all.flops / all.flop_seconds;
        if (all.bytes > 0) rates->bytes = all.bytes / all.byte_seconds;
    }
}
