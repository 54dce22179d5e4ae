#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/config_internal.h"

/* One source under way; its names in messages begin with `what` ("data.train"). */
typedef struct source_reader {
    const char *what;
    const char *folder;
    gp_source_config *source;
} source_reader;

typedef struct name {
    char text[64];
} name;

static name name_of(const source_reader *reader, const char *option) {
    name result;
    snprintf(result.text, sizeof result.text, "%s.%s", reader->what, option);
    return result;
}

static gp_status read_idx(const source_reader *reader, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"images", "labels", "mean", "std", NULL};
    gp_source_config *source = reader->source;
    const gp_yaml *options = NULL, *images = NULL, *labels = NULL;
    name what = name_of(reader, "idx");
    GP_RETURN_IF_FAILED(gp_read_options(choice, what.text, known, NULL, &options, err));
    GP_RETURN_IF_FAILED(
        gp_require(options, choice->place, what.text, "images", "images: train-images.gz", &images, err));
    GP_RETURN_IF_FAILED(
        gp_require(options, choice->place, what.text, "labels", "labels: train-labels.gz", &labels, err));
    GP_RETURN_IF_FAILED(gp_read_path(images, name_of(reader, "idx.images").text, reader->folder, &source->images, err));
    GP_RETURN_IF_FAILED(gp_read_path(labels, name_of(reader, "idx.labels").text, reader->folder, &source->labels, err));
    const gp_yaml *mean = gp_yaml_get(options, "mean"), *std = gp_yaml_get(options, "std");
    if (mean)
        GP_RETURN_IF_FAILED(
            gp_read_number(mean, name_of(reader, "idx.mean").text, -INFINITY, INFINITY, 0, &source->mean, err));
    if (std)
        GP_RETURN_IF_FAILED(gp_read_number(std, name_of(reader, "idx.std").text, 0, INFINITY, 1, &source->std, err));
    source->normalise = mean || std;
    return GP_OK;
}

static gp_status read_tensors(const source_reader *reader, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"file", NULL};
    static const char *const later[] = {"target", NULL};
    const gp_yaml *file = choice->main, *options = NULL;
    name what = name_of(reader, "tensors");
    if (!file) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, what.text, known, later, &options, err));
        GP_RETURN_IF_FAILED(
            gp_require(options, choice->place, what.text, "file", "tensors: file.safetensors", &file, err));
    }
    return gp_read_path(file, what.text, reader->folder, &reader->source->file, err);
}

static gp_status read_synthetic(const source_reader *reader, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"samples", "seed", NULL};
    const gp_yaml *samples = choice->main, *options = NULL, *seed = NULL;
    int64_t value = 1;
    name what = name_of(reader, "synthetic");
    if (!samples) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, what.text, known, NULL, &options, err));
        GP_RETURN_IF_FAILED(
            gp_require(options, choice->place, what.text, "samples", "synthetic: {samples: 1000}", &samples, err));
        seed = gp_yaml_get(options, "seed");
    }
    GP_RETURN_IF_FAILED(gp_read_integer(samples, name_of(reader, "synthetic.samples").text, 1, UINT32_MAX,
                                        &reader->source->samples, err));
    if (seed)
        GP_RETURN_IF_FAILED(gp_read_integer(seed, name_of(reader, "synthetic.seed").text, 0, INT64_MAX, &value, err));
    reader->source->seed = (uint64_t)value;
    return GP_OK;
}

static gp_status read_take(const source_reader *reader, const gp_yaml *node, gp_error *err) {
    int64_t bounds[2];
    size_t count = 0;
    name what = name_of(reader, "take");
    if (node->kind != GP_YAML_SEQUENCE || node->count != 2)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: needs two integers, from and up to, as in [0, 5000]",
                          what.text);
    GP_RETURN_IF_FAILED(gp_read_integers(node, what.text, 0, INT64_MAX, 2, bounds, &count, err));
    if (bounds[1] <= bounds[0])
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: [%lld, %lld] takes no sample; the second must be larger",
                          what.text, (long long)bounds[0], (long long)bounds[1]);
    reader->source->take = true;
    reader->source->take_from = bounds[0];
    reader->source->take_to = bounds[1];
    reader->source->take_place = node->place;
    return GP_OK;
}

