/* init: initial values that a layer's parameters get in place of PyTorch's defaults. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layers/layer.h"

enum { WHAT = 96 };

/* What one output (out: one input) of a weight is connected to, as torch.nn.init counts it. */
static double fan_of(gp_shape shape, bool out) {
    double fan = (double)shape.dim[out ? 0 : 1];
    for (int i = 2; i < shape.rank; i++) fan *= (double)shape.dim[i];
    return fan;
}

/* kaiming_normal_(…, nonlinearity="relu"): the standard deviation √2/√fan. */
static gp_status read_kaiming(const gp_choice *choice, const char *what, gp_param_spec *spec, gp_error *err) {
    static const char *const modes[] = {"fan_in", "fan_out", NULL};
    int mode = 0;
    if (spec->shape.rank < 2)
        return gp_fail_at(err, GP_CONFIG, choice->place,
                          "%s: kaiming_normal needs a weight; a parameter of one dimension has no number of inputs",
                          what);
    if (choice->main) GP_RETURN_IF_FAILED(gp_read_choice(choice->main, what, modes, &mode, err));
    spec->init = GP_INIT_NORMAL;
    spec->value = sqrt(2 / fan_of(spec->shape, mode == 1));
    return GP_OK;
}

static gp_status read_spread(const gp_choice *choice, const char *what, gp_param_spec *spec, gp_init_kind kind,
                             gp_error *err) {
    double value = 0;
    if (!choice->main)
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s: needs a number: {%s: 0.01}", what, choice->kind);
    GP_RETURN_IF_FAILED(gp_read_number(choice->main, what, 0, INFINITY, 0, &value, err));
    spec->init = kind;
    spec->value = value;
    return GP_OK;
}

static gp_status read_distribution(const gp_yaml *node, const char *what, gp_param_spec *spec, gp_error *err) {
    static const char *const known[] = {"normal", "uniform", "kaiming_normal", NULL};
    gp_choice choice;
    GP_RETURN_IF_FAILED(gp_read_kind(node, what, NULL, &choice, err));
    if (choice.options)
        return gp_fail_at(err, GP_CONFIG, choice.options->place, "%s: needs one value: {normal: 0.01}", what);
    if (strcmp(choice.kind, "normal") == 0) return read_spread(&choice, what, spec, GP_INIT_NORMAL, err);
    if (strcmp(choice.kind, "uniform") == 0) return read_spread(&choice, what, spec, GP_INIT_UNIFORM, err);
    if (strcmp(choice.kind, "kaiming_normal") == 0) return read_kaiming(&choice, what, spec, err);
    const char *near = gp_nearest_name(choice.kind, known);
    return gp_fail_at(err, GP_CONFIG, choice.place,
                      "%s: \"%.60s\" is neither a number nor one of normal, uniform, kaiming_normal%s%s%s", what,
                      choice.kind, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool is_constant(const gp_yaml *node) {
    return node->kind == GP_YAML_SCALAR && !node->quoted && node->text[0] != '\0' &&
           strchr("+-.0123456789", *node->text);
}

static gp_status read_one(const gp_yaml *node, const char *kind, gp_param_spec *spec, gp_error *err) {
    char what[WHAT];
    snprintf(what, sizeof what, "%s: init: %s", kind, spec->suffix);
    if (!is_constant(node)) return read_distribution(node, what, spec, err);
    double value = 0;
    GP_RETURN_IF_FAILED(gp_read_number(node, what, -INFINITY, INFINITY, 0, &value, err));
    spec->init = GP_INIT_CONSTANT;
    spec->value = value;
    return GP_OK;
}

gp_status gp_layer_read_init(const gp_choice *choice, gp_param_spec *specs, int count, gp_error *err) {
    const gp_yaml *init = choice->options ? gp_yaml_get(choice->options, "init") : NULL;
    const char *known[GP_LAYER_MAX_PARAMS + 1] = {NULL};
    char what[WHAT];
    int trained = 0;
    if (!init) return GP_OK;
    snprintf(what, sizeof what, "%s: init", choice->kind);
    for (int i = 0; i < count; i++)
        if (!specs[i].buffer) known[trained++] = specs[i].suffix;
    if (trained == 0) return gp_fail_at(err, GP_CONFIG, init->place, "%s: this layer has no parameters", what);
    GP_RETURN_IF_FAILED(gp_read_mapping(init, what, err));
    GP_RETURN_IF_FAILED(gp_check_keys(init, what, known, NULL, err));
    for (int i = 0; i < count; i++) {
        const gp_yaml *node = specs[i].buffer ? NULL : gp_yaml_get(init, specs[i].suffix);
        if (node) GP_RETURN_IF_FAILED(read_one(node, choice->kind, &specs[i], err));
    }
    return GP_OK;
}
