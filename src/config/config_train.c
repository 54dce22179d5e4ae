#include <stdint.h>

#include "base/memory.h"
#include "config/config_internal.h"

static const int64_t most = INT64_C(1) << 53; /* exact in JSON's numbers */

static gp_status read_length(gp_train_config *train, const gp_yaml *node, gp_error *err) {
    const gp_yaml *epochs = gp_yaml_get(node, "epochs"), *steps = gp_yaml_get(node, "steps");
    if (!epochs && !steps)
        return gp_fail_at(err, GP_CONFIG, node->place, "train: needs epochs or steps, as in epochs: 2");
    if (epochs) GP_RETURN_IF_FAILED(gp_read_integer(epochs, "train.epochs", 1, most, &train->epochs.count, err));
    train->epochs.epochs = true;
    train->steps = -1;
    if (steps) GP_RETURN_IF_FAILED(gp_read_integer(steps, "train.steps", 0, most, &train->steps, err));
    return GP_OK;
}

/* A name, or a list of names. */
static gp_status read_skip(gp_train_config *train, const gp_yaml *node, gp_error *err) {
    bool list = node->kind == GP_YAML_SEQUENCE;
    size_t count = list ? node->count : 1;
    if (count == 0 || node->kind == GP_YAML_MAPPING)
        return gp_fail_at(err, GP_CONFIG, node->place, "train.init.skip: needs names of layers, as in [fc, layer4.1]");
    GP_RETURN_IF_FAILED(GP_NEW(&train->init_skip, count, err));
    train->init_skip_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        const gp_yaml *name = list ? node->items[i] : node;
        train->init_skip[i].place = name->place;
        GP_RETURN_IF_FAILED(gp_read_text(name, "train.init.skip", &train->init_skip[i].text, err));
    }
    return GP_OK;
}

static gp_status read_init(gp_config *config, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"file", "skip", NULL};
    gp_train_config *train = &config->train;
    const gp_yaml *file = node, *skip = NULL;
    if (node->kind == GP_YAML_MAPPING) {
        GP_RETURN_IF_FAILED(gp_check_keys(node, "train.init", known, NULL, err));
        GP_RETURN_IF_FAILED(
            gp_require(node, node->place, "train.init", "file", "{file: weights.safetensors, skip: [fc]}", &file, err));
        skip = gp_yaml_get(node, "skip");
    }
    train->init_place = file->place;
    GP_RETURN_IF_FAILED(gp_read_path(file, "train.init", config->folder, &train->init, err));
    return skip ? read_skip(train, skip, err) : GP_OK;
}

static const char *const precisions[] = {"f32", "tf32", NULL}; /* by gp_precision */

const char *gp_precision_name(gp_precision precision) {
    return precisions[precision];
}

static gp_status read_precision(gp_train_config *train, const gp_yaml *node, gp_error *err) {
    static const char *const later[] = {"bf16", "f16", NULL};
    int precision = GP_PRECISION_F32;
    const gp_yaml *value = gp_yaml_get(node, "precision");
    if (value && value->kind == GP_YAML_SCALAR && gp_is_later(value->text, later))
        return gp_fail_at(err, GP_CONFIG, value->place, "train.precision: %s is not available yet; this version has %s",
                          gp_show(value->text).text, gp_list_names(precisions).text);
    if (value) GP_RETURN_IF_FAILED(gp_read_choice(value, "train.precision", precisions, &precision, err));
    train->precision = (gp_precision)precision;
    train->precision_given = value != NULL;
    return GP_OK;
}

gp_status gp_read_train(gp_config *config, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"epochs",     "steps", "seed",      "eval_every", "init",
                                        "save_every", "keep",  "precision", NULL};
    gp_train_config *train = &config->train;
    int64_t seed = 1;
    GP_RETURN_IF_FAILED(gp_read_mapping(node, "train", err));
    GP_RETURN_IF_FAILED(gp_check_keys(node, "train", known, NULL, err));
    GP_RETURN_IF_FAILED(read_length(train, node, err));
    const gp_yaml *value = gp_yaml_get(node, "seed");
    if (value) GP_RETURN_IF_FAILED(gp_read_integer(value, "train.seed", 0, INT64_MAX, &seed, err));
    train->seed = (uint64_t)seed;
    train->eval_every = (gp_time){.count = 1, .epochs = true};
    value = gp_yaml_get(node, "eval_every");
    if (value) GP_RETURN_IF_FAILED(gp_read_time(value, "train.eval_every", 1, &train->eval_every, err));
    value = gp_yaml_get(node, "save_every");
    if (value) GP_RETURN_IF_FAILED(gp_read_every(value, "train.save_every", &train->save_every, err));
    train->keep = 2;
    value = gp_yaml_get(node, "keep");
    if (value) GP_RETURN_IF_FAILED(gp_read_integer(value, "train.keep", 1, most, &train->keep, err));
    GP_RETURN_IF_FAILED(read_precision(train, node, err));
    value = gp_yaml_get(node, "init");
    return value ? read_init(config, value, err) : GP_OK;
}
