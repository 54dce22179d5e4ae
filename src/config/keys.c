#include "config/keys.h"

#include <string.h>

/* Names of rows as the readers of mappings want them. */
typedef struct name_list {
    const char *text[GP_MAX_KEYS + 1];
} name_list;

static name_list names_of_keys(const gp_key *keys, const char *const *later) {
    name_list names = {{NULL}};
    size_t count = 0;
    for (; keys && keys->name && count < GP_MAX_KEYS; keys++) names.text[count++] = keys->name;
    for (; later && *later && count < GP_MAX_KEYS; later++) names.text[count++] = *later;
    return names;
}

static name_list names_of_kinds(const gp_key_kind *kinds) {
    name_list names = {{NULL}};
    for (size_t i = 0; kinds[i].name && i < GP_MAX_KEYS; i++) names.text[i] = kinds[i].name;
    return names;
}

static gp_status read_value(const gp_key *key, const gp_yaml *node, const gp_key_context *at, bool named, void *base,
                            gp_error *err) {
    char what[GP_KEY_TEXT];
    gp_key_context inner = {.what = at->what, .joint = ".", .folder = at->folder, .place = node->place};
    if (named && !(key->flags & GP_KEY_UNNAMED)) {
        snprintf(what, sizeof what, "%s%s%s", at->joint ? at->what : "", at->joint ? at->joint : "", key->name);
        inner.what = what;
    }
    if (key->refused.why && node->kind == key->refused.kind)
        return gp_refuse(node->place, inner.what, err, "%s", key->refused.why);
    return key->type->read ? key->type->read(key, node, &inner, base, err) : GP_OK;
}

static gp_status read_default(const gp_key *key, const gp_key_context *at, void *base, gp_error *err) {
    gp_yaml scalar = {.kind = GP_YAML_SCALAR, .place = at->place, .text = key->unsaid};
    gp_yaml_document *document = NULL;
    if (!strchr("[{", *key->unsaid)) return read_value(key, &scalar, at, true, base, err);
    GP_RETURN_IF_FAILED(gp_yaml_parse_at(key->unsaid, strlen(key->unsaid), at->place, &document, err));
    gp_status status = read_value(key, gp_yaml_root(document), at, true, base, err);
    gp_yaml_destroy(&document);
    return status;
}

/* `node`: NULL if the key is absent. `named`: messages name the key, not only its mapping. */
static gp_status read_key(const gp_key_table *table, const gp_key *key, const gp_yaml *node, const gp_key_context *at,
                          bool named, void *base, gp_error *err) {
    if (key->place) *(gp_place *)((char *)base + key->place) = node ? node->place : at->place;
    if (key->given && node) *(bool *)((char *)base + key->given) = true;
    if (node) return read_value(key, node, at, named, base, err);
    if (key->example && table->needs) return gp_refuse(at->place, at->what, err, "needs %s", table->needs);
    if (key->example)
        return gp_refuse(at->place, at->what, err, "%s is missing%s%s", key->name,
                         table->before_example ? table->before_example : ", as in ", key->example);
    return key->unsaid ? read_default(key, at, base, err) : GP_OK;
}

/* Goes on after a mistake, so that one run finds all. `before`: the status of the keys' names. `misnamed`: a key that
 * is missing may be there under a name that was refused. */
static gp_status read_keys(const gp_key_table *table, const gp_yaml *mapping, gp_status before, bool misnamed,
                           const gp_key_context *at, void *base, gp_error *err) {
    gp_status status = before;
    const char *shown = NULL; /* the example for a key that is missing: it may have the other ones too */
    for (unsigned first = GP_KEY_FIRST;; first = 0) {
        for (const gp_key *key = table->keys; key && key->name; key++) {
            const gp_yaml *node = mapping ? gp_yaml_get(mapping, key->name) : NULL;
            bool missing = !node && key->example;
            bool follows = (missing && (misnamed || (shown && strcmp(key->example, shown) == 0))) ||
                           (status != GP_OK && (key->flags & GP_KEY_DEPENDS));
            gp_error next = {0};
            if ((key->flags & GP_KEY_FIRST) != first || follows) continue;
            if (read_key(table, key, node, at, true, base, &next) != GP_OK) status = gp_error_join(err, status, &next);
            if (missing) shown = key->example;
            if (status != GP_OK && status != GP_CONFIG) return status;
        }
        if (!first) break;
    }
    return table->check && status == GP_OK && !misnamed ? table->check(mapping, at, base, err) : status;
}

