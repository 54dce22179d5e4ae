/* The keys of `train`. */
#include "base/memory.h"
#include "settings/tables_internal.h"

#define AT(field) offsetof(gp_train_config, field)

#define MOST (INT64_C(1) << 53) /* exact in JSON's numbers */

/* A name, or a list of names. */
static gp_status read_skip(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    gp_train_config *train = base;
    bool list = node->kind == GP_YAML_SEQUENCE;
    size_t count = list ? node->count : 1;
    (void)key;
    if (count == 0 || node->kind == GP_YAML_MAPPING)
        return gp_refuse(node->place, at->what, err, "needs names of layers, as in [fc, layer4.1]");
    GP_RETURN_IF_FAILED(GP_NEW(&train->init_skip, count, err));
    train->init_skip_count = (int)count;
    for (size_t i = 0; i < count; i++)
        GP_RETURN_IF_FAILED(gp_read_name(list ? node->items[i] : node, at->what, &train->init_skip[i], err));
    return GP_OK;
}

static void write_skip(FILE *file, const gp_key *key, const void *base) {
    const gp_train_config *train = base;
    (void)key;
    gp_write_names(file, train->init_skip, train->init_skip_count);
}

static const gp_key_type skip_type = {"list of layers", read_skip, write_skip, NULL};

static const gp_key init_keys[] = {
    {"file", &gp_path_type, AT(init), .example = "{file: weights.safetensors, skip: [fc]}", .place = AT(init_place),
     .flags = GP_KEY_UNNAMED},
    {"skip", &skip_type, .count = AT(init_skip_count)},
    {0},
};
static const gp_key_table init_table = {.keys = init_keys, .alone = GP_ALONE_ANY};

static const char *const precisions[] = {"f32", "tf32", NULL}; /* by gp_precision */
static const char *const later_precisions[] = {"bf16", "f16", NULL};

static gp_status check_length(const gp_yaml *mapping, const gp_key_context *at, const void *base, gp_error *err) {
    const gp_train_config *train = base;
    (void)at;
    if (train->epochs.count > 0 || train->steps >= 0) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, mapping->place, "train: needs epochs or steps, as in epochs: 2");
}

static const gp_key train_keys[] = {
    {"epochs", &gp_int64_type, AT(epochs.count), .integer = {1, MOST}, .change = GP_CHANGE_FREELY},
    {"steps", &gp_int64_type, AT(steps), .integer = {0, MOST}, .change = GP_CHANGE_FREELY},
    {"seed", &gp_int64_type, AT(seed), .unsaid = "1", .integer = {0, INT64_MAX},
     GP_FIXED("the order of samples, dropout and augmentation follow from it")},
    {"eval_every", &gp_time_type, AT(eval_every), .unsaid = "1 epoch", .integer = {1, 0}, .change = GP_CHANGE_FREELY},
    {"init", &gp_table_type, .table = &init_table, GP_FIXED("it is read before the first step only")},
    {"save_every", &gp_every_type, AT(save_every), .unsaid = "about 10 minutes", .change = GP_CHANGE_MACHINE},
    {"keep", &gp_int64_type, AT(keep), .unsaid = "2", .integer = {1, MOST}, .change = GP_CHANGE_MACHINE},
    {"precision", &gp_choice_type, AT(precision), .unsaid = "f32", .names = precisions, .later = later_precisions,
     .given = AT(precision_given)},
    {0},
};
static const char *const later[] = {"best", "stop", "save_as", NULL};
const gp_key_table gp_train_table = {.keys = train_keys, .later_keys = later, .check = check_length};