/* In the order of the names in read_source. */
static const struct {
    gp_source_kind kind;
    gp_status (*read)(const source_reader *reader, const gp_choice *choice, gp_error *err);
} readers[] = {{GP_SOURCE_IDX, read_idx}, {GP_SOURCE_TENSORS, read_tensors}, {GP_SOURCE_SYNTHETIC, read_synthetic}};

static gp_status read_source(const gp_config *config, const gp_yaml *node, const char *what, gp_source_config *source,
                             gp_error *err) {
    static const char *const kinds[] = {"idx", "tensors", "synthetic", NULL};
    static const char *const later[] = {"cifar", "images", "text", "tokens", "boxes", NULL};
    static const char *const beside[] = {"take", "transform", "name", NULL};
    static const char *const beside_later[] = {"name", NULL};
    source_reader reader = {.what = what, .folder = config->folder, .source = source};
    gp_choice choice;
    int kind = 0;
    if (node->kind == GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: several sources in a list are not available yet", what);
    GP_RETURN_IF_FAILED(gp_read_known_kind(node, what, kinds, beside, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, what, kinds, later, &kind, err));
    for (int i = 0; beside_later[i]; i++) {
        const gp_yaml *key = gp_yaml_key(node, beside_later[i]);
        if (key) return gp_fail_at(err, GP_CONFIG, key->place, "%s: \"%s\" is not available yet", what, key->text);
    }
    source->place = choice.place;
    source->std = 1;
    GP_RETURN_IF_FAILED(readers[kind].read(&reader, &choice, err));
    source->kind = readers[kind].kind;
    const gp_yaml *take = gp_yaml_get(node, "take");
    if (take) GP_RETURN_IF_FAILED(read_take(&reader, take, err));
    const gp_yaml *transform = gp_yaml_get(node, "transform");
    return transform ? gp_read_transforms(transform, name_of(&reader, "transform").text, source, err) : GP_OK;
}

gp_status gp_read_data(gp_config *config, const gp_yaml *node, gp_error *err) {
    static const char *const known[] = {"train", "eval", "batch", "shuffle", "drop_last", "threads", NULL};
    gp_data_config *data = &config->data;
    const gp_yaml *batch = NULL;
    GP_RETURN_IF_FAILED(gp_read_mapping(node, "data", err));
    GP_RETURN_IF_FAILED(gp_check_keys(node, "data", known, NULL, err));
    const gp_yaml *train = gp_yaml_get(node, "train"), *eval = gp_yaml_get(node, "eval");
    if (train) GP_RETURN_IF_FAILED(read_source(config, train, "data.train", &data->train, err));
    if (eval) GP_RETURN_IF_FAILED(read_source(config, eval, "data.eval", &data->eval, err));
    GP_RETURN_IF_FAILED(gp_require(node, node->place, "data", "batch", "batch: 64", &batch, err));
    if (batch->kind == GP_YAML_MAPPING)
        return gp_fail_at(err, GP_CONFIG, batch->place,
                          "data.batch: needs one number; another size from step 501 on is written as changes: {501: "
                          "{data.batch: 256}}");
    GP_RETURN_IF_FAILED(gp_read_integer(batch, "data.batch", 1, INT32_MAX, &data->batch, err));
    data->batch_place = batch->place;
    data->shuffle = true;
    GP_RETURN_IF_FAILED(gp_read_optional_boolean(node, "shuffle", "data.shuffle", &data->shuffle, err));
    GP_RETURN_IF_FAILED(gp_read_optional_boolean(node, "drop_last", "data.drop_last", &data->drop_last, err));
    const gp_yaml *threads = gp_yaml_get(node, "threads");
    int64_t count = 1;
    if (threads) GP_RETURN_IF_FAILED(gp_read_integer(threads, "data.threads", 1, GP_MAX_LOADER_THREADS, &count, err));
    data->threads = (int)count;
    return GP_OK;
}