/* The first key's value in the place of the mapping. */
static gp_status read_alone(const gp_key_table *table, const gp_yaml *node, const gp_key_context *at, bool named,
                            void *base, gp_error *err) {
    GP_RETURN_IF_FAILED(read_key(table, table->keys, node, at, named, base, err));
    for (const gp_key *key = table->keys + 1; key->name; key++)
        GP_RETURN_IF_FAILED(read_key(table, key, NULL, at, true, base, err));
    return GP_OK;
}

/* `misnamed`: its options may stand beside the kind. */
static gp_status read_options(const gp_key_table *table, const gp_choice *choice, bool misnamed,
                              const gp_key_context *at, void *base, gp_error *err) {
    name_list known = names_of_keys(table->keys, NULL);
    gp_status status = GP_OK;
    if (choice->main && table->alone)
        return read_alone(table, choice->main, at, table->alone != GP_ALONE_UNNAMED, base, err);
    if (choice->main && table->needs) return gp_refuse(choice->place, at->what, err, "needs %s", table->needs);
    GP_RETURN_IF_FAILED(gp_check_options(choice, at->what, known.text, err));
    if (choice->options) status = gp_check_keys(choice->options, at->what, known.text, table->later_keys, err);
    return read_keys(table, choice->options, status, misnamed || status != GP_OK, at, base, err);
}

gp_status gp_read_kind_options(const gp_key_table *table, const gp_choice *choice, const gp_key_context *at, void *base,
                               gp_error *err) {
    return read_options(table, choice, false, at, base, err);
}

/* Keys of a later version that stand beside the kind. */
static gp_status check_later(const gp_key_table *table, const gp_yaml *node, const char *what, gp_status before,
                             gp_error *err) {
    gp_status status = before;
    for (const char *const *later = table->later_keys; later && *later; later++) {
        const gp_yaml *key = gp_yaml_key(node, *later);
        gp_error next = {0};
        if (key) (void)gp_refuse(key->place, what, &next, "\"%s\" is not available yet", key->text);
        status = gp_error_join(err, status, &next);
    }
    return status;
}

static gp_status read_kind(const gp_key_table *table, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    name_list kinds = names_of_kinds(table->kinds), beside = names_of_keys(table->keys, table->later_keys);
    bool alone = !beside.text[0];
    gp_choice choice;
    gp_error next = {0};
    char what[GP_KEY_TEXT];
    int index = 0;
    const char *const *known = alone ? NULL : kinds.text, *const *others = alone ? NULL : beside.text;
    GP_RETURN_IF_FAILED(gp_find_choice(node, at->what, kinds.text, others, &choice, err));
    gp_status status = gp_check_beside(node, at->what, known, others, &choice, err);
    if (status != GP_OK && alone) return status;
    if (gp_find_kind(&choice, at->what, kinds.text, table->later_kinds, &index, &next) != GP_OK)
        return gp_error_join(err, status, &next);
    status = check_later(table, node, at->what, status, err);
    const gp_key_kind *kind = &table->kinds[index];
    *(int *)((char *)base + table->kind) = kind->value;
    if (table->kind_place) *(gp_place *)((char *)base + table->kind_place) = choice.place;
    snprintf(what, sizeof what, "%s.%s", at->what, kind->name);
    gp_key_context inner = {.what = table->short_names ? kind->name : what,
                            .joint = table->short_names ? ": " : ".",
                            .folder = at->folder,
                            .place = choice.place};
    return read_options(&kind->options, &choice, status != GP_OK, &inner, base, &next) == GP_OK
               ? status
               : gp_error_join(err, status, &next);
}

