/* `--set`: changes the tree at a path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/tree_internal.h"

/* One assignment under way. */
typedef struct edit {
    gp_yaml_document *document;
    const char *path;
    gp_place place;    /* of what it makes */
    gp_status refusal; /* GP_USAGE for --set */
} edit;

static int depth_of(const gp_yaml *node) {
    int deepest = 0;
    for (size_t i = 0; node->items && i < gp_yaml_children(node); i++) {
        int depth = depth_of(node->items[i]);
        if (depth > deepest) deepest = depth;
    }
    return deepest + (node->kind != GP_YAML_SCALAR);
}

static gp_status check_path(const edit *e, const gp_yaml *value, gp_error *err) {
    int depth = depth_of(value);
    for (const char *segment = e->path;;) {
        size_t length = strcspn(segment, ".");
        if (length == 0) return gp_fail_at(err, e->refusal, e->place, "the key path \"%s\" has an empty part", e->path);
        if (length > GP_YAML_MAX_KEY)
            return gp_fail_at(err, e->refusal, e->place, "a key of %zu bytes is too long; it may have %d", length,
                              (int)GP_YAML_MAX_KEY);
        if (++depth > GP_YAML_MAX_DEPTH)
            return gp_fail_at(err, e->refusal, e->place, "nested deeper than %d levels", (int)GP_YAML_MAX_DEPTH);
        segment += length;
        if (*segment++ == '\0') return GP_OK;
    }
}

static gp_status make_key(const edit *e, const char *segment, size_t length, gp_yaml **out, gp_error *err) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    gp_yaml *key = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_new_node(e->document, GP_YAML_SCALAR, e->place, &key, err));
    GP_RETURN_IF_FAILED(gp_yaml_keep_text(e->document, segment, length, &key->text, err));
    key->quoted = strspn(key->text, plain) != length;
    *out = key;
    return GP_OK;
}

/* Room for one more child: blocks of a document do not grow, so the array moves. */
static gp_status append_slot(const edit *e, gp_yaml *node, gp_yaml *key, gp_yaml ***slot, gp_error *err) {
    size_t count = gp_yaml_children(node), added = key ? 2 : 1;
    void *larger = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_allocate(e->document, (count + added) * sizeof *node->items, &larger, err));
    if (count) memcpy(larger, node->items, count * sizeof *node->items);
    node->items = larger;
    node->count++;
    if (key) node->items[count] = key;
    *slot = &node->items[count + added - 1];
    return GP_OK;
}

static gp_status step_into_sequence(const edit *e, gp_yaml *node, const char *segment, size_t length, gp_yaml ***slot,
                                    gp_error *err) {
    size_t index;
    if (!gp_yaml_index(segment, length, &index))
        return gp_fail_at(err, e->refusal, e->place, "%.*s is a list: \"%.*s\" is not an index",
                          (int)(segment - e->path - 1), e->path, (int)length, segment);
    if (index > node->count)
        return gp_fail_at(err, e->refusal, e->place,
                          "%.*s has %zu entries: index %zu does not exist, and %zu would append",
                          (int)(segment - e->path - 1), e->path, node->count, index, node->count);
    if (index == node->count) return append_slot(e, node, NULL, slot, err);
    *slot = &node->items[index];
    return GP_OK;
}

