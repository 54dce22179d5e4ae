#include "model/entries.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/graph.h"

static const char sequential[] = "sequential";

static bool listed(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(*list, name) == 0) return true;
    return false;
}

static gp_status find_type(const gp_choice *choice, const gp_layer_type **out, gp_error *err) {
    static const char *const built_in[] = {"resnet", "vgg", NULL};
    static const char *const built_in_later[] = {"amoebanet_d", "unet", "gpt2", NULL};
    static const char *const group_names[] = {sequential, NULL};
    const gp_layer_type *type = gp_layer_type_find(choice->kind, false);
    if (type) {
        *out = type;
        return GP_OK;
    }
    if (listed(choice->kind, built_in))
        return gp_fail_at(err, GP_CONFIG, choice->place,
                          "%s is a whole model, not a layer; write it in place of model.layers", choice->kind);
    if (gp_is_later(choice->kind, gp_layer_names_later(false)) || listed(choice->kind, built_in_later))
        return gp_fail_at(err, GP_CONFIG, choice->place, "layer \"%s\" is not available yet%s", choice->kind,
                          gp_advise(choice->kind, gp_layer_names(false)).text);
    if (gp_layer_type_find(choice->kind, true) || listed(choice->kind, gp_layer_names_later(true)))
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s is a loss, not a layer; write it at model.loss",
                          choice->kind);
    gp_suggestion suggestion = gp_suggest(choice->kind, gp_layer_names(false));
    if (!suggestion.text[0]) suggestion = gp_suggest(choice->kind, group_names);
    if (suggestion.text[0])
        return gp_fail_at(err, GP_CONFIG, choice->place, "there is no layer \"%s\"%s", choice->kind, suggestion.text);
    return gp_fail_at(err, GP_CONFIG, choice->place, "there is no layer \"%s\"; this version has %s", choice->kind,
                      gp_list_names(gp_layer_names(false)).text);
}

bool gp_is_number(const char *text) {
    char *end;
    if (!isdigit((unsigned char)*text) && !strchr("+-.", *text)) return false;
    strtod(text, &end);
    return end != text && *end == '\0';
}

static gp_status check_name(const gp_yaml *node, const char *name, gp_error *err) {
    if (strcmp(name, "input") == 0)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "name \"input\" is reserved for the input of the list; choose another name");
    if (gp_is_number(name))
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "name \"%s\" is a number; numbers are the names of layers without a name", name);
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) /* U+0080 to U+009F are C2 80 to C2 9F */
        if (*at < ' ' || *at == 0x7F || (*at == 0xC2 && at[1] < 0xA0))
            return gp_fail_at(err, GP_CONFIG, node->place, "the name holds a control character");
    return GP_OK;
}

static gp_status read_name(const gp_choice *choice, const char *prefix, int item, char **out, gp_error *err) {
    const gp_yaml *node = choice->options ? gp_yaml_get(choice->options, "name") : NULL;
    if (!node) return gp_format_text(out, err, "%s%d", prefix, item);
    const char *name = NULL;
    GP_RETURN_IF_FAILED(gp_read_text(node, "name", &name, err));
    GP_RETURN_IF_FAILED(check_name(node, name, err));
    return gp_format_text(out, err, "%s%s", prefix, name);
}

/* Names lead to the entry that makes the output. */
static gp_status enter_name(gp_entries *entries, const gp_choice *choice, const char *name, int output, gp_error *err) {
    int first = gp_names_enter(&entries->names, name, output);
    if (first == output) return GP_OK;
    const gp_yaml *node = choice->options ? gp_yaml_get(choice->options, "name") : NULL;
    return gp_fail_at(err, GP_CONFIG, node ? node->place : choice->place,
                      "name \"%s\" occurs twice: it is the name of layer %d too", name, entries->items[first].unit);
}

