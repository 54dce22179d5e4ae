#include "model/entries.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/graph.h"

static const char *const built_in_later[] = {"resnet", "vgg", "amoebanet_d", "unet", "gpt2", NULL};

static bool listed(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(*list, name) == 0) return true;
    return false;
}

static gp_status find_type(const gp_choice *choice, const gp_layer_type **out, gp_error *err) {
    const gp_layer_type *type = gp_layer_type_find(choice->kind, false);
    if (type) {
        *out = type;
        return GP_OK;
    }
    if (listed(choice->kind, gp_layer_names_later(false)) || listed(choice->kind, built_in_later))
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s is not available yet", choice->kind);
    if (gp_layer_type_find(choice->kind, true) || listed(choice->kind, gp_layer_names_later(true)))
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s is a loss, not a layer: it stands at model.loss",
                          choice->kind);
    const char *near = gp_nearest_name(choice->kind, gp_layer_names(false));
    if (near)
        return gp_fail_at(err, GP_CONFIG, choice->place, "there is no layer \"%s\"; did you mean %s?", choice->kind,
                          near);
    return gp_fail_at(err, GP_CONFIG, choice->place, "there is no layer \"%s\"", choice->kind);
}

static bool is_number(const char *text) {
    char *end;
    if (!isdigit((unsigned char)*text) && !strchr("+-.", *text)) return false;
    strtod(text, &end);
    return end != text && *end == '\0';
}

static gp_status check_name(const gp_yaml *node, const char *name, gp_error *err) {
    if (strcmp(name, "input") == 0)
        return gp_fail_at(err, GP_CONFIG, node->place, "name \"input\" stands for what enters the list");
    if (is_number(name))
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "name \"%s\" is a number; layers without a name are called by their number", name);
    for (const char *at = name; *at; at++)
        if (iscntrl((unsigned char)*at))
            return gp_fail_at(err, GP_CONFIG, node->place, "the name holds a control character");
    return GP_OK;
}

static gp_status read_name(gp_entry *entry, int index, gp_error *err) {
    const gp_yaml *node = entry->choice.options ? gp_yaml_get(entry->choice.options, "name") : NULL;
    if (!node) return gp_format_text(&entry->name, err, "%d", index);
    const char *name = NULL;
    GP_RETURN_IF_FAILED(gp_read_text(node, "name", &name, err));
    GP_RETURN_IF_FAILED(check_name(node, name, err));
    return gp_copy_text(&entry->name, name, err);
}

/* Layers that take several values have `from` for their main option. */
static const gp_yaml *from_of(const gp_entry *entry) {
    const gp_choice *choice = &entry->choice;
    if (choice->main) return entry->type->inputs_max > 1 ? choice->main : NULL;
    return choice->options ? gp_yaml_get(choice->options, "from") : NULL;
}

static gp_status read_entry(gp_entries *entries, const gp_yaml *node, int index, gp_error *err) {
    gp_entry *entry = &entries->items[index];
    GP_RETURN_IF_FAILED(gp_read_kind(node, "layer", NULL, &entry->choice, err));
    GP_RETURN_IF_FAILED(find_type(&entry->choice, &entry->type, err));
    GP_RETURN_IF_FAILED(read_name(entry, index, err));
    entry->from = from_of(entry);
    int first = gp_names_enter(&entries->names, entry->name, index);
    if (first == index) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, gp_yaml_get(entry->choice.options, "name")->place,
                      "name \"%s\" occurs twice: it is the name of layer %d too", entry->name, first);
}

