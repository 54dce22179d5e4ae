#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config_internal.h"

enum { MAX_SIZE = 1 << 16, MAX_VALUES = 1024 };

const char *gp_transform_name(gp_transform_kind kind) {
    static const char *const names[] = {
#define GP_TRANSFORM_NAME(suffix, name) name,
        GP_TRANSFORM_MAP(GP_TRANSFORM_NAME)
#undef GP_TRANSFORM_NAME
    };
    return names[kind];
}

/* "data.train.transform: random_crop: size" */
typedef struct name {
    char text[96];
} name;
static name name_of(const char *kind, const char *option) {
    name result;
    snprintf(result.text, sizeof result.text, "%s: %s", kind, option);
    return result;
}

/* The option `key`, which is also what stands in the kind's place where `main`. */
static const gp_yaml *option_of(const gp_choice *choice, const char *key, bool main) {
    if (main && choice->main) return choice->main;
    return choice->options ? gp_yaml_get(choice->options, key) : NULL;
}

/* A number, or a list of them. */
static gp_status read_values(const gp_yaml *node, const char *what, double low, unsigned open, gp_channel_values *out,
                             gp_error *err) {
    if (node->kind == GP_YAML_SEQUENCE && node->count == 0)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: the list is empty", what);
    if (node->kind == GP_YAML_SEQUENCE && node->count > MAX_VALUES)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: the list has %zu entries; it may have at most %d", what,
                          node->count, MAX_VALUES);
    if (node->kind == GP_YAML_MAPPING)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "%s: needs a number, or a list with one for each channel, not a mapping", what);
    out->count = node->kind == GP_YAML_SEQUENCE ? (int)node->count : 1;
    GP_RETURN_IF_FAILED(GP_NEW(&out->value, out->count, err));
    for (int i = 0; i < out->count; i++) {
        const gp_yaml *entry = node->kind == GP_YAML_SEQUENCE ? node->items[i] : node;
        GP_RETURN_IF_FAILED(gp_read_number(entry, what, low, INFINITY, open, &out->value[i], err));
    }
    return GP_OK;
}

static gp_status read_fill(const gp_choice *choice, const char *key, gp_channel_values *out, gp_error *err) {
    const gp_yaml *node = option_of(choice, key, false);
    if (node) return read_values(node, name_of(choice->kind, key).text, -INFINITY, 0, out, err);
    out->count = 1;
    return GP_NEW(&out->value, 1, err);
}

static gp_status read_size(const gp_choice *choice, gp_transform_config *out, gp_error *err) {
    const gp_yaml *node = option_of(choice, "size", true);
    if (!node)
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s: size is missing, as in %s: 32", choice->kind,
                          choice->kind);
    return gp_read_pair(node, name_of(choice->kind, "size").text, 1, MAX_SIZE, out->size, err);
}

/* One number for all sides, [left and right, top and bottom], or [left, top, right, bottom]. */
static gp_status read_pad(const gp_yaml *node, const char *what, int64_t pad[4], gp_error *err) {
    if (node->kind == GP_YAML_SCALAR) {
        GP_RETURN_IF_FAILED(gp_read_integer(node, what, 0, MAX_SIZE, &pad[0], err));
        pad[1] = pad[2] = pad[3] = pad[0];
        return GP_OK;
    }
    if (node->kind != GP_YAML_SEQUENCE || (node->count != 2 && node->count != 4))
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "%s: needs an integer, [left and right, top and bottom], or [left, top, right, bottom]",
                          what);
    for (size_t i = 0; i < 4; i++)
        GP_RETURN_IF_FAILED(gp_read_integer(node->items[i % node->count], what, 0, MAX_SIZE, &pad[i], err));
    return GP_OK;
}

/* Two numbers, the second not below the first. */
static gp_status read_range(const gp_choice *choice, const char *key, double low, double high, unsigned open,
                            double out[2], gp_error *err) {
    const gp_yaml *node = option_of(choice, key, false);
    name what = name_of(choice->kind, key);
    if (!node) return GP_OK;
    if (node->kind != GP_YAML_SEQUENCE || node->count != 2)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: needs two numbers, the minimum and the maximum", what.text);
    for (int i = 0; i < 2; i++)
        GP_RETURN_IF_FAILED(gp_read_number(node->items[i], what.text, low, high, open, &out[i], err));
    if (out[1] < out[0])
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: the maximum %g is less than the minimum %g", what.text,
                          out[1], out[0]);
    return GP_OK;
}

static gp_status read_probability(const gp_choice *choice, gp_transform_config *out, gp_error *err) {
    const gp_yaml *node = option_of(choice, "p", true);
    out->p = 0.5;
    return node ? gp_read_number(node, name_of(choice->kind, "p").text, 0, 1, 0, &out->p, err) : GP_OK;
}

static gp_status read_random_crop(const gp_choice *choice, gp_transform_config *out, gp_error *err) {
    const gp_yaml *pad = option_of(choice, "pad", false);
    GP_RETURN_IF_FAILED(read_size(choice, out, err));
    if (pad) GP_RETURN_IF_FAILED(read_pad(pad, "random_crop: pad", out->pad, err));
    return read_fill(choice, "fill", &out->fill, err);
}

static gp_status read_pads(const gp_choice *choice, gp_transform_config *out, gp_error *err) {
    const gp_yaml *pad = option_of(choice, "pad", true);
    if (!pad) return gp_fail_at(err, GP_CONFIG, choice->place, "pad: pad is missing, as in pad: 2");
    GP_RETURN_IF_FAILED(read_pad(pad, "pad", out->pad, err));
    return read_fill(choice, "fill", &out->fill, err);
}