/* Layers that take several values have `from` for their main option. */
static const gp_yaml *from_of(const gp_entry *entry) {
    const gp_choice *choice = &entry->choice;
    if (choice->main) return entry->type->joins ? choice->main : NULL;
    return choice->options ? gp_yaml_get(choice->options, "from") : NULL;
}

/* ---- lists within the list --------------------------------------------------------------------------------------- */

const gp_yaml *gp_sequential_layers(const gp_yaml *item) {
    const gp_yaml *layers = gp_yaml_get(gp_yaml_get(item, sequential), "layers");
    return layers && layers->kind == GP_YAML_SEQUENCE ? layers : NULL;
}

/* What stands in the list and in those within it; a group counts as `group`. */
static size_t count_items(const gp_yaml *list, size_t group) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gp_yaml *inner = gp_sequential_layers(list->items[i]);
        count += inner ? group + count_items(inner, group) : 1;
    }
    return count;
}

static gp_status add_group(gp_entries *entries, gp_group group, const gp_yaml *layers, int *out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&entries->groups, &entries->group_capacity, entries->group_count + 1, err));
    group.first = entries->count;
    group.end = entries->count + (int)count_items(layers, 0);
    *out = entries->group_count;
    entries->groups[entries->group_count++] = group;
    return GP_NEW(&entries->groups[*out].outputs, layers->count, err);
}

static gp_status check_list(const gp_yaml *layers, const char *what, gp_error *err) {
    if (layers->kind == GP_YAML_SEQUENCE && layers->count > 0) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, layers->place,
                      "%s: layers must be a list of one layer or more, each after a dash, as in - relu", what);
}

static gp_status read_list(gp_entries *entries, const gp_yaml *layers, int group, gp_error *err);

static gp_status check_sequential(const gp_choice *choice, const gp_yaml **layers, gp_error *err) {
    static const char *const known[] = {"layers", "name", "from", "freeze", "checkpoint", NULL};
    static const char *const later[] = {"tie", "lr_mult", "decay_mult", "init", "phase", NULL};
    if (choice->main)
        return gp_fail_at(err, GP_CONFIG, choice->main->place,
                          "sequential needs a mapping of its options: sequential: {name: block, layers: [relu]}");
    *layers = choice->options ? gp_yaml_get(choice->options, "layers") : NULL;
    if (choice->options) GP_RETURN_IF_FAILED(gp_check_keys(choice->options, sequential, known, later, err));
    if (!*layers)
        return gp_fail_at(err, GP_CONFIG, choice->place,
                          "sequential: layers is missing: sequential: {name: block, layers: [relu]}");
    return check_list(*layers, sequential, err);
}

/* The output of a list is its last entry's. */
static gp_status read_kept(gp_entries *entries, const gp_choice *choice, gp_error *err) {
    const gp_yaml *checkpoint = gp_yaml_get(choice->options, "checkpoint");
    bool recomputed = true;
    if (checkpoint) GP_RETURN_IF_FAILED(gp_read_boolean(checkpoint, "checkpoint", &recomputed, err));
    if (!recomputed) entries->items[entries->count - 1].kept = true;
    return GP_OK;
}

static gp_status read_sequential(gp_entries *entries, const gp_choice *choice, int parent, int item, gp_error *err) {
    const gp_yaml *layers = NULL;
    int index = 0;
    GP_RETURN_IF_FAILED(check_sequential(choice, &layers, err));
    gp_group group = {.from = gp_yaml_get(choice->options, "from"), .parent = parent, .item = item};
    GP_RETURN_IF_FAILED(add_group(entries, group, layers, &index, err));
    gp_group *its = &entries->groups[index];
    const gp_yaml *freeze = gp_yaml_get(choice->options, "freeze");
    its->frozen = entries->groups[parent].frozen;
    if (freeze) GP_RETURN_IF_FAILED(gp_read_boolean(freeze, "freeze", &its->frozen, err));
    GP_RETURN_IF_FAILED(read_name(choice, entries->groups[parent].prefix, item, &its->name, err));
    GP_RETURN_IF_FAILED(gp_format_text(&its->prefix, err, "%s.", its->name));
    GP_RETURN_IF_FAILED(enter_name(entries, choice, its->name, its->end - 1, err));
    GP_RETURN_IF_FAILED(read_list(entries, layers, index, err));
    return read_kept(entries, choice, err);
}

