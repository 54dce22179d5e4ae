#include <math.h>
#include <stdint.h>
#include <string.h>

#include "config/config_internal.h"

/* ---- optimizer --------------------------------------------------------------------------------------------------- */

static gp_status read_sgd(gp_optimizer_config *optimizer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"lr", "momentum", "nesterov", "weight_decay", NULL};
    static const char what[] = "optimizer.sgd";
    const gp_yaml *lr = choice->main, *options = NULL;
    if (!lr) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, what, known, NULL, &options, err));
        GP_RETURN_IF_FAILED(gp_require(options, choice->place, what, "lr", "sgd: {lr: 0.02}", &lr, err));
    }
    GP_RETURN_IF_FAILED(gp_read_number(lr, "optimizer.sgd.lr", 0, INFINITY, 0, &optimizer->lr, err));
    const gp_yaml *value = gp_yaml_get(options, "momentum");
    if (value) GP_RETURN_IF_FAILED(gp_read_number(value, "optimizer.sgd.momentum", 0, 1, 2, &optimizer->momentum, err));
    value = gp_yaml_get(options, "weight_decay");
    if (value)
        GP_RETURN_IF_FAILED(
            gp_read_number(value, "optimizer.sgd.weight_decay", 0, INFINITY, 0, &optimizer->decay, err));
    value = gp_yaml_get(options, "nesterov");
    if (value) GP_RETURN_IF_FAILED(gp_read_boolean(value, "optimizer.sgd.nesterov", &optimizer->nesterov, err));
    if (optimizer->nesterov && optimizer->momentum == 0)
        return gp_fail_at(err, GP_CONFIG, value->place, "optimizer.sgd.nesterov: needs a momentum above 0");
    return GP_OK;
}

static gp_status read_lr_schedule(gp_optimizer_config *optimizer, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"constant", NULL};
    static const char *const later[] = {"step", "multistep", "cosine", NULL};
    static const char *const options[] = {NULL};
    const gp_yaml *none = NULL;
    gp_choice choice;
    int kind = 0;
    GP_RETURN_IF_FAILED(gp_read_kind(node, "optimizer.lr_schedule", NULL, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, "optimizer.lr_schedule", known, later, &kind, err));
    GP_RETURN_IF_FAILED(gp_read_options(&choice, "optimizer.lr_schedule.constant", options, NULL, &none, err));
    optimizer->lr_schedule = (gp_lr_schedule)kind;
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

gp_status gp_read_optimizer(gp_config *config, const gp_yaml *node, gp_error *err) {
    static const char *const kinds[] = {"sgd", NULL};
    static const char *const kinds_later[] = {"adam", "adamw", NULL};
    static const char *const beside[] = {"lr_schedule", "warmup", "clip_norm", "no_decay", NULL};
    static const char *const beside_later[] = {"clip_norm", "no_decay", NULL};
    gp_optimizer_config *optimizer = &config->optimizer;
    gp_choice choice;
    int kind = 0;
    GP_RETURN_IF_FAILED(gp_read_kind(node, "optimizer", beside, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, "optimizer", kinds, kinds_later, &kind, err));
    for (int i = 0; beside_later[i]; i++) {
        const gp_yaml *key = gp_yaml_key(node, beside_later[i]);
        if (key) return gp_fail_at(err, GP_CONFIG, key->place, "optimizer: \"%s\" is not available yet", key->text);
    }
    optimizer->kind = (gp_optimizer_kind)kind;
    GP_RETURN_IF_FAILED(read_sgd(optimizer, &choice, err));
    const gp_yaml *value = gp_yaml_get(node, "lr_schedule");
    if (value) GP_RETURN_IF_FAILED(read_lr_schedule(optimizer, value, err));
    value = gp_yaml_get(node, "warmup");
    return value ? read_warmup(optimizer, value, err) : GP_OK;
}

/* ---- train ------------------------------------------------------------------------------------------------------- */

static gp_status read_length(gp_train_config *train, const gp_yaml *node, gp_error *err) {
    const gp_yaml *epochs = gp_yaml_get(node, "epochs"), *steps = gp_yaml_get(node, "steps");
    const int64_t most = INT64_C(1) << 53; /* exact in JSON's numbers */
    if (!epochs && !steps)
        return gp_fail_at(err, GP_CONFIG, node->place, "train: says neither epochs nor steps, as in epochs: 2");
    if (epochs) GP_RETURN_IF_FAILED(gp_read_integer(epochs, "train.epochs", 1, most, &train->epochs.count, err));
    train->epochs.epochs = true;
    train->steps = -1;
    if (steps) GP_RETURN_IF_FAILED(gp_read_integer(steps, "train.steps", 0, most, &train->steps, err));
    return GP_OK;
}

gp_status gp_read_train(gp_config *config, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"epochs", "steps", "seed", "eval_every", "init", NULL};
    static const char *const later[] = {"precision", "save_every", "keep", NULL};
    gp_train_config *train = &config->train;
    int64_t seed = 1;
    GP_RETURN_IF_FAILED(gp_read_mapping(node, "train", err));
    GP_RETURN_IF_FAILED(gp_check_keys(node, "train", known, later, err));
    GP_RETURN_IF_FAILED(read_length(train, node, err));
    const gp_yaml *value = gp_yaml_get(node, "seed");
    if (value) GP_RETURN_IF_FAILED(gp_read_integer(value, "train.seed", 0, INT64_MAX, &seed, err));
    train->seed = (uint64_t)seed;
    train->eval_every = (gp_time){.count = 1, .epochs = true};
    train->keep = 2;
    value = gp_yaml_get(node, "eval_every");
    if (value) GP_RETURN_IF_FAILED(gp_read_time(value, "train.eval_every", 1, &train->eval_every, err));
    value = gp_yaml_get(node, "init");
    if (!value) return GP_OK;
    train->init_place = value->place;
    if (value->kind == GP_YAML_MAPPING)
        return gp_fail_at(err, GP_CONFIG, value->place,
                          "train.init: options are not available yet; write the file's name");
    return gp_read_path(value, "train.init", config->folder, &train->init, err);
}
