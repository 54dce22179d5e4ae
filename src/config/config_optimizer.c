#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config_internal.h"

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* One kind's options under way: `what` is "optimizer.adam"; `options` may be NULL. */
typedef struct option_reader {
    const char *what;
    const gp_yaml *options;
} option_reader;

typedef struct range {
    double low, high;
    unsigned open; /* as gp_read_number's */
} range;

static const range any_size = {0, INFINITY, 0}, share = {0, 1, 2};

static gp_status read_number(const option_reader *reader, const gp_yaml *node, const char *key, range within,
                             double *out, gp_error *err) {
    char what[64];
    if (!node) return GP_OK;
    snprintf(what, sizeof what, "%s.%s", reader->what, key);
    return gp_read_number(node, what, within.low, within.high, within.open, out, err);
}

static gp_status read_option(const option_reader *reader, const char *key, range within, double *out, gp_error *err) {
    return read_number(reader, gp_yaml_get(reader->options, key), key, within, out, err);
}

static gp_status read_sgd(gp_optimizer_config *optimizer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"lr", "momentum", "nesterov", "weight_decay", NULL};
    option_reader reader = {.what = "optimizer.sgd"};
    const gp_yaml *lr = choice->main;
    if (!lr) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, reader.what, known, NULL, &reader.options, err));
        GP_RETURN_IF_FAILED(gp_require(reader.options, choice->place, reader.what, "lr", "sgd: {lr: 0.02}", &lr, err));
    }
    GP_RETURN_IF_FAILED(read_number(&reader, lr, "lr", any_size, &optimizer->lr, err));
    GP_RETURN_IF_FAILED(read_option(&reader, "momentum", share, &optimizer->momentum, err));
    GP_RETURN_IF_FAILED(read_option(&reader, "weight_decay", any_size, &optimizer->decay, err));
    const gp_yaml *nesterov = gp_yaml_get(reader.options, "nesterov");
    if (nesterov) GP_RETURN_IF_FAILED(gp_read_boolean(nesterov, "optimizer.sgd.nesterov", &optimizer->nesterov, err));
    if (nesterov && optimizer->nesterov && optimizer->momentum == 0)
        return gp_fail_at(err, GP_CONFIG, nesterov->place, "optimizer.sgd.nesterov: needs a momentum above 0");
    return GP_OK;
}

static gp_status read_betas(const option_reader *reader, gp_optimizer_config *optimizer, gp_error *err) {
    const gp_yaml *betas = gp_yaml_get(reader->options, "betas");
    if (!betas) return GP_OK;
    if (betas->kind != GP_YAML_SEQUENCE || betas->count != 2)
        return gp_fail_at(err, GP_CONFIG, betas->place, "%s.betas: needs two numbers in a list, as in [0.9, 0.999]",
                          reader->what);
    GP_RETURN_IF_FAILED(read_number(reader, betas->items[0], "betas", share, &optimizer->beta1, err));
    return read_number(reader, betas->items[1], "betas", share, &optimizer->beta2, err);
}

/* adam and adamw: they differ in where the decay applies, and in its default. */
static gp_status read_adam(gp_optimizer_config *optimizer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"lr", "betas", "eps", "weight_decay", NULL};
    bool decoupled = optimizer->kind == GP_OPTIMIZER_ADAMW;
    option_reader reader = {.what = decoupled ? "optimizer.adamw" : "optimizer.adam"};
    optimizer->lr = 1e-3;
    optimizer->beta1 = 0.9;
    optimizer->beta2 = 0.999;
    optimizer->eps = 1e-8;
    optimizer->decay = decoupled ? 0.01 : 0;
    if (choice->main) return read_number(&reader, choice->main, "lr", any_size, &optimizer->lr, err);
    GP_RETURN_IF_FAILED(gp_read_options(choice, reader.what, known, NULL, &reader.options, err));
    GP_RETURN_IF_FAILED(read_option(&reader, "lr", any_size, &optimizer->lr, err));
    GP_RETURN_IF_FAILED(read_betas(&reader, optimizer, err));
    GP_RETURN_IF_FAILED(read_option(&reader, "eps", any_size, &optimizer->eps, err));
    return read_option(&reader, "weight_decay", any_size, &optimizer->decay, err);
}

