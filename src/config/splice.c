#include "config/splice.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "base/text_file.h"
#include "config/tree.h"

/* A change that is asked for: section.key becomes `value` in a text that was parsed as `then`. */
typedef struct change {
    const char *text; /* without a mark of byte order */
    const char *name; /* of the text */
    const char *section, *key, *value;
    char *path, *entry;              /* "section.key", "key: value"; owned */
    gp_yaml_document *then, *wanted; /* wanted: `then` with the value; owned */
} change;

/* libyaml counts characters. */
static size_t byte_of(const char *text, unsigned index) {
    size_t at = 0;
    for (; index > 0 && text[at]; index--) do
            at++;
        while (((unsigned char)text[at] & 0xC0U) == 0x80U);
    return at;
}

/* Bytes of the blank or line break that ends before `to`; 0: something else does. YAML 1.1 knows three breaks beyond
 * ASCII: U+0085, U+2028 and U+2029. */
static size_t blank_before(const char *text, size_t to) {
    static const char *const blanks[] = {" ", "\t", "\r", "\n", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        size_t bytes = strlen(blanks[i]);
        if (bytes <= to && memcmp(text + to - bytes, blanks[i], bytes) == 0) return bytes;
    }
    return 0;
}

/* Bytes [from, to) of the text give way to what is printed. */
typedef struct edit {
    size_t from, to;
    char *instead; /* owned */
} edit;

/* The text of a node. libyaml has a block scalar end where the next token begins, which takes blank lines and the
 * indentation of a comment with it. */
static edit span_of(const char *text, const gp_yaml *node) {
    edit span = {.from = byte_of(text, node->from), .to = byte_of(text, node->to)};
    for (size_t blank; span.to > span.from && (blank = blank_before(text, span.to)) > 0;) span.to -= blank;
    return span;
}

/* As the text ends its lines. */
static const char *line_end(const char *text) {
    const char *first = strchr(text, '\n');
    return first && first > text && first[-1] == '\r' ? "\r\n" : "\n";
}

static int column_of(const gp_yaml *mapping) {
    return mapping && mapping->count > 0 ? mapping->pairs[0].key->place.column - 1 : 0;
}

static gp_status edit_mapping(const change *c, const gp_yaml *mapping, const char *entry, edit *out, gp_error *err) {
    unsigned first = mapping->count > 0 ? mapping->pairs[0].key->from : mapping->from + 1;
    out->from = out->to = byte_of(c->text, first);
    if (mapping->flow) return gp_format_text(&out->instead, err, "%s%s", entry, mapping->count > 0 ? ", " : "");
    return gp_format_text(&out->instead, err, "%s%s%*s", entry, line_end(c->text), column_of(mapping), "");
}

static gp_status append_section(const change *c, const gp_yaml *root, edit *out, gp_error *err) {
    size_t bytes = strlen(c->text);
    int column = column_of(root);
    const char *end = line_end(c->text);
    out->from = out->to = bytes;
    return gp_format_text(&out->instead, err, "%s%*s%s:%s%*s%s%s", bytes && c->text[bytes - 1] != '\n' ? end : "",
                          column, "", c->section, end, column + 2, "", c->entry, end);
}

/* The first comment of a value, which would go with it; SIZE_MAX: there is none. */
static size_t find_comment(const char *text, const edit *value) {
    char quote = '\0';
    for (size_t i = value->from; i < value->to; i++) {
        char before = i > value->from ? text[i - 1] : ' ', here = text[i];
        if (quote == '"' && here == '\\')
            i++;
        else if (quote)
            quote = here == quote ? '\0' : quote;
        else if ((here == '"' || here == '\'') && strchr(here == '"' ? " \t\r\n[{,:" : " \t\r\n[{,:'", before))
            quote = here; /* or goes on: '' stands for one */
        else if (here == '#' && strchr(" \t\r\n", before))
            return i;
    }
    return SIZE_MAX;
}

static gp_status replace_value(const change *c, const gp_yaml *section, const gp_yaml *value, edit *out,
                               gp_error *err) {
    *out = span_of(c->text, value);
    size_t comment = find_comment(c->text, out);
    gp_place place = {.path = c->name, .line = 1};
    for (size_t i = 0; comment != SIZE_MAX && i < comment; i++) place.line += c->text[i] == '\n';
    if (comment != SIZE_MAX)
        return gp_fail_at(err, GP_CONFIG, place, "a comment stands within %s, and would be lost: write %s by hand",
                          c->path, c->entry);
    /* A block list may begin in the column of its key; any other value must be indented further. */
    bool block = !section->flow && !value->flow && !value->alias && value->kind != GP_YAML_SCALAR;
    int deeper = value->place.column - 1 - column_of(section);
    int indent = block && deeper <= 0 ? 2 - deeper : value->from == value->to;
    return gp_format_text(&out->instead, err, "%*s%s", indent, "", c->value);
}

static gp_status plan_edit(const change *c, edit *out, gp_error *err) {
    gp_yaml *root = gp_yaml_root(c->then);
    const gp_yaml *section = gp_yaml_get(root, c->section), *value = gp_yaml_get(section, c->key);
    bool mapping = root && root->kind == GP_YAML_MAPPING;
    if (section && section->alias)
        return gp_fail(err, GP_CONFIG, "%s: %s comes from an alias: write %s into what the anchor names", c->name,
                       c->section, c->entry);
    if (section && value) return replace_value(c, section, value, out, err);
    if (section && section->kind == GP_YAML_MAPPING) return edit_mapping(c, section, c->entry, out, err);
    if (section && section->from == section->to) {
        out->from = out->to = byte_of(c->text, section->from);
        return gp_format_text(&out->instead, err, " {%s}", c->entry);
    }
    if (section)
        return gp_fail(err, GP_CONFIG, "%s: %s is not a mapping, so %s cannot be added to it", c->name, c->section,
                       c->entry);
    if (!mapping || !root->flow) return append_section(c, mapping ? root : NULL, out, err);
    char *entry = NULL;
    GP_RETURN_IF_FAILED(gp_format_text(&entry, err, "%s: {%s}", c->section, c->entry));
    gp_status status = edit_mapping(c, root, entry, out, err);
    free(entry);
    return status;
}

