#include "train/loaders.h"

/* Whether a step may begin while the one before is under way: then its mini-batch is held, too. */
static bool may_overlap(const gp_plan *plan) {
    for (int m = 0; m < plan->mini_count; m++)
        if (gp_plan_overlaps(plan, m)) return true;
    return false;
}

gp_loader_options gp_loaders_training(const gp_session *session, int64_t skip) {
    const gp_config *config = session->config;
    return (gp_loader_options){.batch = config->data.batch,
                               .shuffle = config->data.shuffle,
                               .drop_last = config->data.drop_last,
                               .seed = config->train.seed,
                               .first_epoch = 1,
                               .skip = skip,
                               .depth = GP_PREFETCH,
                               .threads = config->data.threads,
                               .held = may_overlap(session->plan) ? 2 : 1};
}

gp_loader_options gp_loaders_evaluation(const gp_session *session) {
    const gp_config *config = session->config;
    return (gp_loader_options){.batch = config->data.batch,
                               .seed = config->train.seed,
                               .first_epoch = 1,
                               .epochs = 1,
                               .depth = GP_PREFETCH,
                               .threads = config->data.threads,
                               .rests = true};
}
