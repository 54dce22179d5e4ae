#include "model/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/read.h"
#include "model/entries.h"
#include "model/expand.h"
#include "model/graph.h"

enum { WHAT = 120 };

/* One rule under way, over the graph of the list as it stands without rules. */
typedef struct rule {
    const gp_graph *graph;
    gp_yaml_document *document; /* of the list; owns what is added to it */
    gp_yaml ***items;           /* for each layer, where its entry stands in the list */
    const gp_yaml *key, *options;
    char what[WHAT]; /* "model.rules: layer1" */
    bool *layers;    /* [layers of the graph]: matched */
    bool *params;    /* [params]: matched by themselves, if no layer is */
} rule;

static int layers_of(const gp_graph *graph) {
    return graph->node_count - 1; /* without the loss */
}

/* ---- what a rule matches ----------------------------------------------------------------------------------------- */

bool gp_rule_matches(const char *pattern, const char *name) {
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == *name || *pattern == '?') {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

typedef enum match_kind { BELOW, KIND, PATTERN } match_kind;

/* BELOW: the name itself, or what stands below it: layer1, layer1.0.conv1. */
static bool matches(const gp_node *node, match_kind by, const char *text) {
    size_t length = strlen(text);
    if (by == KIND) return strcmp(node->layer->type->name, text) == 0;
    if (by == PATTERN) return gp_rule_matches(text, node->name);
    return strncmp(node->name, text, length) == 0 && (node->name[length] == '\0' || node->name[length] == '.');
}

static bool match_layers(rule *r, match_kind by, const char *text) {
    bool any = false;
    for (int n = 0; n < layers_of(r->graph); n++) {
        r->layers[n] = matches(&r->graph->nodes[n], by, text);
        any = any || r->layers[n];
    }
    return any;
}

static bool match_params(rule *r) {
    bool any = false;
    for (int p = 0; p < r->graph->param_count; p++) {
        r->params[p] = !r->graph->params[p].spec.buffer && gp_rule_matches(r->key->text, r->graph->params[p].name);
        any = any || r->params[p];
    }
    return any;
}

/* A layer's name, or what names go on below, that is spelled nearly so. */
static bool find_near(const rule *r, char near[WHAT]) {
    for (int n = 0; n < layers_of(r->graph); n++) {
        const char *name = r->graph->nodes[n].name;
        for (const char *end = name + strcspn(name, ".");; end += 1 + strcspn(end + 1, ".")) {
            const char *const known[] = {near, NULL};
            snprintf(near, WHAT, "%.*s", (int)(end - name), name);
            if (gp_nearest_name(r->key->text, known)) return true;
            if (*end == '\0') break;
        }
    }
    bool is_kind = gp_layer_type_find(r->key->text, false);
    const char *kind = is_kind ? NULL : gp_nearest_name(r->key->text, gp_layer_names(false));
    if (kind) snprintf(near, WHAT, "%s", kind);
    return kind != NULL;
}

static gp_status match(rule *r, gp_error *err) {
    static const char kind[] = "kind:";
    bool of_kind = strncmp(r->key->text, kind, sizeof kind - 1) == 0;
    const char *name = r->key->text + (of_kind ? sizeof kind - 1 : 0);
    char near[WHAT];
    if (!of_kind && match_layers(r, BELOW, name)) return GP_OK;
    if (match_layers(r, KIND, name)) return GP_OK;
    if (!of_kind && strpbrk(name, "*?") && match_layers(r, PATTERN, name)) return GP_OK;
    if (!of_kind && match_params(r)) return GP_OK;
    if (of_kind)
        return gp_fail_at(err, GP_CONFIG, r->key->place, "model.rules: no layer is of the kind \"%.60s\"%s", name,
                          gp_layer_type_find(name, false) ? "" : gp_suggest(name, gp_layer_names(false)).text);
    if (strpbrk(name, "*?"))
        return gp_fail_at(err, GP_CONFIG, r->key->place,
                          "model.rules: no layer and no parameter has a name like \"%.60s\"; --expand lists the layers",
                          name);
    bool found = find_near(r, near);
    return gp_fail_at(err, GP_CONFIG, r->key->place, "model.rules: no layer has the name or the kind \"%.60s\"%s%s%s",
                      name, found ? "; did you mean " : "; --expand lists the layers", found ? near : "",
                      found ? "?" : "");
}

/* ---- writing into the list --------------------------------------------------------------------------------------- */

/* The options of layer `n`'s entry; made of what stands there if it has none: `relu`, `max_pool: 2`. */
static gp_status options_of(const rule *r, int n, gp_yaml **out, gp_error *err) {
    gp_yaml **item = r->items[n], *mapping = NULL, *options = NULL;
    const gp_layer_type *type = r->graph->nodes[n].layer->type;
    if ((*item)->kind == GP_YAML_MAPPING && (*item)->pairs[0].value->kind == GP_YAML_MAPPING) {
        *out = (*item)->pairs[0].value;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(gp_yaml_new_mapping(r->document, (*item)->place, &options, err));
    if ((*item)->kind == GP_YAML_MAPPING) {
        gp_yaml *value = (*item)->pairs[0].value;
        bool main = value->kind != GP_YAML_SCALAR || value->quoted || value->text[0];
        if (main)
            GP_RETURN_IF_FAILED(
                gp_yaml_set(r->document, options, gp_layer_main_option(type), value->place, value, err));
        (*item)->pairs[0].value = options;
    } else {
        GP_RETURN_IF_FAILED(gp_yaml_new_mapping(r->document, (*item)->place, &mapping, err));
        GP_RETURN_IF_FAILED(gp_yaml_set(r->document, mapping, type->name, (*item)->place, options, err));
        *item = mapping;
    }
    *out = options;
    return GP_OK;
}

/* The value is the rule's own node, so that messages about it have its place. */
static gp_status set_option(const rule *r, int n, const gp_yaml_pair *option, gp_error *err) {
    gp_yaml *options = NULL;
    GP_RETURN_IF_FAILED(options_of(r, n, &options, err));
    return gp_yaml_set(r->document, options, option->key->text, option->key->place, option->value, err);
}

static gp_status set_init(const rule *r, int p, gp_place place, gp_yaml *value, gp_error *err) {
    const gp_param *param = &r->graph->params[p];
    gp_yaml *options = NULL, *init = NULL;
    GP_RETURN_IF_FAILED(options_of(r, param->node, &options, err));
    init = gp_yaml_get(options, "init");
    if (!init) {
        GP_RETURN_IF_FAILED(gp_yaml_new_mapping(r->document, place, &init, err));
        GP_RETURN_IF_FAILED(gp_yaml_set(r->document, options, "init", place, init, err));
    }
    return gp_yaml_set(r->document, init, param->spec.suffix, place, value, err);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* One entry of `init` for all matched layers that have this parameter. */
static gp_status init_layers(const rule *r, const gp_yaml_pair *entry, gp_error *err) {
    bool any = false;
    for (int p = 0; p < r->graph->param_count; p++) {
        const gp_param *param = &r->graph->params[p];
        if (param->spec.buffer || !r->layers[param->node] || strcmp(param->spec.suffix, entry->key->text) != 0)
            continue;
        GP_RETURN_IF_FAILED(set_init(r, p, entry->key->place, entry->value, err));
        any = true;
    }
    if (any) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, entry->key->place,
                      "%s: init: no layer that this rule matches has a parameter \"%.60s\"", r->what, entry->key->text);
}

static gp_status freeze_layers(const rule *r, const gp_yaml_pair *option, gp_error *err) {
    bool any = false;
    for (int n = 0; n < layers_of(r->graph); n++) {
        if (!r->layers[n] || r->graph->nodes[n].param_count == 0) continue;
        GP_RETURN_IF_FAILED(set_option(r, n, option, err));
        any = true;
    }
    if (any) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, option->key->place, "%s: freeze: no layer that this rule matches has parameters",
                      r->what);
}

static gp_status apply_to_layers(const rule *r, const gp_yaml_pair *option, gp_error *err) {
    if (strcmp(option->key->text, "freeze") == 0) return freeze_layers(r, option, err);
    if (strcmp(option->key->text, "init") == 0) {
        char what[WHAT + 8];
        snprintf(what, sizeof what, "%s: init", r->what);
        GP_RETURN_IF_FAILED(gp_read_mapping(option->value, what, err));
        for (size_t i = 0; i < option->value->count; i++)
            GP_RETURN_IF_FAILED(init_layers(r, &option->value->pairs[i], err));
        return GP_OK;
    }
    for (int n = 0; n < layers_of(r->graph); n++)
        if (r->layers[n]) GP_RETURN_IF_FAILED(set_option(r, n, option, err));
    return GP_OK;
}

/* A rule for single parameters gives `init` the value itself: '*.bias': {init: 0}. */
static gp_status apply_to_params(const rule *r, const gp_yaml_pair *option, gp_error *err) {
    if (strcmp(option->key->text, "init") != 0)
        return gp_fail_at(err, GP_CONFIG, option->key->place,
                          "%s: matches parameters, which have the option init; %s is an option of whole layers",
                          r->what, option->key->text);
    for (int p = 0; p < r->graph->param_count; p++)
        if (r->params[p]) GP_RETURN_IF_FAILED(set_init(r, p, option->key->place, option->value, err));
    return GP_OK;
}

static gp_status apply_rule(rule *r, gp_error *err) {
    static const char *const known[] = {"freeze", "checkpoint", "init", "sync", NULL};
    static const char *const later[] = {"lr_mult", "decay_mult", "tie", "phase", NULL};
    bool of_params = false;
    memset(r->layers, 0, (size_t)layers_of(r->graph) * sizeof *r->layers);
    memset(r->params, 0, (size_t)r->graph->param_count * sizeof *r->params);
    snprintf(r->what, sizeof r->what, "model.rules: %.60s", r->key->text);
    GP_RETURN_IF_FAILED(gp_read_mapping(r->options, r->what, err));
    GP_RETURN_IF_FAILED(gp_check_keys(r->options, r->what, known, later, err));
    GP_RETURN_IF_FAILED(match(r, err));
    for (int p = 0; p < r->graph->param_count; p++) of_params = of_params || r->params[p];
    for (size_t i = 0; i < r->options->count; i++)
        GP_RETURN_IF_FAILED((of_params ? apply_to_params : apply_to_layers)(r, &r->options->pairs[i], err));
    return GP_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* The layers stand in the graph in the order of the list and of the lists in it. */
static void find_items(const gp_yaml *list, gp_yaml ***items, int *count) {
    for (size_t i = 0; i < list->count; i++) {
        const gp_yaml *inner = gp_sequential_layers(list->items[i]);
        if (inner)
            find_items(inner, items, count);
        else
            items[(*count)++] = &list->items[i];
    }
}

static gp_status apply_all(const gp_yaml *rules, const gp_graph *graph, const gp_layer_list *list, gp_error *err) {
    rule r = {.graph = graph, .document = list->made};
    int count = 0;
    gp_status status = GP_NEW(&r.items, layers_of(graph), err);
    if (status == GP_OK) status = GP_NEW(&r.layers, layers_of(graph), err);
    if (status == GP_OK) status = GP_NEW(&r.params, graph->param_count + 1, err);
    if (status == GP_OK) find_items(list->layers, r.items, &count);
    for (size_t i = 0; i < rules->count && (status == GP_OK || status == GP_CONFIG); i++) {
        gp_error next = {0};
        r.key = rules->pairs[i].key;
        r.options = rules->pairs[i].value;
        if (apply_rule(&r, &next) != GP_OK) status = gp_error_join(err, status, &next);
    }
    free(r.items);
    free(r.layers);
    free(r.params);
    return status;
}

/* A list of the configuration is copied: its document is written into the run folder with the rules as they were. */
static gp_status own_list(gp_layer_list *list, gp_error *err) {
    if (list->made) return GP_OK;
    GP_RETURN_IF_FAILED(gp_yaml_copy_node(list->layers, &list->made, err));
    list->layers = gp_yaml_root(list->made);
    return GP_OK;
}

/* Adds the mistakes of the layers to those of the model's keys, of which there are some. */
static gp_status check_layers(const gp_yaml *model, gp_error *err) {
    const gp_yaml *layers = gp_yaml_get(model, "layers");
    gp_error next = {0};
    if (!layers || gp_graph_check_list(model, layers, &next) == GP_OK) return err->status;
    return gp_error_join(err, err->status, &next);
}

/* The layers of a model, with its rules resolved. The list borrows from the model's document. */
static gp_status ruled_layers(const gp_yaml *model, gp_layer_list *out, gp_error *err) {
    gp_layer_list list = {0};
    gp_graph *graph = NULL;
    gp_status checked = gp_model_check(model, err);
    if (checked != GP_OK) return checked == GP_CONFIG && err ? check_layers(model, err) : checked;
    const gp_yaml *rules = gp_yaml_get(model, "rules");
    if (rules) GP_RETURN_IF_FAILED(gp_read_mapping(rules, "model.rules", err));
    GP_RETURN_IF_FAILED(gp_model_layers(model, &list, err));
    gp_status status = GP_OK;
    if (rules) {
        status = gp_graph_build_list(model, list.layers, &graph, err);
        if (status == GP_OK) status = own_list(&list, err);
        if (status == GP_OK) status = apply_all(rules, graph, &list, err);
        gp_graph_destroy(&graph);
    }
    if (status != GP_OK) {
        gp_layer_list_fini(&list);
        return status;
    }
    *out = list;
    return GP_OK;
}

gp_status gp_graph_build(const gp_yaml *model, gp_graph **out, gp_error *err) {
    gp_layer_list list = {0};
    GP_RETURN_IF_FAILED(ruled_layers(model, &list, err));
    gp_status status = gp_graph_build_list(model, list.layers, out, err);
    gp_layer_list_fini(&list);
    return status;
}

gp_status gp_model_expand(gp_yaml *model, gp_layer_list *list, gp_error *err) {
    GP_RETURN_IF_FAILED(ruled_layers(model, list, err));
    if (list->made) gp_model_put_layers(model, list);
    return GP_OK;
}
