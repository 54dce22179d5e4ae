/* The table of all layers. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "layers/layer.h"
#include "layers/types.h"

#define TYPE(name) &gp_##name##_type,
static const gp_layer_type *const layer_types[] = {GP_LAYER_TYPES(TYPE)};
static const gp_layer_type *const loss_types[] = {GP_LOSS_TYPES(TYPE)};

enum { LAYER_TYPES = sizeof layer_types / sizeof *layer_types, LOSS_TYPES = sizeof loss_types / sizeof *loss_types };

#define NAME(name) #name,
static const char *const layer_names[] = {GP_LAYER_TYPES(NAME) NULL};
static const char *const loss_names[] = {GP_LOSS_TYPES(NAME) NULL};

static const char *const layer_names_later[] = {
    "embedding", "positions",       "attention",         "repeat", "pad", "multiply", "scale", "softmax",
    "lrn",       "conv_transposed", "adaptive_avg_pool", NULL};
static const char *const loss_names_later[] = {"smooth_l1", "l1", NULL};

const gp_layer_type *gp_layer_type_find(const char *name, bool loss) {
    const gp_layer_type *const *types = loss ? loss_types : layer_types;
    int count = loss ? LOSS_TYPES : LAYER_TYPES;
    for (int i = 0; i < count; i++)
        if (strcmp(types[i]->name, name) == 0) return types[i];
    return NULL;
}

const char *const *gp_layer_names(bool loss) {
    return loss ? loss_names : layer_names;
}

const char *const *gp_layer_names_later(bool loss) {
    return loss ? loss_names_later : layer_names_later;
}

const char *gp_layer_main_option(const gp_layer_type *type) {
    return type->options ? type->options[0].name : type->joins ? "from" : NULL;
}

static gp_status refuse_value(const gp_layer_type *type, const gp_choice *choice, gp_error *err) {
    if (type->loss)
        return gp_fail_at(err, GP_CONFIG, choice->main->place, "%s has no options, and takes no value", choice->kind);
    return gp_fail_at(err, GP_CONFIG, choice->main->place,
                      "%s takes no single value: write %s, or its options as a mapping, %s: {name: a}", choice->kind,
                      choice->kind, choice->kind);
}

/* [in, out, kernel], as PyTorch's constructors take them. */
static gp_status refuse_list(const gp_layer_type *type, const gp_choice *choice, gp_error *err) {
    return gp_fail_at(
        err, GP_CONFIG, choice->main->place,
        "%s: a list has no names; write options by name, %s: {%s: …}, without the size of the input, which "
        "the layer knows",
        choice->kind, choice->kind, type->options[0].name);
}

/* Its own, beside those of every layer, which others read. A loss has only its own. */
static gp_status read_options(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const common[] = {"name", "from", "init", "freeze", "checkpoint"};
    static const char *const later[] = {"tie", "lr_mult", "decay_mult", "phase", NULL};
    const gp_layer_type *type = layer->type;
    gp_key keys[GP_MAX_KEYS + 1] = {{0}};
    size_t count = 0, others = type->loss ? 0 : sizeof common / sizeof *common;
    for (const gp_key *key = type->options; key && key->name; key++) keys[count++] = *key;
    assert(count + others <= GP_MAX_KEYS);
    for (size_t i = 0; i < others; i++)
        if (type->params || strcmp(common[i], "init") != 0)
            keys[count++] = (gp_key){.name = common[i], .type = &gp_elsewhere_type};
    if (choice->main && !gp_layer_main_option(type)) return refuse_value(type, choice, err);
    if (choice->main && choice->main->kind == GP_YAML_SEQUENCE && !type->joins &&
        (type->options[0].type == &gp_int64_type || type->options[0].type == &gp_number_type))
        return refuse_list(type, choice, err);
    const gp_key_table table = {
        .keys = keys, .later_keys = type->loss ? type->later : later, .alone = GP_ALONE_ANY, .before_example = ": "};
    const gp_key_context at = {.what = choice->kind, .joint = ": ", .place = choice->place};
    GP_RETURN_IF_FAILED(gp_read_kind_options(&table, choice, &at, layer, err));
    return type->check ? type->check(layer, choice, err) : GP_OK;
}

gp_status gp_layer_create(const gp_layer_type *type, const gp_choice *choice, gp_layer **out, gp_error *err) {
    void *block = NULL;
    assert(type->size == 0 || type->size >= sizeof(gp_layer));
    GP_RETURN_IF_FAILED(gp_new_array(&block, 1, type->size ? type->size : sizeof(gp_layer), err));
    gp_layer *layer = block;
    layer->type = type;
    const gp_yaml *freeze = gp_layer_option(choice, "freeze", false);
    const gp_yaml *checkpoint = gp_layer_option(choice, "checkpoint", false);
    bool recomputed = true;
    gp_status status = read_options(layer, choice, err);
    if (status == GP_OK && freeze) status = gp_read_boolean(freeze, "freeze", &layer->frozen, err);
    if (status == GP_OK && checkpoint) status = gp_read_boolean(checkpoint, "checkpoint", &recomputed, err);
    layer->keeps = !recomputed;
    if (status != GP_OK) {
        gp_layer_destroy(&layer);
        return status;
    }
    *out = layer;
    return GP_OK;
}

void gp_layer_destroy(gp_layer **layer) {
    if (!*layer) return;
    if ((*layer)->type->fini) (*layer)->type->fini(*layer);
    free((*layer)->inputs);
    free(*layer);
    *layer = NULL;
}

static gp_status check_count(const gp_layer_type *type, int count, gp_error *err) {
    if (type->joins ? count >= 2 : count == 1) return GP_OK;
    if (!type->joins) return gp_fail(err, GP_CONFIG, "takes 1 value, not %d", count);
    return gp_fail(err, GP_CONFIG, "takes 2 values or more, not %d: name them, %s: [a, b]", count, type->name);
}

static gp_status check_size(const char *what, gp_shape shape, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    int64_t elements;
    if (!gp_shape_elements(shape, &elements) || elements > GP_LAYER_MAX_ELEMENTS)
        return gp_fail(err, GP_CONFIG, "its %s %s has more than %" PRId64 " elements", what, gp_shape_text(text, shape),
                       GP_LAYER_MAX_ELEMENTS);
    for (int i = 0; i < shape.rank; i++)
        if (shape.dim[i] > GP_LAYER_MAX_DIMENSION)
            return gp_fail(err, GP_CONFIG, "its %s %s has a dimension above %" PRId64, what, gp_shape_text(text, shape),
                           GP_LAYER_MAX_DIMENSION);
    return GP_OK;
}

static gp_status check_sizes(const gp_layer *layer, gp_error *err) {
    GP_RETURN_IF_FAILED(check_size("output", layer->output, err));
    if (!layer->type->params) return GP_OK;
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    int count = layer->type->params(layer, specs);
    for (int i = 0; i < count; i++) GP_RETURN_IF_FAILED(check_size(specs[i].suffix, specs[i].shape, err));
    return GP_OK;
}

gp_status gp_layer_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_error *err) {
    assert(!layer->inputs);
    GP_RETURN_IF_FAILED(check_count(layer->type, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&layer->inputs, count, err));
    memcpy(layer->inputs, inputs, (size_t)count * sizeof *inputs);
    layer->input_count = count;
    layer->output = inputs[0];
    if (layer->type->infer) GP_RETURN_IF_FAILED(layer->type->infer(layer, err));
    return check_sizes(layer, err);
}
