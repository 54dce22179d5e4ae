/* The keys of `data`. */
#include <math.h>

#include "settings/tables_internal.h"

#define AT(field) offsetof(gp_source_config, field)

static gp_status read_take(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    gp_source_config *source = base;
    int64_t bounds[2];
    size_t count = 0;
    (void)key;
    if (node->kind != GP_YAML_SEQUENCE || node->count != 2)
        return gp_refuse(node->place, at->what, err, "needs two integers, from and up to, as in [0, 5000]");
    GP_RETURN_IF_FAILED(gp_read_integers(node, at->what, 0, INT64_MAX, 2, bounds, &count, err));
    if (bounds[1] <= bounds[0])
        return gp_refuse(node->place, at->what, err, "[%lld, %lld] takes no sample; the second must be larger",
                         (long long)bounds[0], (long long)bounds[1]);
    source->take_from = bounds[0];
    source->take_to = bounds[1];
    return GP_OK;
}

static void write_take(FILE *file, const gp_key *key, const void *base) {
    const gp_source_config *source = base;
    (void)key;
    fprintf(file, "[%lld, %lld]", (long long)source->take_from, (long long)source->take_to);
}

static const gp_key_type take_type = {"`[from, up to]`", read_take, write_take, NULL};

static const gp_key idx_keys[] = {
    {"images", &gp_path_type, AT(images), .example = "images: train-images.gz"},
    {"labels", &gp_path_type, AT(labels), .example = "labels: train-labels.gz"},
    {"mean", &gp_number_type, AT(mean), .unsaid = "0", .number = {-INFINITY, INFINITY, 0}, GP_IF_GIVEN(AT(normalise))},
    {"std", &gp_number_type, AT(std), .unsaid = "1", .number = {0, INFINITY, 1}, GP_IF_GIVEN(AT(normalise))},
    {0},
};
static const gp_key tensors_keys[] = {
    {"file", &gp_path_type, AT(file), .example = "tensors: file.safetensors", .flags = GP_KEY_UNNAMED},
    {0},
};
static const gp_key synthetic_keys[] = {
    {"samples", &gp_int64_type, AT(samples), .integer = {1, UINT32_MAX}, .example = "synthetic: {samples: 1000}"},
    {"seed", &gp_int64_type, AT(seed), .unsaid = "1", .integer = {0, INT64_MAX}},
    {0},
};
static const gp_key beside_train[] = {
    {"take", &take_type, GP_IF_GIVEN(AT(take)), .place = AT(take_place)},
    {"transform", &gp_transforms_type, .table = &gp_transform_table, .count = AT(transform_count),
     .change = GP_CHANGE_BY_STEP},
    {0},
};
static const gp_key beside_eval[] = {
    {"take", &take_type, GP_IF_GIVEN(AT(take)), .place = AT(take_place)},
    {"transform", &gp_transforms_type, .table = &gp_transform_table, .count = AT(transform_count)},
    {0},
};
static const char *const later_target[] = {"target", NULL}, *const later_name[] = {"name", NULL},
                         *const later_sources[] = {"cifar", "images", "text", "tokens", "boxes", NULL};
static const gp_key_kind sources[] = {
    {"idx", GP_SOURCE_IDX, .options = {.keys = idx_keys}},
    {"tensors", GP_SOURCE_TENSORS,
     .options = {.keys = tensors_keys, .alone = GP_ALONE_ANY, .later_keys = later_target}},
    {"synthetic", GP_SOURCE_SYNTHETIC, .options = {.keys = synthetic_keys, .alone = GP_ALONE_ANY}},
    {0},
};
#define SOURCE_TABLE(beside)                                                                                           \
    {                                                                                                                  \
        .keys = (beside), .kinds = sources, .kind = AT(kind), .kind_place = AT(place), .later_kinds = later_sources,   \
        .later_keys = later_name                                                                                       \
    }
static const gp_key_table train_table = SOURCE_TABLE(beside_train), eval_table = SOURCE_TABLE(beside_eval);
#undef AT

#define AT(field) offsetof(gp_data_config, field)
#define NO_LIST   .refused = {GP_YAML_SEQUENCE, "several sources in a list are not available yet"}

static const gp_key data_keys[] = {
    {"train", &gp_table_type, AT(train), .table = &train_table, NO_LIST,
     GP_FIXED("an epoch goes through the samples that it began with")},
    {"eval", &gp_table_type, AT(eval), .table = &eval_table, NO_LIST,
     GP_FIXED("evaluations before and after the change could not be compared")},
    {"batch", &gp_int64_type, AT(batch), .integer = {1, INT32_MAX}, .example = "batch: 64", .place = AT(batch_place),
     .refused = {GP_YAML_MAPPING,
                 "needs one number; another size from step 501 on is written as changes: {501: {data.batch: 256}}"}},
    {"shuffle", &gp_boolean_type, AT(shuffle), .unsaid = "true",
     GP_FIXED("the order of samples in an epoch follows from it")},
    {"drop_last", &gp_boolean_type, AT(drop_last), .unsaid = "false"},
    {"threads", &gp_int_type, AT(threads), .unsaid = "1", .integer = {1, GP_MAX_LOADER_THREADS},
     .change = GP_CHANGE_MACHINE},
    {0},
};
const gp_key_table gp_data_table = {.keys = data_keys};
