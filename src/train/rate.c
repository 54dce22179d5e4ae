#include "train/rate.h"

#include "base/memory.h"

int64_t gp_time_steps(gp_time time, int64_t steps_per_epoch) {
    int64_t steps;
    if (!time.epochs) return time.count;
    return gp_int64_mul(time.count, steps_per_epoch, &steps) ? steps : INT64_MAX;
}

double gp_rate(const gp_optimizer_config *optimizer, int64_t warmup_steps, int64_t step) {
    if (step >= warmup_steps) return optimizer->lr;
    double from = optimizer->warmup_from;
    return optimizer->lr * (from + (1 - from) * (double)step / (double)warmup_steps);
}