static gp_status read_normalize(const gp_choice *choice, gp_transform_config *out, gp_error *err) {
    const gp_yaml *mean = option_of(choice, "mean", false), *std = option_of(choice, "std", false);
    if (choice->main || !mean || !std)
        return gp_fail_at(err, GP_CONFIG, choice->place,
                          "normalize: needs mean and std, as in normalize: {mean: [0.5, 0.5, 0.5], std: 0.25}");
    GP_RETURN_IF_FAILED(read_values(mean, "normalize: mean", -INFINITY, 0, &out->mean, err));
    return read_values(std, "normalize: std", 0, 1, &out->std, err);
}

static gp_status read_erasing(const gp_choice *choice, gp_transform_config *out, gp_error *err) {
    out->scale[0] = 0.02;
    out->scale[1] = 0.33;
    out->ratio[0] = 0.3;
    out->ratio[1] = 3.3;
    GP_RETURN_IF_FAILED(read_probability(choice, out, err));
    GP_RETURN_IF_FAILED(read_range(choice, "scale", 0, 1, 0, out->scale, err));
    GP_RETURN_IF_FAILED(read_range(choice, "ratio", 0, INFINITY, 1, out->ratio, err));
    return read_fill(choice, "value", &out->fill, err);
}

/* In the order of GP_TRANSFORM_MAP. */
static const struct {
    const char *keys[6];
    gp_status (*read)(const gp_choice *choice, gp_transform_config *out, gp_error *err);
} readers[] = {
    {{"size", "pad", "fill"}, read_random_crop},
    {{"size"}, read_size},
    {{"pad", "fill"}, read_pads},
    {{"p"}, read_probability},
    {{"p"}, read_probability},
    {{"mean", "std"}, read_normalize},
    {{"p", "scale", "ratio", "value"}, read_erasing},
};

static gp_status read_transform(const gp_yaml *node, const char *what, gp_transform_config *out, gp_error *err) {
    static const char *const kinds[] = {
#define GP_TRANSFORM_NAME(suffix, name) name,
        GP_TRANSFORM_MAP(GP_TRANSFORM_NAME)
#undef GP_TRANSFORM_NAME
            NULL};
    gp_choice choice;
    int kind = 0;
    GP_RETURN_IF_FAILED(gp_read_kind(node, what, NULL, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, what, kinds, NULL, &kind, err));
    out->kind = (gp_transform_kind)kind;
    out->place = choice.place;
    if (choice.options) GP_RETURN_IF_FAILED(gp_check_keys(choice.options, choice.kind, readers[kind].keys, NULL, err));
    return readers[kind].read(&choice, out, err);
}

gp_status gp_read_transforms(const gp_yaml *node, const char *what, gp_source_config *source, gp_error *err) {
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: needs a list, as in [{random_crop: 32}], not %s", what,
                          gp_show_node(node).text);
    if (node->count > GP_MAX_TRANSFORMS)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: the list has %zu entries; it may have at most %d", what,
                          node->count, GP_MAX_TRANSFORMS);
    GP_RETURN_IF_FAILED(GP_NEW(&source->transforms, node->count, err));
    for (size_t i = 0; i < node->count; i++) {
        source->transform_count++;
        GP_RETURN_IF_FAILED(read_transform(node->items[i], what, &source->transforms[i], err));
    }
    return GP_OK;
}

void gp_free_transforms(gp_source_config *source) {
    for (int i = 0; i < source->transform_count; i++) {
        free(source->transforms[i].fill.value);
        free(source->transforms[i].mean.value);
        free(source->transforms[i].std.value);
    }
    free(source->transforms);
}

/* ---- written out ------------------------------------------------------------------------------------------------- */

static void write_list(FILE *file, const char *key, const double *values, int count) {
    fprintf(file, "%s: [", key);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", file);
        gp_write_number(file, values[i]);
    }
    fputs("], ", file);
}

static void write_size(FILE *file, const gp_transform_config *it) {
    fprintf(file, "size: [%lld, %lld], ", (long long)it->size[0], (long long)it->size[1]);
}

static void write_pad(FILE *file, const gp_transform_config *it) {
    fprintf(file, "pad: [%lld, %lld, %lld, %lld], ", (long long)it->pad[0], (long long)it->pad[1],
            (long long)it->pad[2], (long long)it->pad[3]);
    write_list(file, "fill", it->fill.value, it->fill.count);
}

static void write_transform(FILE *file, const gp_transform_config *it) {
    fprintf(file, "{%s: {", gp_transform_name(it->kind));
    switch (it->kind) {
    case GP_TRANSFORM_RANDOM_CROP:
        write_size(file, it);
        write_pad(file, it);
        break;
    case GP_TRANSFORM_CENTER_CROP: write_size(file, it); break;
    case GP_TRANSFORM_PAD: write_pad(file, it); break;
    case GP_TRANSFORM_NORMALIZE:
        write_list(file, "mean", it->mean.value, it->mean.count);
        write_list(file, "std", it->std.value, it->std.count);
        break;
    case GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
    case GP_TRANSFORM_RANDOM_VERTICAL_FLIP:
    case GP_TRANSFORM_RANDOM_ERASING:
        fputs("p: ", file);
        gp_write_number(file, it->p);
        fputs(", ", file);
        break;
    }
    if (it->kind == GP_TRANSFORM_RANDOM_ERASING) {
        write_list(file, "scale", it->scale, 2);
        write_list(file, "ratio", it->ratio, 2);
        write_list(file, "value", it->fill.value, it->fill.count);
    }
    fputs("}}, ", file);
}

void gp_write_transforms(FILE *file, const gp_source_config *source) {
    fputs("[", file);
    for (int i = 0; i < source->transform_count; i++) write_transform(file, &source->transforms[i]);
    fputs("]", file);
}
