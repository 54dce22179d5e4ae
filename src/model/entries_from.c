/* Where each entry takes its values from. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/entries.h"

/* Where a reference stands: an item of a group's list, for which the entries before `before` exist. */
typedef struct standpoint {
    int group, item, before;
} standpoint;

static standpoint of_entry(const gp_entries *entries, int index) {
    return (standpoint){entries->items[index].group, entries->items[index].item, index};
}

/* What enters a group is said in its parent's list. */
static standpoint of_group(const gp_entries *entries, int group) {
    const gp_group *its = &entries->groups[group];
    return (standpoint){its->parent, its->item, its->first};
}

enum { BELOW = 160 };

/* Up to three of the names that go on after `name` and a dot, and how many these are. */
static int list_below(const char *const *known, const char *name, char out[BELOW]) {
    size_t length = strlen(name), used = 0;
    int found = 0;
    out[0] = '\0';
    for (; *known && found < 3; known++) {
        if (strncmp(*known, name, length) != 0 || (*known)[length] != '.') continue;
        used += (size_t)snprintf(out + used, BELOW - used, "%s%.40s", found ? ", " : "", *known);
        found++;
    }
    return found;
}

/* The names of the own group stand without its prefix, as one would write them. */
static gp_status unknown_name(const gp_entries *entries, standpoint here, const gp_yaml *node, gp_error *err) {
    const gp_group *group = &entries->groups[here.group];
    const char **known = NULL;
    int count = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&known, here.before + entries->group_count + 2, err));
    for (int i = 0; i < here.before; i++)
        known[count++] = entries->items[i].name + (entries->items[i].group == here.group ? strlen(group->prefix) : 0);
    for (int i = 1; i < entries->group_count; i++)
        if (entries->groups[i].end <= here.before) known[count++] = entries->groups[i].name;
    known[count] = "input";
    gp_suggestion suggestion = gp_suggest(node->text, known);
    char below[BELOW];
    if (list_below(known, node->text, below) > 1)
        snprintf(suggestion.text, sizeof suggestion.text, "; names that begin so: %s", below);
    gp_status status = gp_fail_at(err, GP_CONFIG, node->place, "from: there is no layer \"%s\" before this one%s",
                                  node->text, suggestion.text);
    free(known);
    return status;
}

/* −1 where the group has no such name. */
static gp_status find_in_group(const gp_entries *entries, const gp_group *group, const char *name, int *out,
                               gp_error *err) {
    char *full = NULL;
    GP_RETURN_IF_FAILED(gp_format_text(&full, err, "%s%s", group->prefix, name));
    int found = gp_names_find(&entries->names, full);
    free(full);
    *out = found >= group->first && found < group->end ? found : -1;
    return GP_OK;
}

static gp_status source_of(const gp_entries *entries, standpoint here, const gp_yaml *from, int *out, gp_error *err);

static gp_status group_input(const gp_entries *entries, int group, int *out, gp_error *err) {
    const gp_group *its = &entries->groups[group];
    const gp_yaml *from = its->from;
    if (its->parent < 0) {
        *out = GP_SOURCE_INPUT;
        return GP_OK;
    }
    if (from && from->kind == GP_YAML_SEQUENCE && from->count != 1)
        return gp_fail_at(err, GP_CONFIG, from->place, "sequential \"%s\": takes 1 value, not %zu", its->name,
                          from->count);
    if (from && from->kind == GP_YAML_SEQUENCE) from = from->items[0];
    return source_of(entries, of_group(entries, group), from, out, err);
}

/* The name is of this layer or of a later one. A list around it may have the same name on a layer before it: only a
 * name of its own makes that layer reachable from here. */
static gp_status not_made_yet(const gp_entries *entries, standpoint here, const gp_yaml *node, int group, int found,
                              gp_error *err) {
    int outer = -1;
    for (group = entries->groups[group].parent; group >= 0 && outer < 0; group = entries->groups[group].parent) {
        GP_RETURN_IF_FAILED(find_in_group(entries, &entries->groups[group], node->text, &outer, err));
        if (outer >= here.before) outer = -1;
    }
    const char *which = found == here.before ? "is this layer itself" : "comes later";
    if (outer < 0)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "from: layer \"%s\" %s; a layer can take only the output of an earlier layer", node->text,
                          which);
    return gp_fail_at(
        err, GP_CONFIG, node->place,
        "from: layer \"%s\" %s; a layer can take only the output of an earlier layer; to take layer \"%s\" of "
        "the outer list, give that layer another name",
        node->text, which, node->text);
}

static gp_status find_named(const gp_entries *entries, standpoint here, const gp_yaml *node, int *out, gp_error *err) {
    int found = -1, in = -1;
    if (strcmp(node->text, "input") == 0) return group_input(entries, here.group, out, err);
    for (int group = here.group; group >= 0 && found < 0; group = entries->groups[group].parent) {
        GP_RETURN_IF_FAILED(find_in_group(entries, &entries->groups[group], node->text, &found, err));
        in = group;
    }
    if (found < 0) return unknown_name(entries, here, node, err);
    if (found >= here.before) return not_made_yet(entries, here, node, in, found, err);
    *out = found;
    return GP_OK;
}

static gp_status find_counted(const gp_entries *entries, standpoint here, const gp_yaml *node, int *out,
                              gp_error *err) {
    int64_t back = 0;
    GP_RETURN_IF_FAILED(gp_read_integer(node, "from", INT64_MIN, INT64_MAX, &back, err));
    if (back >= 0)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "from: %" PRId64 " does not count back: -1 is the layer before; a layer without a name is "
                          "\"%" PRId64 "\", in quotes",
                          back, back);
    if (back < -here.item)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "from: %" PRId64 " counts back past the first layer; the input of the list is called input",
                          back);
    *out = entries->groups[here.group].outputs[here.item + back];
    return GP_OK;
}

static gp_status source_of(const gp_entries *entries, standpoint here, const gp_yaml *from, int *out, gp_error *err) {
    if (!from && here.item == 0) return group_input(entries, here.group, out, err);
    if (!from) {
        *out = entries->groups[here.group].outputs[here.item - 1];
        return GP_OK;
    }
    if (from->kind != GP_YAML_SCALAR || (!from->quoted && *from->text == '\0'))
        return gp_fail_at(err, GP_CONFIG, from->place,
                          "from: needs the name of a layer, a negative number that counts back, or a list of these");
    if (!from->quoted && gp_is_number(from->text)) return find_counted(entries, here, from, out, err);
    return find_named(entries, here, from, out, err);
}

gp_status gp_entries_sources(const gp_entries *entries, int index, int **sources, int *count, gp_error *err) {
    const gp_yaml *from = entries->items[index].from;
    bool list = from && from->kind == GP_YAML_SEQUENCE;
    size_t wanted = list ? from->count : 1;
    int *found = NULL;
    if (wanted == 0) return gp_fail_at(err, GP_CONFIG, from->place, "from: the list is empty");
    GP_RETURN_IF_FAILED(GP_NEW(&found, wanted, err));
    gp_status status = GP_OK;
    for (size_t i = 0; i < wanted && status == GP_OK; i++)
        status = source_of(entries, of_entry(entries, index), list ? from->items[i] : from, &found[i], err);
    if (status != GP_OK) {
        free(found);
        return status;
    }
    *sources = found;
    *count = (int)wanted;
    return GP_OK;
}
