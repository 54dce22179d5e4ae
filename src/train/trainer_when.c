/* After which steps an evaluation or a snapshot follows. */
#include "base/clock.h"
#include "train/trainer_internal.h"

bool gp_trainer_evaluates(const gp_trainer *t, int64_t step) {
    if (!t->session->eval) return false;
    if (step == t->session->steps || (t->session->changes > 0 && step == t->session->after)) return true;
    return gp_time_is_due(t->session->config->train.eval_every, t->length, step);
}

bool gp_trainer_saves(const gp_trainer *t, int64_t step) {
    const gp_every *every = &t->session->config->train.save_every;
    if (t->saved == step || step == 0) return false;
    if (every->time.count > 0) return gp_time_is_due(every->time, t->length, step);
    return every->minutes > 0 && gp_now() - t->saved_at >= 60 * every->minutes;
}
