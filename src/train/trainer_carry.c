/* The state of the run while its configuration changes: the saver carries a copy over; of several processes each holds
 * its part. It is planned for. */
#include "pipeline/follow.h"
#include "store/parts.h"
#include "train/trainer_internal.h"

/* All processes do it together. */
static gp_status ask_all(gp_trainer *t, int question, gp_status (*own)(gp_trainer *t, gp_error *err), gp_error *err) {
    gp_error failure = {0};
    GP_RETURN_IF_FAILED(gp_run_ask(t->run, question, 0, err));
    GP_RETURN_IF_FAILED(own(t, err));
    GP_RETURN_IF_FAILED(gp_run_answers(t->run, &failure, err));
    if (failure.status != GP_OK) *err = failure;
    return failure.status;
}

static gp_status hold_own(gp_trainer *t, gp_error *err) {
    return gp_held_take(t->run, t->session->plan, &t->held, err);
}

static gp_status give_own(gp_trainer *t, gp_error *err) {
    return gp_held_give(t->held, t->run, t->session->plan, err);
}

/* The loaders go first: the state may take their memory. */
gp_status gp_trainer_take_state(gp_trainer *t, gp_error *err) {
    gp_loader_destroy(&t->training);
    gp_loader_destroy(&t->evaluation);
    t->weights = false; /* nothing can save them */
    if (t->session->plan->processes > 1) return ask_all(t, GP_ASK_HOLD, hold_own, err);
    return gp_saver_take(t->saver, t->run, err);
}

gp_status gp_trainer_give_state(gp_trainer *t, gp_error *err) {
    if (!t->held) return gp_saver_give(t->saver, t->run, t->session->plan, err);
    GP_RETURN_IF_FAILED(ask_all(t, GP_ASK_GIVE, give_own, err));
    gp_held_destroy(&t->held);
    return gp_run_refresh(t->run, err);
}