static gp_status refuse_difference(void *context, const gp_yaml_difference *difference, gp_error *err) {
    const change *c = context;
    return gp_fail(err, GP_CONFIG, "%s: %s cannot be changed in place without changing %s too; write it by hand",
                   c->name, c->path, strcmp(difference->path, c->path) == 0 ? "more" : difference->path);
}

/* What the new text says must be what the old one says, but for the value. */
static gp_status check(change *c, const char *text, gp_error *err) {
    gp_yaml_document *now = NULL;
    gp_error ignored = {0};
    gp_status status = gp_yaml_parse(text, strlen(text), c->name, &now, &ignored);
    if (status == GP_MEMORY) return gp_fail(err, status, "%s", ignored.text);
    if (status != GP_OK)
        return gp_fail(err, GP_CONFIG, "%s: %s cannot be changed in place; write it by hand", c->name, c->path);
    status = gp_yaml_each_difference("", gp_yaml_root(c->wanted), gp_yaml_root(now), refuse_difference, c, err);
    gp_yaml_destroy(&now);
    return status;
}

static gp_status edit_text(change *c, char **out, gp_error *err) {
    edit e = {0};
    GP_RETURN_IF_FAILED(plan_edit(c, &e, err));
    gp_status status = gp_format_text(out, err, "%.*s%s%s", (int)e.from, c->text, e.instead, c->text + e.to);
    free(e.instead);
    return status;
}

/* *out: the text with the value. */
static gp_status apply(change *c, char **out, gp_error *err) {
    gp_error wrong = {0};
    GP_RETURN_IF_FAILED(gp_format_text(&c->path, err, "%s.%s", c->section, c->key));
    GP_RETURN_IF_FAILED(gp_format_text(&c->entry, err, "%s: %s", c->key, c->value));
    GP_RETURN_IF_FAILED(gp_yaml_copy(c->then, &c->wanted, err));
    gp_status status = gp_yaml_put(c->wanted, c->path, c->value, &wrong);
    if (status == GP_OK && !gp_yaml_differ("", gp_yaml_root(c->then), gp_yaml_root(c->wanted)))
        return gp_copy_text(out, c->text, err);
    /* What is wrong with the text the edit says better; else it is the value. */
    GP_RETURN_IF_FAILED(edit_text(c, out, err));
    return status == GP_OK ? check(c, *out, err) : gp_fail(err, status, "%s", wrong.text);
}

gp_status gp_yaml_splice(const char *text, const char *name, const char *section, const char *key, const char *value,
                         char **out, gp_error *err) {
    static const char mark[] = "\xEF\xBB\xBF"; /* of byte order */
    size_t before = strncmp(text, mark, 3) == 0 ? 3 : 0;
    char *changed = NULL;
    change c = {.text = text + before, .name = name, .section = section, .key = key, .value = value};
    GP_RETURN_IF_FAILED(gp_yaml_parse(text, strlen(text), name, &c.then, err));
    gp_status status = apply(&c, &changed, err);
    if (status == GP_OK) status = gp_format_text(out, err, "%.*s%s", (int)before, text, changed);
    gp_yaml_destroy(&c.wanted);
    gp_yaml_destroy(&c.then);
    free(c.entry);
    free(c.path);
    free(changed);
    return status;
}

/* Permission bits are looked at by themselves too, since root may write whatever they say. A file with several hard
 * links would have to be overwritten in place: a failure in the middle would leave it broken, so it is refused. */
gp_status gp_yaml_check_replaceable(const char *path, gp_error *err) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return GP_OK;
    if (!(info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) || access(path, W_OK) != 0)
        return gp_fail(err, GP_IO, "%s: is read-only, and is not changed: make it writable, or change it by hand",
                       path);
    if (info.st_nlink > 1)
        return gp_fail(err, GP_IO,
                       "%s: has %ju hard links, which replacing the file would split: change it by hand, or change a "
                       "copy",
                       path, (uintmax_t)info.st_nlink);
    if (geteuid() != 0 && info.st_uid != geteuid())
        return gp_fail(err, GP_IO, "%s: belongs to another user, and replacing it would change that: change it by hand",
                       path);
    return GP_OK;
}

/* *text becomes the one with the value. */
static gp_status put(char **text, const char *path, const char *section, const gp_yaml_setting *setting,
                     gp_error *err) {
    char *changed = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_splice(*text, path, section, setting->key, setting->value, &changed, err));
    free(*text);
    *text = changed;
    return GP_OK;
}

gp_status gp_yaml_splice_file(const char *path, const char *section, const gp_yaml_setting *settings, int count,
                              gp_error *err) {
    char *text = NULL, *before = NULL;
    size_t bytes = 0;
    GP_RETURN_IF_FAILED(gp_text_file_read(path, GP_YAML_MAX_BYTES, "a configuration", &text, &bytes, err));
    gp_status status = gp_copy_text(&before, text, err);
    for (int i = 0; i < count && status == GP_OK; i++) status = put(&text, path, section, &settings[i], err);
    bool changes = status == GP_OK && strcmp(before, text) != 0;
    if (changes) status = gp_yaml_check_replaceable(path, err);
    if (changes && status == GP_OK) status = gp_file_replace(path, text, err);
    free(before);
    free(text);
    return status;
}
