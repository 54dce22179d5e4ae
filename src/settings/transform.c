/* The keys of `transform`, torchvision's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "settings/tables_internal.h"

enum { MAX_SIZE = 1 << 16, MAX_VALUES = 1024 };

#define AT(field)         offsetof(gp_transform_config, field)
#define VALUE(type)       ((type *)((char *)base + key->offset))
#define CONST_VALUE(type) ((const type *)((const char *)base + key->offset))

static void write_integers(FILE *file, const int64_t *value, int count) {
    for (int i = 0; i < count; i++) fprintf(file, "%s%lld", i ? ", " : "[", (long long)value[i]);
    fputs("]", file);
}

static void write_numbers(FILE *file, const double *value, int count) {
    for (int i = 0; i < count; i++) {
        fputs(i ? ", " : "[", file);
        gp_write_number(file, value[i]);
    }
    fputs("]", file);
}

/* One number for all sides, [left and right, top and bottom], or [left, top, right, bottom]. */
static gp_status read_pad(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base, gp_error *err) {
    bool list = node->kind == GP_YAML_SEQUENCE;
    if (node->kind == GP_YAML_MAPPING || (list && node->count != 2 && node->count != 4))
        return gp_refuse(node->place, at->what, err,
                         "needs an integer, [left and right, top and bottom], or [left, top, right, bottom]");
    for (size_t i = 0; i < 4; i++)
        GP_RETURN_IF_FAILED(gp_read_integer(list ? node->items[i % node->count] : node, at->what, key->integer.low,
                                            key->integer.high, VALUE(int64_t) + i, err));
    return GP_OK;
}

static void write_pad(FILE *file, const gp_key *key, const void *base) {
    write_integers(file, CONST_VALUE(int64_t), 4);
}

static const gp_key_type pad_type = {"integer or list", read_pad, write_pad, NULL};

/* A number, or one for each channel. */
static gp_status check_values(const gp_yaml *node, const char *what, gp_error *err) {
    if (node->kind == GP_YAML_SEQUENCE && node->count == 0)
        return gp_refuse(node->place, what, err, "the list is empty");
    if (node->kind == GP_YAML_SEQUENCE && node->count > MAX_VALUES)
        return gp_refuse(node->place, what, err, "the list has %zu entries; it may have at most %d", node->count,
                         MAX_VALUES);
    if (node->kind == GP_YAML_MAPPING)
        return gp_refuse(node->place, what, err, "needs a number, or a list with one for each channel, not a mapping");
    return GP_OK;
}

static gp_status read_values(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                             gp_error *err) {
    gp_channel_values *out = VALUE(gp_channel_values);
    bool list = node->kind == GP_YAML_SEQUENCE;
    GP_RETURN_IF_FAILED(check_values(node, at->what, err));
    out->count = list ? (int)node->count : 1;
    GP_RETURN_IF_FAILED(GP_NEW(&out->value, out->count, err));
    for (int i = 0; i < out->count; i++)
        GP_RETURN_IF_FAILED(gp_read_number(list ? node->items[i] : node, at->what, key->number.low, key->number.high,
                                           key->number.open, &out->value[i], err));
    return GP_OK;
}

static void write_values(FILE *file, const gp_key *key, const void *base) {
    write_numbers(file, CONST_VALUE(gp_channel_values)->value, CONST_VALUE(gp_channel_values)->count);
}

static const gp_key_type values_type = {"number, or a list by channel", read_values, write_values, NULL};

/* Two numbers, the second not below the first. */
static gp_status read_range(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    double *out = VALUE(double);
    if (node->kind != GP_YAML_SEQUENCE || node->count != 2)
        return gp_refuse(node->place, at->what, err, "needs two numbers, the minimum and the maximum");
    for (int i = 0; i < 2; i++)
        GP_RETURN_IF_FAILED(gp_read_number(node->items[i], at->what, key->number.low, key->number.high,
                                           key->number.open, &out[i], err));
    if (out[1] < out[0]) {
        char text[2][GP_NUMBER_TEXT];
        return gp_refuse(node->place, at->what, err, "the maximum %s is less than the minimum %s",
                         gp_number_text(text[1], out[1]), gp_number_text(text[0], out[0]));
    }
    return GP_OK;
}

static void write_range(FILE *file, const gp_key *key, const void *base) {
    write_numbers(file, CONST_VALUE(double), 2);
}

static const gp_key_type range_type = {"`[minimum, maximum]`", read_range, write_range, NULL};

