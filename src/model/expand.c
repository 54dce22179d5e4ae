#include "model/expand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"
#include "layers/layer.h"
#include "model/builtin.h"

enum { MAX_INPUT_RANK = 3 };

static const gp_built_in *const built_ins[] = {&gp_resnet_model, &gp_vgg_model};

static const gp_built_in *find_built_in(const char *name) {
    for (size_t i = 0; i < sizeof built_ins / sizeof *built_ins; i++)
        if (strcmp(built_ins[i]->name, name) == 0) return built_ins[i];
    return NULL;
}

/* What the layers are: `layers`, or a built-in model; NULL where neither stands there. */
static const gp_yaml_pair *find_layers(const gp_yaml *model, const gp_yaml_pair *after) {
    for (size_t i = after ? (size_t)(after - model->pairs) + 1 : 0; i < model->count; i++) {
        const char *key = model->pairs[i].key->text;
        if (strcmp(key, "layers") == 0 || find_built_in(key)) return &model->pairs[i];
    }
    return NULL;
}

gp_status gp_model_check(const gp_yaml *model, gp_error *err) {
    static const char *const known[] = {"input", "layers", "loss", "rules", "resnet", "vgg", NULL};
    static const char *const later[] = {"metrics", "unet", "amoebanet_d", "gpt2", "llama",
                                        "mscnn",   "vit",  "huggingface", NULL};
    GP_RETURN_IF_FAILED(gp_read_mapping(model, "model", err));
    GP_RETURN_IF_FAILED(gp_check_keys(model, "model", known, later, err));
    const gp_yaml_pair *layers = find_layers(model, NULL);
    if (!layers)
        return gp_fail_at(err, GP_CONFIG, model->place, "model: layers is missing, or a built-in model: resnet, vgg");
    const gp_yaml_pair *other = find_layers(model, layers);
    if (other)
        return gp_fail_at(err, GP_CONFIG, other->key->place,
                          "model: %s stands beside %s; only one of them can be chosen", other->key->text,
                          layers->key->text);
    if (!gp_yaml_get(model, "loss"))
        return gp_fail_at(err, GP_CONFIG, model->place, "model: loss is missing: loss: cross_entropy");
    return GP_OK;
}

gp_status gp_model_input(const gp_yaml *model, gp_shape *out, gp_error *err) {
    static const char *const known[] = {"shape", NULL};
    static const char *const later[] = {"dtype", "tokens", NULL};
    const gp_yaml *input = gp_yaml_get(model, "input");
    if (!input) return gp_fail_at(err, GP_CONFIG, model->place, "model: input is missing: input: {shape: [1, 28, 28]}");
    if (input->kind == GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, input->place,
                          "model: input: needs a mapping, as in input: {shape: [3, 16, 16]}, not a list");
    GP_RETURN_IF_FAILED(gp_read_mapping(input, "model: input", err));
    GP_RETURN_IF_FAILED(gp_check_keys(input, "model: input", known, later, err));
    const gp_yaml *node = gp_yaml_get(input, "shape");
    if (!node) return gp_fail_at(err, GP_CONFIG, input->place, "model: input: shape is missing: {shape: [1, 28, 28]}");
    gp_shape shape = {0};
    size_t rank = 0;
    int64_t elements;
    if (node->kind == GP_YAML_SEQUENCE && node->count == MAX_INPUT_RANK + 1)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "model: input: shape: the list has %zu entries; it may have at most %d; leave out the batch "
                          "size",
                          node->count, MAX_INPUT_RANK);
    GP_RETURN_IF_FAILED(gp_read_integers(node, "model: input: shape", 1, GP_LAYER_MAX_DIMENSION, MAX_INPUT_RANK,
                                         shape.dim, &rank, err));
    shape.rank = (int)rank;
    if (!gp_shape_elements(shape, &elements) || elements > GP_LAYER_MAX_ELEMENTS) {
        char text[GP_SHAPE_TEXT];
        return gp_fail_at(err, GP_CONFIG, node->place, "model: input: shape %s has too many elements",
                          gp_shape_text(text, shape));
    }
    *out = shape;
    return GP_OK;
}

/* The built-in model as a document, all of it at the model's place. */
static gp_status make_list(const gp_built_in *model, const gp_choice *choice, gp_shape input, gp_yaml_document **out,
                           gp_error *err) {
    const gp_key keys[] = {
        {"depth", &gp_choice_type, offsetof(gp_built_in_options, depth), .names = model->depths,
         .example = model->example},
        {"classes", &gp_int64_type, offsetof(gp_built_in_options, classes), .unsaid = "1000",
         .integer = {1, GP_LAYER_MAX_DIMENSION}},
        {model->may_have_batch_norm ? "batch_norm" : NULL, &gp_boolean_type, offsetof(gp_built_in_options, batch_norm),
         .unsaid = "false"},
        {0},
    };
    const gp_key_table table = {.keys = keys, .alone = GP_ALONE_ANY, .before_example = ": "};
    const gp_key_context at = {.what = model->name, .joint = ": ", .place = choice->place};
    gp_built_in_options options = {0};
    char *text = NULL;
    size_t bytes = 0;
    GP_RETURN_IF_FAILED(gp_read_kind_options(&table, choice, &at, &options, err));
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return gp_fail(err, GP_MEMORY, "out of memory: the layers of %s", model->name);
    gp_status status = model->write(&options, choice->place, input, file, err);
    bool failed = ferror(file) != 0;
    if ((fclose(file) != 0 || failed) && status == GP_OK)
        status = gp_fail(err, GP_MEMORY, "out of memory: the layers of %s", model->name);
    if (status == GP_OK) status = gp_yaml_parse_at(text, bytes, choice->place, out, err);
    free(text);
    return status;
}

gp_status gp_model_layers(const gp_yaml *model, gp_layer_list *out, gp_error *err) {
    static const char *const beside[] = {"input", "loss", "rules", NULL};
    const gp_yaml_pair *pair = find_layers(model, NULL);
    const gp_built_in *built_in = find_built_in(pair->key->text);
    gp_layer_list list = {.layers = pair->value};
    if (built_in) {
        gp_shape input = {0};
        gp_choice choice;
        GP_RETURN_IF_FAILED(gp_model_input(model, &input, err));
        GP_RETURN_IF_FAILED(gp_read_kind(model, "model", beside, &choice, err));
        GP_RETURN_IF_FAILED(make_list(built_in, &choice, input, &list.made, err));
        list.layers = gp_yaml_root(list.made);
    }
    *out = list;
    return GP_OK;
}

void gp_layer_list_fini(gp_layer_list *list) {
    gp_yaml_destroy(&list->made);
    list->layers = NULL;
}

static void remove_key(gp_yaml *mapping, const char *key) {
    size_t kept = 0;
    for (size_t i = 0; i < mapping->count; i++)
        if (strcmp(mapping->pairs[i].key->text, key) != 0) mapping->pairs[kept++] = mapping->pairs[i];
    mapping->count = kept;
}

void gp_model_put_layers(gp_yaml *model, const gp_layer_list *list) {
    gp_yaml_pair *pair = &model->pairs[find_layers(model, NULL) - model->pairs];
    pair->key->text = "layers";
    pair->value = gp_yaml_root(list->made);
    remove_key(model, "rules");
}