static gp_status step_into(const edit *e, gp_yaml *node, const char *segment, size_t length, gp_yaml ***slot,
                           gp_error *err) {
    gp_yaml *key = NULL;
    if (node->kind == GP_YAML_SEQUENCE) return step_into_sequence(e, node, segment, length, slot, err);
    if (node->kind == GP_YAML_SCALAR && segment == e->path)
        return gp_fail_at(err, e->refusal, e->place, "the configuration is one value, not a mapping");
    if (node->kind == GP_YAML_SCALAR)
        return gp_fail_at(err, e->refusal, e->place, "%.*s is the value \"%.60s\", which has no keys",
                          (int)(segment - e->path - 1), e->path, node->text);
    gp_yaml_pair *pair = gp_yaml_find_pair(node, segment, length);
    if (pair) {
        /* Messages about the new value may name the key's place. */
        if (segment[length] == '\0' && e->refusal == GP_USAGE) pair->key->place = e->place;
        *slot = &pair->value;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(make_key(e, segment, length, &key, err));
    return append_slot(e, node, key, slot, err);
}

static bool is_nothing(const gp_yaml *node) {
    return !node || (node->kind == GP_YAML_SCALAR && !node->quoted && node->text[0] == '\0');
}

static gp_status assign(const edit *e, gp_yaml *value, gp_error *err) {
    gp_yaml **slot = &e->document->root;
    GP_RETURN_IF_FAILED(check_path(e, value, err));
    for (const char *segment = e->path;;) {
        size_t length = strcspn(segment, ".");
        if (is_nothing(*slot)) GP_RETURN_IF_FAILED(gp_yaml_new_node(e->document, GP_YAML_MAPPING, e->place, slot, err));
        GP_RETURN_IF_FAILED(step_into(e, *slot, segment, length, &slot, err));
        segment += length;
        if (*segment++ == '\0') break;
    }
    *slot = value;
    return GP_OK;
}

/* " #" begins a comment in YAML, and what follows would be lost. In quotes, which begin where a value begins, it is
 * text; so it is in a block of lines. */
static gp_status refuse_comment(const edit *e, const char *value, gp_error *err) {
    char quote = '\0', before = '['; /* the last character that is no space */
    size_t blank = strspn(value, " ");
    if (value[blank] == '|' || value[blank] == '>') return GP_OK;
    for (const char *at = value; *at; at++) {
        bool escapes = (quote == '"' && *at == '\\') || (quote == '\'' && *at == '\'' && at[1] == '\'');
        if (escapes && at[1])
            at++;
        else if (quote && *at == quote)
            quote = '\0';
        else if (!quote && (*at == '"' || *at == '\'') && strchr("[{,:-", before))
            quote = *at;
        else if (!quote && *at == '#' && (at == value || strchr(" \t\n", at[-1])))
            return gp_fail_at(err, e->refusal, e->place,
                              "in YAML a comment begins at \"%.20s\"; write a value that has it in quotes: "
                              "--set '%s=\"…\"'",
                              at, e->path);
        if (!strchr(" \t\n", *at)) before = *at;
    }
    return GP_OK;
}

static gp_status parse_and_assign(const edit *e, const char *value, gp_error *err) {
    gp_yaml_source source = {.name = e->place.path, .lines = false};
    gp_yaml *node = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_check_text(e->path, strlen(e->path), source, err));
    GP_RETURN_IF_FAILED(gp_yaml_parse_value(e->document, value, strlen(value), source, &node, err));
    if (!node) {
        GP_RETURN_IF_FAILED(gp_yaml_new_node(e->document, GP_YAML_SCALAR, e->place, &node, err));
        node->text = "";
    }
    return assign(e, node, err);
}

/* "--set key.path=value", cut where it is too long for a message. */
static gp_status keep_name(gp_yaml_document *document, const char *assignment, const char **out, gp_error *err) {
    enum { LONGEST = 120 };
    char *name = NULL;
    size_t length = strcspn(assignment, "\r\n");
    if (length > LONGEST) length = LONGEST;
    bool cut = assignment[length] != '\0';
    while (cut && length > 0 && ((unsigned char)assignment[length] & 0xC0U) == 0x80U) length--;
    GP_RETURN_IF_FAILED(gp_format_text(&name, err, "--set %.*s%s", (int)length, assignment, cut ? "…" : ""));
    gp_status status = gp_yaml_keep_text(document, name, strlen(name), out, err);
    free(name);
    return status;
}

gp_status gp_yaml_override(gp_yaml_document *document, const char *assignment, gp_error *err) {
    const char *equals = strchr(assignment, '=');
    edit e = {.document = document, .refusal = GP_USAGE};
    GP_RETURN_IF_FAILED(keep_name(document, assignment, &e.place.path, err));
    if (!equals) return gp_fail_at(err, GP_USAGE, e.place, "needs the form key.path=value");
    GP_RETURN_IF_FAILED(gp_yaml_keep_text(document, assignment, (size_t)(equals - assignment), &e.path, err));
    GP_RETURN_IF_FAILED(refuse_comment(&e, equals + 1, err));
    gp_status status = parse_and_assign(&e, equals + 1, err);
    if (status != GP_CONFIG) return status;
    if (err) err->status = GP_USAGE;
    return GP_USAGE;
}