gp_status gp_read_table(const gp_key_table *table, const gp_yaml *node, const gp_key_context *at, void *base,
                        gp_error *err) {
    gp_status status = GP_OK;
    bool alone = table->alone == GP_ALONE_ANY ? node->kind != GP_YAML_MAPPING
                                              : table->alone == GP_ALONE_SCALAR && node->kind == GP_YAML_SCALAR;
    if (alone && !table->kinds) return read_alone(table, node, at, false, base, err);
    if (table->kinds) {
        status = read_kind(table, node, at, base, err);
        if (status != GP_OK && status != GP_CONFIG) return status;
    } else {
        name_list known = names_of_keys(table->keys, NULL);
        GP_RETURN_IF_FAILED(gp_read_mapping(node, at->what, err));
        status = gp_check_keys(node, at->what, known.text, table->later_keys, err);
    }
    return read_keys(table, node, status, status != GP_OK, at, base, err);
}

static bool is_said(const gp_key *key, const void *base) {
    if (key->flags & GP_KEY_SHORT) return false;
    if (key->flags & GP_KEY_QUIET) return *(const bool *)((const char *)base + key->given);
    if (key->count) return *(const int *)((const char *)base + key->count) > 0;
    return key->unsaid || key->example || !key->type->is_said || key->type->is_said(key, base);
}

static void write_keys(FILE *file, const gp_key *key, const void *base) {
    const char *separator = "";
    for (; key && key->name; key++) {
        if (!is_said(key, base)) continue;
        fprintf(file, "%s%s: ", separator, key->name);
        key->type->write(file, key, base);
        separator = ", ";
    }
}

static const gp_key_kind *chosen_kind(const gp_key_table *table, const void *base) {
    const gp_key_kind *kind = table->kinds;
    while (kind && kind->name && kind->value != *(const int *)((const char *)base + table->kind)) kind++;
    return kind;
}

void gp_write_table(FILE *file, const gp_key_table *table, const void *base) {
    const gp_key_kind *kind = chosen_kind(table, base);
    const gp_key *first = table->keys;
    bool others = !first || !(first->flags & GP_KEY_UNNAMED);
    for (const gp_key *key = first; key && key->name && !others; key++) others = key > first && is_said(key, base);
    if (kind && !kind->options.keys && !first) {
        fputs(kind->name, file);
    } else if (!kind && !others) {
        first->type->write(file, first, base);
    } else {
        fputs("{", file);
        if (kind) fprintf(file, "%s: ", kind->name);
        if (kind) gp_write_table(file, &kind->options, base);
        if (kind && first) fputs(", ", file);
        write_keys(file, first, base);
        fputs("}", file);
    }
}

static bool is_segment(const char *path, size_t length, const char *name) {
    return strncmp(path, name, length) == 0 && name[length] == '\0';
}

gp_key_change gp_find_change(const gp_key_table *table, const char *path, const char **reason) {
    gp_key_change change = GP_CHANGE_BY_STEP;
    *reason = NULL;
    while (table && *path) {
        size_t length = strcspn(path, ".");
        bool last = path[length] == '\0';
        const gp_key *key = table->keys;
        const gp_key_kind *kind = table->kinds;
        while (key && key->name && !is_segment(path, length, key->name)) key++;
        while (kind && kind->name && !is_segment(path, length, kind->name)) kind++;
        bool is_key = key && key->name, is_kind = kind && kind->name;
        if (is_key && key->change) {
            change = key->change;
            *reason = key->fixed;
        } else if (is_kind && kind->fixed && last) {
            change = GP_CHANGE_NEVER;
            *reason = kind->fixed;
        }
        table = is_key ? key->table : is_kind ? &kind->options : NULL;
        path += length + !last;
    }
    return change;
}