gp_status gp_entries_read(const gp_yaml *layers, gp_entries *out, gp_error *err) {
    if (layers->kind != GP_YAML_SEQUENCE || layers->count == 0)
        return gp_fail_at(err, GP_CONFIG, layers->place, "model: layers is a list of one layer or more");
    if (layers->count >= GP_MAX_NODES)
        return gp_fail_at(err, GP_CONFIG, layers->place, "model: %zu layers are more than %d", layers->count,
                          GP_MAX_NODES - 1);
    gp_entries entries = {0};
    gp_status status = GP_NEW(&entries.items, layers->count, err);
    if (status == GP_OK) status = gp_names_init(&entries.names, layers->count, err);
    for (size_t i = 0; i < layers->count && status == GP_OK; i++) {
        entries.count = (int)i + 1;
        status = read_entry(&entries, layers->items[i], (int)i, err);
    }
    if (status != GP_OK) {
        gp_entries_fini(&entries);
        return status;
    }
    *out = entries;
    return GP_OK;
}

void gp_entries_fini(gp_entries *entries) {
    for (int i = 0; i < entries->count; i++) free(entries->items[i].name);
    free(entries->items);
    gp_names_fini(&entries->names);
    *entries = (gp_entries){0};
}

static gp_status unknown_name(const gp_entries *entries, int index, const gp_yaml *node, gp_error *err) {
    const char **known = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&known, index + 2, err));
    for (int i = 0; i < index; i++) known[i] = entries->items[i].name;
    known[index] = "input";
    const char *near = gp_nearest_name(node->text, known);
    gp_status status =
        near ? gp_fail_at(err, GP_CONFIG, node->place,
                          "from: there is no layer \"%s\" before this one; did you mean %s?", node->text, near)
             : gp_fail_at(err, GP_CONFIG, node->place, "from: there is no layer \"%s\" before this one", node->text);
    free(known);
    return status;
}

static gp_status find_named(const gp_entries *entries, int index, const gp_yaml *node, int *out, gp_error *err) {
    if (strcmp(node->text, "input") == 0) {
        *out = GP_SOURCE_INPUT;
        return GP_OK;
    }
    int found = gp_names_find(&entries->names, node->text);
    if (found < 0) return unknown_name(entries, index, node, err);
    if (found >= index)
        return gp_fail_at(err, GP_CONFIG, node->place, "from: layer \"%s\" %s; a layer takes what is made before it",
                          node->text, found == index ? "is this one" : "comes later");
    *out = found;
    return GP_OK;
}

static gp_status find_counted(int index, const gp_yaml *node, int *out, gp_error *err) {
    int64_t back = 0;
    GP_RETURN_IF_FAILED(gp_read_integer(node, "from", INT64_MIN, INT64_MAX, &back, err));
    if (back >= 0)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "from: %" PRId64 " does not count back: -1 is the layer before; a layer without a name is "
                          "\"%" PRId64 "\", in quotes",
                          back, back);
    if (back < -index)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "from: %" PRId64 " counts back past the first layer; what enters the list is called input",
                          back);
    *out = (int)(index + back);
    return GP_OK;
}

static gp_status find_source(const gp_entries *entries, int index, const gp_yaml *node, int *out, gp_error *err) {
    if (node->kind != GP_YAML_SCALAR || (!node->quoted && *node->text == '\0'))
        return gp_fail_at(err, GP_CONFIG, node->place, "from: names a layer, counts back to one, or lists such");
    if (!node->quoted && is_number(node->text)) return find_counted(index, node, out, err);
    return find_named(entries, index, node, out, err);
}

gp_status gp_entries_sources(const gp_entries *entries, int index, int **sources, int *count, gp_error *err) {
    const gp_yaml *from = entries->items[index].from;
    bool list = from && from->kind == GP_YAML_SEQUENCE;
    size_t wanted = list ? from->count : 1;
    int *found = NULL;
    if (wanted == 0) return gp_fail_at(err, GP_CONFIG, from->place, "from: the list is empty");
    GP_RETURN_IF_FAILED(GP_NEW(&found, wanted, err));
    gp_status status = GP_OK;
    if (!from) found[0] = index > 0 ? index - 1 : GP_SOURCE_INPUT;
    for (size_t i = 0; from && i < wanted && status == GP_OK; i++)
        status = find_source(entries, index, list ? from->items[i] : from, &found[i], err);
    if (status != GP_OK) {
        free(found);
        return status;
    }
    *sources = found;
    *count = (int)wanted;
    return GP_OK;
}