gp_status gp_yaml_put(gp_yaml_document *document, const char *path, const char *value, gp_error *err) {
    edit e = {.document = document, .path = path, .place = {.path = document->name}, .refusal = GP_CONFIG};
    return parse_and_assign(&e, value, err);
}

static gp_status copy_as(const char *name, const gp_yaml *root, gp_yaml_document **out, gp_error *err) {
    gp_yaml_document *copy = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_create(name, &copy, err));
    gp_status status = root ? gp_yaml_copy_tree(copy, root, 1, root->place, &copy->root, err) : GP_OK;
    if (status != GP_OK)
        gp_yaml_destroy(&copy);
    else
        *out = copy;
    return status;
}

gp_status gp_yaml_copy(const gp_yaml_document *document, gp_yaml_document **out, gp_error *err) {
    return copy_as(document->name, document->root, out, err);
}

gp_status gp_yaml_copy_node(const gp_yaml *node, gp_yaml_document **out, gp_error *err) {
    return copy_as(node->place.path ? node->place.path : "", node, out, err);
}

gp_status gp_yaml_put_node(gp_yaml_document *document, const char *path, gp_place place, const gp_yaml *value,
                           gp_error *err) {
    const edit e = {.document = document, .path = path, .place = place, .refusal = GP_CONFIG};
    gp_yaml *copy = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_copy_tree(document, value, 1, value->place, &copy, err));
    return assign(&e, copy, err);
}

void gp_yaml_remove(gp_yaml_document *document, const char *path) {
    gp_yaml *node = document->root;
    while (node) {
        size_t length = strcspn(path, ".");
        if (path[length] == '\0') break;
        node = gp_yaml_child(node, path, length);
        path += length + 1;
    }
    gp_yaml_pair *pair = node ? gp_yaml_find_pair(node, path, strlen(path)) : NULL;
    if (!pair) return;
    memmove(pair, pair + 1, (size_t)(&node->pairs[--node->count] - pair) * sizeof *pair);
}

gp_status gp_yaml_new_mapping(gp_yaml_document *document, gp_place place, gp_yaml **out, gp_error *err) {
    return gp_yaml_new_node(document, GP_YAML_MAPPING, place, out, err);
}

gp_status gp_yaml_set(gp_yaml_document *document, gp_yaml *mapping, const char *key, gp_place place, gp_yaml *value,
                      gp_error *err) {
    edit e = {.document = document, .path = key, .place = place, .refusal = GP_CONFIG};
    gp_yaml *added = NULL, **slot = NULL;
    gp_yaml_pair *pair = gp_yaml_find_pair(mapping, key, strlen(key));
    if (pair) {
        pair->key->place = place;
        pair->value = value;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(make_key(&e, key, strlen(key), &added, err));
    GP_RETURN_IF_FAILED(append_slot(&e, mapping, added, &slot, err));
    *slot = value;
    return GP_OK;
}

static void place_all(gp_yaml *node, gp_place place) {
    node->place = place;
    for (size_t i = 0; node->items && i < gp_yaml_children(node); i++) place_all(node->items[i], place);
}

/* A key of a section, with its value: "data.train". */
static gp_status place_key(gp_yaml_document *document, const char *section, const gp_yaml_pair *pair, gp_error *err) {
    char path[2 * GP_YAML_MAX_KEY + 2];
    gp_place place = {0};
    int length = snprintf(path, sizeof path, "%s.%s", section, pair->key->text);
    GP_RETURN_IF_FAILED(gp_yaml_keep_text(document, path, (size_t)length, &place.path, err));
    place_all(pair->key, place);
    place_all(pair->value, place);
    return GP_OK;
}

gp_status gp_yaml_place_by_keys(gp_yaml_document *document, gp_error *err) {
    gp_yaml *root = document->root;
    if (root) place_all(root, (gp_place){0});
    for (size_t i = 0; root && root->kind == GP_YAML_MAPPING && i < root->count; i++) {
        const gp_yaml_pair *section = &root->pairs[i];
        const gp_place place = {.path = section->key->text};
        place_all(section->key, place);
        place_all(section->value, place);
        for (size_t k = 0; section->value->kind == GP_YAML_MAPPING && k < section->value->count; k++)
            GP_RETURN_IF_FAILED(place_key(document, place.path, &section->value->pairs[k], err));
    }
    return GP_OK;
}