/* ---- learning-rate schedules ------------------------------------------------------------------------------------- */

static gp_status read_step(gp_optimizer_config *optimizer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"every", "gamma", NULL};
    option_reader reader = {.what = "optimizer.lr_schedule.step"};
    const gp_yaml *every = choice->main;
    if (!every) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, reader.what, known, NULL, &reader.options, err));
        GP_RETURN_IF_FAILED(gp_require(reader.options, choice->place, reader.what, "every",
                                       "step: {every: 30 epochs, gamma: 0.1}", &every, err));
    }
    GP_RETURN_IF_FAILED(gp_read_time(every, "optimizer.lr_schedule.step.every", 1, &optimizer->lr_every, err));
    return read_option(&reader, "gamma", any_size, &optimizer->lr_gamma, err);
}

static gp_status read_milestones(gp_optimizer_config *optimizer, const gp_yaml *node, gp_error *err) {
    static const char what[] = "optimizer.lr_schedule.multistep.milestones";
    if (node->kind != GP_YAML_SEQUENCE || node->count == 0)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: needs a list of times, as in [30 epochs, 60 epochs]", what);
    if (node->count > GP_MAX_MILESTONES)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: the list has %zu entries; it may have at most %d", what,
                          node->count, GP_MAX_MILESTONES);
    GP_RETURN_IF_FAILED(GP_NEW(&optimizer->lr_milestones, node->count, err));
    optimizer->lr_milestone_count = (int)node->count;
    for (size_t i = 0; i < node->count; i++) {
        gp_time *time = &optimizer->lr_milestones[i];
        GP_RETURN_IF_FAILED(gp_read_time(node->items[i], what, 1, time, err));
        if (i > 0 && time->epochs != time[-1].epochs)
            return gp_fail_at(
                err, GP_CONFIG, node->items[i]->place,
                "%s: %.40s has another unit than the time before it; use steps for all times, or epochs for all", what,
                node->items[i]->text);
        if (i > 0 && time->count <= time[-1].count)
            return gp_fail_at(err, GP_CONFIG, node->items[i]->place,
                              "%s: %.40s is not later than %.40s; each time must be later than the one before it", what,
                              node->items[i]->text, node->items[i - 1]->text);
    }
    return GP_OK;
}

static gp_status read_multistep(gp_optimizer_config *optimizer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"milestones", "gamma", NULL};
    option_reader reader = {.what = "optimizer.lr_schedule.multistep"};
    const gp_yaml *milestones = choice->main;
    if (!milestones) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, reader.what, known, NULL, &reader.options, err));
        GP_RETURN_IF_FAILED(gp_require(reader.options, choice->place, reader.what, "milestones",
                                       "multistep: {milestones: [500], gamma: 0.1}", &milestones, err));
    }
    GP_RETURN_IF_FAILED(read_milestones(optimizer, milestones, err));
    return read_option(&reader, "gamma", any_size, &optimizer->lr_gamma, err);
}

static gp_status read_cosine(gp_optimizer_config *optimizer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"min", NULL};
    option_reader reader = {.what = "optimizer.lr_schedule.cosine"};
    if (choice->main) return read_number(&reader, choice->main, "min", any_size, &optimizer->lr_min, err);
    GP_RETURN_IF_FAILED(gp_read_options(choice, reader.what, known, NULL, &reader.options, err));
    return read_option(&reader, "min", any_size, &optimizer->lr_min, err);
}