static gp_status read_entry(gp_entries *entries, const gp_choice *choice, int group, int item, gp_error *err) {
    int index = entries->count++;
    gp_entry *entry = &entries->items[index];
    *entry = (gp_entry){.choice = *choice, .group = group, .item = item, .unit = entries->unit_count};
    GP_RETURN_IF_FAILED(find_type(choice, &entry->type, err));
    GP_RETURN_IF_FAILED(read_name(choice, entries->groups[group].prefix, item, &entry->name, err));
    GP_RETURN_IF_FAILED(gp_layer_create(entry->type, choice, &entry->layer, err));
    entry->from = from_of(entry);
    return enter_name(entries, choice, entry->name, index, err);
}

static gp_status read_item(gp_entries *entries, const gp_yaml *node, int group, int item, gp_error *err) {
    gp_choice choice;
    GP_RETURN_IF_FAILED(gp_find_choice(node, "layer", gp_layer_names(false), NULL, &choice, err));
    GP_RETURN_IF_FAILED(gp_check_beside(node, "layer", NULL, NULL, &choice, err));
    return strcmp(choice.kind, sequential) == 0 ? read_sequential(entries, &choice, group, item, err)
                                                : read_entry(entries, &choice, group, item, err);
}

static gp_status read_list(gp_entries *entries, const gp_yaml *layers, int group, gp_error *err) {
    gp_status status = GP_OK;
    for (size_t i = 0; i < layers->count; i++) {
        gp_error next = {0};
        if (read_item(entries, layers->items[i], group, (int)i, &next) != GP_OK)
            status = gp_error_join(err, status, &next);
        if (status != GP_OK && status != GP_CONFIG) return status;
        entries->groups[group].outputs[i] = entries->count - 1;
        if (group == 0) entries->unit_count++;
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static gp_status read_all(gp_entries *entries, const gp_yaml *layers, size_t count, gp_error *err) {
    int whole = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&entries->items, count, err));
    GP_RETURN_IF_FAILED(gp_names_init(&entries->names, count_items(layers, 1), err));
    GP_RETURN_IF_FAILED(add_group(entries, (gp_group){.parent = -1}, layers, &whole, err));
    GP_RETURN_IF_FAILED(gp_copy_text(&entries->groups[whole].name, "", err));
    GP_RETURN_IF_FAILED(gp_copy_text(&entries->groups[whole].prefix, "", err));
    return read_list(entries, layers, whole, err);
}

gp_status gp_entries_read(const gp_yaml *layers, gp_entries *out, gp_error *err) {
    GP_RETURN_IF_FAILED(check_list(layers, "model", err));
    size_t count = count_items(layers, 0);
    if (count >= GP_MAX_NODES)
        return gp_fail_at(err, GP_CONFIG, layers->place, "model: %zu layers are more than %d", count, GP_MAX_NODES - 1);
    gp_entries entries = {0};
    gp_status status = read_all(&entries, layers, count, err);
    if (status != GP_OK) {
        gp_entries_fini(&entries);
        return status;
    }
    *out = entries;
    return GP_OK;
}

void gp_entries_fini(gp_entries *entries) {
    for (int i = 0; i < entries->count; i++) {
        gp_layer_destroy(&entries->items[i].layer);
        free(entries->items[i].name);
    }
    for (int i = 0; i < entries->group_count; i++) {
        free(entries->groups[i].name);
        free(entries->groups[i].prefix);
        free(entries->groups[i].outputs);
    }
    free(entries->items);
    free(entries->groups);
    gp_names_fini(&entries->names);
    *entries = (gp_entries){0};
}
