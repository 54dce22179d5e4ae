#include "config/splice.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/replace.h"
#include "config/tree.h"

/* A node of the text: from its first byte to behind its last. */
typedef struct span {
    bool there, flow, alias, empty; /* flow: [] or {}; empty: a value that is not written */
    bool mapping, scalar;
    size_t from, to;
    size_t column;    /* of `from` */
    size_t first_key; /* mapping with keys: where the first stands; else SIZE_MAX */
    size_t first_column;
} span;

typedef struct finder {
    yaml_parser_t yaml;
    const char *text;
    const char *section, *key;
    size_t at, at_index; /* a byte of the text, and how many characters stand before it */
    span root, in, value;
    size_t written; /* behind the last scalar or bracket */
} finder;

/* libyaml counts characters; marks come in order but for a little, so this seldom goes back. */
static size_t byte_of(finder *f, size_t index) {
    if (index < f->at_index) f->at = f->at_index = 0;
    while (f->at_index < index && f->text[f->at]) {
        f->at++;
        while (((unsigned char)f->text[f->at] & 0xC0U) == 0x80U) f->at++;
        f->at_index++;
    }
    return f->at;
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

/* Where the text of an event ends. libyaml has a block scalar end where the next token begins, which takes blank lines
 * and the indentation of a comment with it. */
static size_t end_of(finder *f, const yaml_event_t *event) {
    size_t to = byte_of(f, event->end_mark.index);
    if (event->type != YAML_SCALAR_EVENT ||
        (event->data.scalar.style != YAML_LITERAL_SCALAR_STYLE && event->data.scalar.style != YAML_FOLDED_SCALAR_STYLE))
        return to;
    for (size_t blank; (blank = blank_before(f->text, to)) > 0;) to -= blank;
    return to;
}

static void begin(finder *f, const yaml_event_t *event, span *out) {
    *out = (span){.there = true, .first_key = SIZE_MAX};
    out->from = byte_of(f, event->start_mark.index);
    out->to = end_of(f, event);
    out->column = event->start_mark.column;
    out->alias = event->type == YAML_ALIAS_EVENT;
    out->scalar = event->type == YAML_SCALAR_EVENT;
    out->empty = out->scalar && out->from == out->to;
    out->mapping = event->type == YAML_MAPPING_START_EVENT;
    out->flow =
        (out->mapping && event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE) ||
        (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
}

static bool next(finder *f, yaml_event_t *event) {
    if (!yaml_parser_parse(&f->yaml, event)) return false;
    bool ends = event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
    /* The end of a block stands where the next token begins, behind comments. */
    if (event->end_mark.index > event->start_mark.index &&
        (ends || event->type == YAML_SCALAR_EVENT || event->type == YAML_ALIAS_EVENT))
        f->written = end_of(f, event);
    return true;
}

/* The rest of a node that `event` began, and where it ends. */
static bool skip(finder *f, const yaml_event_t *event, size_t *to) {
    int depth = event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
    while (depth > 0) {
        yaml_event_t inner;
        if (!next(f, &inner)) return false;
        depth += inner.type == YAML_MAPPING_START_EVENT || inner.type == YAML_SEQUENCE_START_EVENT;
        depth -= inner.type == YAML_MAPPING_END_EVENT || inner.type == YAML_SEQUENCE_END_EVENT;
        yaml_event_delete(&inner);
    }
    *to = f->written;
    return true;
}

static bool is_key(const yaml_event_t *event, const char *name) {
    return event->type == YAML_SCALAR_EVENT && strcmp((const char *)event->data.scalar.value, name) == 0;
}

/* The mapping `of`, whose start has been read: the span of the value of `name`, gone into where `deeper` is not NULL.
 */
static bool search(finder *f, span *of, const char *name, span *out, const char *deeper, span *deeper_out) {
    for (;;) {
        yaml_event_t key, value;
        if (!next(f, &key)) return false;
        if (key.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&key);
            of->to = f->written;
            return true;
        }
        if (of->first_key == SIZE_MAX) {
            of->first_key = byte_of(f, key.start_mark.index);
            of->first_column = key.start_mark.column;
        }
        bool found = is_key(&key, name), read = next(f, &value);
        yaml_event_delete(&key);
        if (!read) return false;
        size_t to = 0;
        if (found) begin(f, &value, out);
        if (found && deeper && out->mapping)
            read = search(f, out, deeper, deeper_out, NULL, NULL);
        else
            read = skip(f, &value, &to);
        if (found && read && !out->scalar && !out->alias && !(deeper && out->mapping)) out->to = to;
        yaml_event_delete(&value);
        if (!read) return false;
    }
}

/* Of a text that has been parsed before: false only for want of memory. */
static bool find_spans(finder *f) {
    for (;;) {
        yaml_event_t event;
        if (!next(f, &event)) return false;
        yaml_event_type_t type = event.type;
        bool found = true;
        if (type == YAML_MAPPING_START_EVENT) {
            begin(f, &event, &f->root);
            found = search(f, &f->root, f->section, &f->in, f->key, &f->value);
        }
        yaml_event_delete(&event);
        if (type == YAML_MAPPING_START_EVENT || type == YAML_STREAM_END_EVENT || !found) return found;
    }
}

/* ---- the edit ---------------------------------------------------------------------------------------------------- */

/* Bytes [from, to) of the text give way to what is printed. */
typedef struct edit {
    size_t from, to;
    char *instead; /* owned */
} edit;

/* As the text ends its lines. */
static const char *line_end(const char *text) {
    const char *first = strchr(text, '\n');
    return first && first > text && first[-1] == '\r' ? "\r\n" : "\n";
}

static gp_status edit_mapping(const finder *f, const span *mapping, const char *entry, edit *out, gp_error *err) {
    bool empty = mapping->first_key == SIZE_MAX;
    if (mapping->flow) {
        out->from = out->to = empty ? mapping->from + 1 : mapping->first_key;
        return gp_format_text(&out->instead, err, "%s%s", entry, empty ? "" : ", ");
    }
    out->from = out->to = mapping->first_key;
    return gp_format_text(&out->instead, err, "%s%s%*s", entry, line_end(f->text), (int)mapping->first_column, "");
}

static gp_status append_section(const finder *f, const char *entry, edit *out, gp_error *err) {
    size_t bytes = strlen(f->text);
    int column = f->root.there ? (int)f->root.first_column : 0;
    const char *end = line_end(f->text);
    out->from = out->to = bytes;
    return gp_format_text(&out->instead, err, "%s%*s%s:%s%*s%s%s", bytes && f->text[bytes - 1] != '\n' ? end : "",
                          column, "", f->section, end, column + 2, "", entry, end);
}

/* The first comment of a value, which would go with it; SIZE_MAX: there is none. */
static size_t find_comment(const char *text, const span *value) {
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

static gp_status replace_value(const finder *f, const char *name, const char *entry, const char *value, edit *out,
                               gp_error *err) {
    size_t comment = find_comment(f->text, &f->value);
    gp_place place = {.path = name, .line = 1};
    for (size_t i = 0; comment != SIZE_MAX && i < comment; i++) place.line += f->text[i] == '\n';
    if (comment != SIZE_MAX)
        return gp_fail_at(err, GP_CONFIG, place, "a comment stands within %s.%s, and would be lost: write %s by hand",
                          f->section, f->key, entry);
    out->from = f->value.from;
    out->to = f->value.to;
    /* A block list may begin in the column of its key; any other value must be indented further. */
    bool beside = !f->in.flow && !f->value.flow && !f->value.scalar && f->value.column <= f->in.first_column;
    int indent = beside ? (int)(f->in.first_column - f->value.column) + 2 : f->value.empty;
    return gp_format_text(&out->instead, err, "%*s%s", indent, "", value);
}

static gp_status plan_edit(const finder *f, const char *name, const char *value, edit *out, gp_error *err) {
    char *entry = NULL;
    gp_status status = gp_format_text(&entry, err, "%s: %s", f->key, value);
    if (status != GP_OK) return status;
    if (f->value.there) {
        status = replace_value(f, name, entry, value, out, err);
    } else if (f->in.there && f->in.mapping) {
        status = edit_mapping(f, &f->in, entry, out, err);
    } else if (f->in.there && f->in.empty) {
        out->from = out->to = f->in.from;
        status = gp_format_text(&out->instead, err, " {%s}", entry);
    } else if (f->in.there && !f->in.alias) {
        status =
            gp_fail(err, GP_CONFIG, "%s: %s is not a mapping, so %s cannot be added to it", name, f->section, entry);
    } else if (f->in.there) {
        status = gp_fail(err, GP_CONFIG, "%s: %s comes from an alias: write %s into what the anchor names", name,
                         f->section, entry);
    } else if (f->root.there && f->root.flow) {
        char *section = NULL;
        status = gp_format_text(&section, err, "%s: {%s}", f->section, entry);
        if (status == GP_OK) status = edit_mapping(f, &f->root, section, out, err);
        free(section);
    } else {
        status = append_section(f, entry, out, err);
    }
    free(entry);
    return status;
}

static gp_status apply(const char *text, const edit *e, char **out, gp_error *err) {
    return gp_format_text(out, err, "%.*s%s%s", (int)e->from, text, e->instead, text + e->to);
}

/* ---- the check --------------------------------------------------------------------------------------------------- */

static gp_status compare(gp_yaml_document *then, gp_yaml_document *now, const char *name, const char *path,
                         gp_error *err) {
    gp_yaml_difference difference = {0};
    GP_RETURN_IF_FAILED(gp_yaml_find_difference("", gp_yaml_root(then), gp_yaml_root(now), &difference, err));
    if (!difference.path) return GP_OK;
    gp_status status =
        gp_fail(err, GP_CONFIG, "%s: %s cannot be changed in place without changing %s too; write it by hand", name,
                path, strcmp(difference.path, path) == 0 ? "more" : difference.path);
    free(difference.path);
    return status;
}

/* What the new text says must be what the old one says, but for the value. */
static gp_status check(gp_yaml_document *then, const char *text, const char *name, const char *path, const char *value,
                       gp_error *err) {
    gp_yaml_document *now = NULL;
    gp_error ignored = {0};
    gp_status status = gp_yaml_put(then, path, value, err);
    if (status != GP_OK) return status;
    status = gp_yaml_parse(text, strlen(text), name, &now, &ignored);
    if (status == GP_MEMORY) return gp_fail(err, status, "%s", ignored.text);
    if (status != GP_OK)
        return gp_fail(err, GP_CONFIG, "%s: %s cannot be changed in place; write it by hand", name, path);
    status = compare(then, now, name, path, err);
    gp_yaml_destroy(&now);
    return status;
}

/* Whether the text says it already, in whatever way. */
static gp_status says_so(gp_yaml_document *then, const char *text, const char *name, const char *path,
                         const char *value, bool *out, gp_error *err) {
    gp_yaml_document *put = NULL;
    bool differs = true;
    GP_RETURN_IF_FAILED(gp_yaml_parse(text, strlen(text), name, &put, err));
    gp_error ignored = {0};
    gp_status status = gp_yaml_put(put, path, value, &ignored);
    if (status == GP_OK) status = gp_yaml_differ("", gp_yaml_root(then), gp_yaml_root(put), &differs, &ignored);
    *out = status == GP_OK && !differs;
    gp_yaml_destroy(&put);
    /* What else is wrong the edit finds, and says. */
    return status == GP_MEMORY ? gp_fail(err, status, "%s", ignored.text) : GP_OK;
}

static gp_status splice(finder *f, const char *name, const char *value, char **out, gp_error *err) {
    edit e = {0};
    if (!yaml_parser_initialize(&f->yaml)) return gp_fail(err, GP_MEMORY, "out of memory: reading YAML");
    yaml_parser_set_encoding(&f->yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&f->yaml, (const unsigned char *)f->text, strlen(f->text));
    bool found = find_spans(f);
    yaml_parser_delete(&f->yaml);
    if (!found) return gp_fail(err, GP_MEMORY, "out of memory: reading YAML");
    GP_RETURN_IF_FAILED(plan_edit(f, name, value, &e, err));
    gp_status status = apply(f->text, &e, out, err);
    free(e.instead);
    return status;
}

gp_status gp_yaml_splice(const char *text, const char *name, const char *section, const char *key, const char *value,
                         char **out, gp_error *err) {
    static const char mark[] = "\xEF\xBB\xBF"; /* of byte order */
    size_t before = strncmp(text, mark, 3) == 0 ? 3 : 0;
    gp_yaml_document *then = NULL;
    char *path = NULL, *changed = NULL;
    bool says = false;
    finder f = {.text = text + before, .section = section, .key = key};
    GP_RETURN_IF_FAILED(gp_yaml_parse(text, strlen(text), name, &then, err));
    gp_status status = gp_format_text(&path, err, "%s.%s", section, key);
    if (status == GP_OK) status = says_so(then, text, name, path, value, &says, err);
    if (status == GP_OK && says) status = gp_copy_text(&changed, f.text, err);
    if (status == GP_OK && !says) status = splice(&f, name, value, &changed, err);
    if (status == GP_OK && !says) status = check(then, changed, name, path, value, err);
    if (status == GP_OK) status = gp_format_text(out, err, "%.*s%s", (int)before, text, changed);
    gp_yaml_destroy(&then);
    free(changed);
    free(path);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static gp_status read_file(const char *path, char **out, gp_error *err) {
    struct stat info;
    char *text = NULL;
    FILE *file = fopen(path, "rbe");
    if (!file) return gp_fail(err, GP_CONFIG, "%s: cannot be opened: %s", path, strerror(errno));
    gp_status status = GP_OK;
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > GP_YAML_MAX_BYTES)
        status = gp_fail(err, GP_CONFIG, "%s: not a regular file, or too large", path);
    if (status == GP_OK) status = GP_NEW(&text, info.st_size + 1, err);
    if (status == GP_OK && fread(text, 1, (size_t)info.st_size, file) != (size_t)info.st_size)
        status = gp_fail(err, GP_IO, "%s: cannot be read", path);
    fclose(file);
    if (status != GP_OK) {
        free(text);
        return status;
    }
    *out = text;
    return GP_OK;
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
    GP_RETURN_IF_FAILED(read_file(path, &text, err));
    gp_status status = gp_copy_text(&before, text, err);
    for (int i = 0; i < count && status == GP_OK; i++) status = put(&text, path, section, &settings[i], err);
    bool changes = status == GP_OK && strcmp(before, text) != 0;
    if (changes) status = gp_yaml_check_replaceable(path, err);
    if (changes && status == GP_OK) status = gp_file_replace(path, &(gp_bytes){text, strlen(text)}, 1, err);
    free(before);
    free(text);
    return status;
}