#define ANY   .number = {-INFINITY, INFINITY, 0}
#define SIDES .integer = {0, MAX_SIZE}
#define SIZE(shown)                                                                                                    \
    { "size", &gp_pair_type, AT(size), .integer = {1, MAX_SIZE}, .example = (shown) }
#define FILL(name)                                                                                                     \
    { (name), &values_type, AT(fill), .unsaid = "0", ANY }
#define PROBABILITY                                                                                                    \
    {                                                                                                                  \
        "p", &gp_number_type, AT(p), .unsaid = "0.5", .number = { 0, 1, 0 }                                            \
    }

static const gp_key random_crop_keys[] = {
    SIZE("random_crop: 32"), {"pad", &pad_type, AT(pad), .unsaid = "0", SIDES}, FILL("fill"), {0}};
static const gp_key center_crop_keys[] = {SIZE("center_crop: 32"), {0}};
static const gp_key pad_keys[] = {
    {"pad", &pad_type, AT(pad), .example = "pad: 2", SIDES, .flags = GP_KEY_UNNAMED}, FILL("fill"), {0}};
static const gp_key flip_keys[] = {PROBABILITY, {0}};
static const gp_key normalize_keys[] = {
    {"mean", &values_type, AT(mean), ANY, .example = ""},
    {"std", &values_type, AT(std), .number = {0, INFINITY, 1}, .example = ""},
    {0},
};
static const gp_key erasing_keys[] = {
    PROBABILITY,
    {"scale", &range_type, AT(scale), .unsaid = "[0.02, 0.33]", .number = {0, 1, 0}},
    {"ratio", &range_type, AT(ratio), .unsaid = "[0.3, 3.3]", .number = {0, INFINITY, 1}},
    FILL("value"),
    {0},
};
static const gp_key_kind transforms[] = {
    {"random_crop", GP_TRANSFORM_RANDOM_CROP, .options = {.keys = random_crop_keys, .alone = GP_ALONE_ANY}},
    {"center_crop", GP_TRANSFORM_CENTER_CROP, .options = {.keys = center_crop_keys, .alone = GP_ALONE_ANY}},
    {"pad", GP_TRANSFORM_PAD, .options = {.keys = pad_keys, .alone = GP_ALONE_ANY}},
    {"random_horizontal_flip", GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP,
     .options = {.keys = flip_keys, .alone = GP_ALONE_ANY}},
    {"random_vertical_flip", GP_TRANSFORM_RANDOM_VERTICAL_FLIP, .options = {.keys = flip_keys, .alone = GP_ALONE_ANY}},
    {"normalize", GP_TRANSFORM_NORMALIZE,
     .options = {.keys = normalize_keys, .needs = "mean and std, as in normalize: {mean: [0.5, 0.5, 0.5], std: 0.25}"}},
    {"random_erasing", GP_TRANSFORM_RANDOM_ERASING, .options = {.keys = erasing_keys, .alone = GP_ALONE_ANY}},
    {0},
};
const gp_key_table gp_transform_table = {
    .kinds = transforms, .kind = AT(kind), .kind_place = AT(place), .short_names = true};

static gp_status read_transforms(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                                 gp_error *err) {
    gp_source_config *source = base;
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_refuse(node->place, at->what, err, "needs a list, as in [{random_crop: 32}], not %s",
                         gp_show_node(node).text);
    if (node->count > GP_MAX_TRANSFORMS)
        return gp_refuse(node->place, at->what, err, "the list has %zu entries; it may have at most %d", node->count,
                         GP_MAX_TRANSFORMS);
    GP_RETURN_IF_FAILED(GP_NEW(&source->transforms, node->count, err));
    gp_status status = GP_OK;
    for (size_t i = 0; i < node->count; i++) {
        gp_error next = {0};
        if (gp_read_table(key->table, node->items[i], at, &source->transforms[source->transform_count++], &next) !=
            GP_OK)
            status = gp_error_join(err, status, &next);
    }
    return status;
}

static void write_transforms(FILE *file, const gp_key *key, const void *base) {
    const gp_source_config *source = base;
    fputs("[", file);
    for (int i = 0; i < source->transform_count; i++) {
        gp_write_table(file, key->table, &source->transforms[i]);
        fputs(", ", file);
    }
    fputs("]", file);
}

const gp_key_type gp_transforms_type = {"list", read_transforms, write_transforms, NULL};

void gp_free_transforms(gp_source_config *source) {
    for (int i = 0; i < source->transform_count; i++) {
        free(source->transforms[i].fill.value);
        free(source->transforms[i].mean.value);
        free(source->transforms[i].std.value);
    }
    free(source->transforms);
}