static gp_status read_lr_schedule(gp_optimizer_config *optimizer, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"constant", "step", "multistep", "cosine", NULL};
    static const char *const no_options[] = {NULL};
    const gp_yaml *none = NULL;
    gp_choice choice;
    int kind = 0;
    GP_RETURN_IF_FAILED(gp_read_kind(node, "optimizer.lr_schedule", NULL, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, "optimizer.lr_schedule", known, NULL, &kind, err));
    optimizer->lr_schedule = (gp_lr_schedule)kind;
    switch (optimizer->lr_schedule) {
    case GP_LR_CONSTANT:
        return gp_read_options(&choice, "optimizer.lr_schedule.constant", no_options, NULL, &none, err);
    case GP_LR_STEP: return read_step(optimizer, &choice, err);
    case GP_LR_MULTISTEP: return read_multistep(optimizer, &choice, err);
    case GP_LR_COSINE: return read_cosine(optimizer, &choice, err);
    }
    return GP_OK;
}

static gp_status read_warmup(gp_optimizer_config *optimizer, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"length", "from", NULL};
    static const char what[] = "optimizer.warmup";
    const gp_yaml *length = NULL;
    if (node->kind == GP_YAML_SCALAR) return gp_read_time(node, what, 0, &optimizer->warmup, err);
    GP_RETURN_IF_FAILED(gp_read_mapping(node, what, err));
    GP_RETURN_IF_FAILED(gp_check_keys(node, what, known, NULL, err));
    GP_RETURN_IF_FAILED(gp_require(node, node->place, what, "length", "{length: 500, from: 0.1}", &length, err));
    GP_RETURN_IF_FAILED(gp_read_time(length, "optimizer.warmup.length", 0, &optimizer->warmup, err));
    const gp_yaml *from = gp_yaml_get(node, "from");
    return from ? gp_read_number(from, "optimizer.warmup.from", 0, 1, 0, &optimizer->warmup_from, err) : GP_OK;
}

/* ---- the section ------------------------------------------------------------------------------------------------- */

static gp_status read_beside(gp_optimizer_config *optimizer, const gp_yaml *node, gp_error *err) {
    static const char *const left_alone[] = {"norms_and_biases", NULL};
    const gp_yaml *value = gp_yaml_get(node, "lr_schedule");
    int which = 0;
    optimizer->lr_gamma = 0.1;
    if (value) GP_RETURN_IF_FAILED(read_lr_schedule(optimizer, value, err));
    value = gp_yaml_get(node, "warmup");
    if (value) GP_RETURN_IF_FAILED(read_warmup(optimizer, value, err));
    value = gp_yaml_get(node, "clip_norm");
    if (value)
        GP_RETURN_IF_FAILED(gp_read_number(value, "optimizer.clip_norm", 0, INFINITY, 1, &optimizer->clip_norm, err));
    value = gp_yaml_get(node, "no_decay");
    if (!value) return GP_OK;
    optimizer->no_decay = true;
    return gp_read_choice(value, "optimizer.no_decay", left_alone, &which, err);
}

gp_status gp_read_optimizer(gp_config *config, const gp_yaml *node, gp_error *err) {
    static const char *const kinds[] = {"sgd", "adam", "adamw", NULL};
    static const char *const beside[] = {"lr_schedule", "warmup", "clip_norm", "no_decay", NULL};
    gp_optimizer_config *optimizer = &config->optimizer;
    gp_choice choice;
    int kind = 0;
    GP_RETURN_IF_FAILED(gp_read_known_kind(node, "optimizer", kinds, beside, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, "optimizer", kinds, NULL, &kind, err));
    optimizer->kind = (gp_optimizer_kind)kind;
    if (optimizer->kind == GP_OPTIMIZER_SGD)
        GP_RETURN_IF_FAILED(read_sgd(optimizer, &choice, err));
    else
        GP_RETURN_IF_FAILED(read_adam(optimizer, &choice, err));
    return read_beside(optimizer, node, err);
}
