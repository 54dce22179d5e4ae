/* Makes the tree from the events of libyaml, within limits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/printable.h"
#include "base/text_file.h"
#include "config/tree_internal.h"

typedef struct anchor {
    uint64_t hash;
    char *name;
    const gp_yaml *node;
    bool open; /* its collection has not ended yet */
} anchor;

typedef struct parser {
    yaml_parser_t yaml;
    gp_yaml_document *document;
    gp_yaml_source source;
    const char *text;
    size_t bytes;
    unsigned written; /* characters of the text before the end of the last scalar, alias or bracket */
    anchor *anchors;
    size_t anchor_count, anchor_capacity;
} parser;

/* YAML's printable characters; a byte order mark is let through at the very beginning only. */
static bool is_allowed(uint32_t value) {
    if (value < 0x20) return value == '\t' || value == '\n' || value == '\r';
    if (value < 0xA0) return value < 0x7F || value == 0x85;
    return value != 0xFEFF && value != 0xFFFE && value != 0xFFFF;
}

static gp_place place_at(gp_yaml_source source, int line, int column) {
    gp_place place = {.path = source.name};
    if (source.lines) {
        place.line = line;
        place.column = column;
    }
    return place;
}

static gp_place place_of(const parser *p, yaml_mark_t mark) {
    return place_at(p->source, (int)mark.line + 1, (int)mark.column + 1);
}

/* libyaml would say some of this too, but without a line; and its time grows with the square of the %TAG lines. */
gp_status gp_yaml_check_text(const char *text, size_t bytes, gp_yaml_source source, gp_error *err) {
    int line = 1, column = 1;
    for (size_t i = 0; i < bytes;) {
        uint32_t value = 0;
        size_t length = gp_utf8_next(text + i, bytes - i, &value);
        gp_place place = place_at(source, line, column);
        if (length == 0)
            return gp_fail_at(err, GP_CONFIG, place, "byte 0x%02X is not valid UTF-8",
                              (unsigned)(unsigned char)text[i]);
        if (!is_allowed(value))
            return gp_fail_at(err, GP_CONFIG, place, "character U+%04X is not allowed in YAML", (unsigned)value);
        if (column == 1 && bytes - i >= 4 && memcmp(text + i, "%TAG", 4) == 0)
            return gp_fail_at(err, GP_CONFIG, place, "%%TAG is not supported");
        bool ends = value == '\n' || value == 0x85 || value == 0x2028 || value == 0x2029 ||
                    (value == '\r' && !(i + 1 < bytes && text[i + 1] == '\n'));
        line += ends;
        column = ends ? 1 : column + 1;
        i += length;
    }
    return GP_OK;
}

/* The byte at a mark; 0 at the end. Used for messages only. */
static char byte_at(const parser *p, yaml_mark_t mark) {
    size_t i = 0;
    for (size_t line = 0; line < mark.line && i < p->bytes; i++) line += p->text[i] == '\n';
    for (size_t column = 0; column < mark.column && i < p->bytes; column++) {
        i++;
        while (i < p->bytes && ((unsigned char)p->text[i] & 0xC0U) == 0x80U) i++;
    }
    return i < p->bytes ? p->text[i] : '\0';
}

static gp_status refuse_syntax(const parser *p, gp_error *err) {
    const yaml_parser_t *yaml = &p->yaml;
    gp_place place = place_of(p, yaml->problem_mark);
    if (yaml->error == YAML_MEMORY_ERROR) return gp_fail(err, GP_MEMORY, "out of memory: reading YAML");
    if (byte_at(p, yaml->problem_mark) == '\t')
        return gp_fail_at(err, GP_CONFIG, place, "not valid YAML: a tab cannot indent; use spaces");
    const char *problem = yaml->problem ? yaml->problem : "it cannot be read";
    if (yaml->context && p->source.lines && yaml->context_mark.line != yaml->problem_mark.line)
        return gp_fail_at(err, GP_CONFIG, place, "not valid YAML: %s %s that begins in line %d", problem, yaml->context,
                          (int)yaml->context_mark.line + 1);
    if (yaml->context) return gp_fail_at(err, GP_CONFIG, place, "not valid YAML: %s %s", problem, yaml->context);
    return gp_fail_at(err, GP_CONFIG, place, "not valid YAML: %s", problem);
}

static gp_status next_event(parser *p, yaml_event_t *event, gp_error *err) {
    if (!yaml_parser_parse(&p->yaml, event)) return refuse_syntax(p, err);
    /* The end of a block is an event without a text, where the next token begins. */
    bool ends = event->type != YAML_SEQUENCE_START_EVENT && event->type != YAML_MAPPING_START_EVENT;
    if (ends && event->end_mark.index > event->start_mark.index) p->written = (unsigned)event->end_mark.index;
    return GP_OK;
}

static gp_status add_anchor(parser *p, const char *name, const gp_yaml *node, size_t *index, gp_error *err) {
    *index = SIZE_MAX;
    if (!name) return GP_OK;
    if (p->anchor_count >= GP_YAML_MAX_ANCHORS)
        return gp_fail_at(err, GP_CONFIG, node->place, "the document has more than %d anchors",
                          (int)GP_YAML_MAX_ANCHORS);
    GP_RETURN_IF_FAILED(GP_GROW(&p->anchors, &p->anchor_capacity, p->anchor_count + 1, err));
    anchor *entry = &p->anchors[p->anchor_count];
    GP_RETURN_IF_FAILED(gp_copy_text(&entry->name, name, err));
    entry->hash = gp_hash_text(name);
    entry->node = node;
    entry->open = true;
    *index = p->anchor_count++;
    return GP_OK;
}

static void close_anchor(parser *p, size_t index) {
    if (index != SIZE_MAX) p->anchors[index].open = false;
}

/* The latest of that name: YAML lets an anchor be given again. */
static const anchor *find_anchor(const parser *p, const char *name) {
    uint64_t hash = gp_hash_text(name);
    for (size_t i = p->anchor_count; i-- > 0;)
        if (p->anchors[i].hash == hash && strcmp(p->anchors[i].name, name) == 0) return &p->anchors[i];
    return NULL;
}

static void set_span(gp_yaml *node, const yaml_event_t *event, unsigned to) {
    node->from = (unsigned)event->start_mark.index;
    node->to = to;
}

static gp_status read_alias(parser *p, const yaml_event_t *event, int depth, gp_yaml **out, gp_error *err) {
    gp_place place = place_of(p, event->start_mark);
    const char *name = (const char *)event->data.alias.anchor;
    const anchor *target = find_anchor(p, name);
    if (!target) return gp_fail_at(err, GP_CONFIG, place, "alias *%.60s has no anchor &%.60s before it", name, name);
    if (target->open)
        return gp_fail_at(err, GP_CONFIG, place, "alias *%.60s is inside the value of its own anchor", name);
    /* A copy, so that an edit of one leaves the other. */
    GP_RETURN_IF_FAILED(gp_yaml_copy_tree(p->document, target->node, depth, place, out, err));
    set_span(*out, event, p->written);
    (*out)->alias = true;
    return GP_OK;
}

static gp_status read_node(parser *p, const yaml_event_t *event, int depth, gp_yaml **out, gp_error *err);

/* Text that YAML could not give back as a plain scalar everywhere ("-" is one within brackets only), or that terminals
 * may not have as it is; it is a string in any case. */
static bool must_be_quoted(const char *text) {
    return strcmp(text, "-") == 0 || strchr(text, '\n') || strstr(text, "\xC2\x85") || strstr(text, "\xE2\x80\xA8") ||
           strstr(text, "\xE2\x80\xA9") || strncmp(text, "---", 3) == 0 || strncmp(text, "...", 3) == 0 ||
           !gp_is_printable(text);
}

static gp_status refuse_tag(gp_place place, const yaml_char_t *tag, gp_error *err) {
    if (!tag) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, place, "tags are not supported (%.60s)", (const char *)tag);
}

static gp_status read_scalar(parser *p, const yaml_event_t *event, gp_yaml **out, gp_error *err) {
    gp_place place = place_of(p, event->start_mark);
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    gp_yaml *node = NULL;
    size_t index;
    GP_RETURN_IF_FAILED(refuse_tag(place, event->data.scalar.tag, err));
    if (length > GP_YAML_MAX_SCALAR)
        return gp_fail_at(err, GP_CONFIG, place, "a value of %zu bytes is too long; it may have %d", length,
                          (int)GP_YAML_MAX_SCALAR);
    if (memchr(text, '\0', length)) return gp_fail_at(err, GP_CONFIG, place, "a text must not contain \\0");
    GP_RETURN_IF_FAILED(gp_yaml_new_node(p->document, GP_YAML_SCALAR, place, &node, err));
    GP_RETURN_IF_FAILED(gp_yaml_keep_text(p->document, text, length, &node->text, err));
    set_span(node, event, (unsigned)event->end_mark.index);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || must_be_quoted(text);
    GP_RETURN_IF_FAILED(add_anchor(p, (const char *)event->data.scalar.anchor, node, &index, err));
    close_anchor(p, index);
    *out = node;
    return GP_OK;
}

static bool is_before(gp_place a, gp_place b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

/* By text, then by place. */
static int compare_keys(const void *a, const void *b) {
    const gp_yaml *first = *(const gp_yaml *const *)a, *second = *(const gp_yaml *const *)b;
    int order = strcmp(first->text, second->text);
    return order ? order : is_before(first->place, second->place) ? -1 : is_before(second->place, first->place);
}

/* Sorted, equal keys are neighbours. Reports the pair whose second key comes first. */
static gp_status check_duplicates(const gp_yaml *mapping, gp_error *err) {
    const gp_yaml **keys = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&keys, mapping->count, err));
    for (size_t i = 0; i < mapping->count; i++) keys[i] = mapping->pairs[i].key;
    qsort(keys, mapping->count, sizeof *keys, compare_keys);
    const gp_yaml *first = NULL, *again = NULL;
    for (size_t i = 0; i + 1 < mapping->count; i++) {
        if (strcmp(keys[i]->text, keys[i + 1]->text) != 0) continue;
        if (again && !is_before(keys[i + 1]->place, again->place)) continue;
        first = keys[i];
        again = keys[i + 1];
    }
    free(keys);
    if (!again) return GP_OK;
    if (again->place.line == 0) return gp_fail_at(err, GP_CONFIG, again->place, "key \"%s\" occurs twice", again->text);
    return gp_fail_at(err, GP_CONFIG, again->place, "key \"%s\" occurs twice; the first is in line %d", again->text,
                      first->place.line);
}

static gp_status read_key(parser *p, const yaml_event_t *event, int depth, gp_yaml **out, gp_error *err) {
    gp_yaml *key = NULL;
    gp_place place = place_of(p, event->start_mark);
    GP_RETURN_IF_FAILED(read_node(p, event, depth, &key, err));
    if (key->kind != GP_YAML_SCALAR)
        return gp_fail_at(err, GP_CONFIG, place, "a key must be a name, not a list or mapping");
    if (key->text[0] == '\0') return gp_fail_at(err, GP_CONFIG, place, "a key is empty");
    if (strlen(key->text) > GP_YAML_MAX_KEY)
        return gp_fail_at(err, GP_CONFIG, place, "a key of %zu bytes is too long; it may have %d", strlen(key->text),
                          (int)GP_YAML_MAX_KEY);
    if (!key->quoted && strcmp(key->text, "<<") == 0)
        return gp_fail_at(err, GP_CONFIG, place,
                          "merge keys (<<) are not supported; write the keys out, or use an alias for a whole value");
    *out = key;
    return GP_OK;
}

/* The nodes of a collection up to its end: items, or keys and values by turns. The caller frees *items. */
static gp_status read_children(parser *p, bool mapping, int depth, gp_yaml ***items, size_t *count, gp_error *err) {
    yaml_event_type_t end = mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    size_t capacity = 0;
    for (bool ended = false; !ended;) {
        yaml_event_t event;
        GP_RETURN_IF_FAILED(next_event(p, &event, err));
        ended = event.type == end;
        gp_status status = ended ? GP_OK : GP_GROW(items, &capacity, *count + 1, err);
        if (!ended && status == GP_OK) {
            bool key = mapping && *count % 2 == 0;
            status = (key ? read_key : read_node)(p, &event, depth, &(*items)[*count], err);
            ++*count;
        }
        yaml_event_delete(&event);
        GP_RETURN_IF_FAILED(status);
    }
    return GP_OK;
}

static gp_status read_collection(parser *p, const yaml_event_t *start, int depth, gp_yaml **out, gp_error *err) {
    bool mapping = start->type == YAML_MAPPING_START_EVENT;
    gp_place place = place_of(p, start->start_mark);
    const yaml_char_t *tag = mapping ? start->data.mapping_start.tag : start->data.sequence_start.tag;
    const yaml_char_t *name = mapping ? start->data.mapping_start.anchor : start->data.sequence_start.anchor;
    gp_yaml *node = NULL, **items = NULL;
    size_t index, count = 0;
    void *kept = NULL;
    if (depth > GP_YAML_MAX_DEPTH)
        return gp_fail_at(err, GP_CONFIG, place, "nested deeper than %d levels", (int)GP_YAML_MAX_DEPTH);
    GP_RETURN_IF_FAILED(refuse_tag(place, tag, err));
    GP_RETURN_IF_FAILED(gp_yaml_new_node(p->document, mapping ? GP_YAML_MAPPING : GP_YAML_SEQUENCE, place, &node, err));
    GP_RETURN_IF_FAILED(add_anchor(p, (const char *)name, node, &index, err));
    gp_status status = read_children(p, mapping, depth + 1, &items, &count, err);
    if (status == GP_OK) status = gp_yaml_allocate(p->document, count * sizeof *items, &kept, err);
    if (status == GP_OK) {
        if (count) memcpy(kept, items, count * sizeof *items);
        node->items = kept;
        node->count = mapping ? count / 2 : count;
        node->flow = mapping ? start->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                             : start->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
        set_span(node, start, p->written);
        close_anchor(p, index);
        *out = node;
    }
    free(items);
    return status == GP_OK && mapping ? check_duplicates(node, err) : status;
}

/* `depth` counts collections, the root's being 1. */
static gp_status read_node(parser *p, const yaml_event_t *event, int depth, gp_yaml **out, gp_error *err) {
    switch (event->type) {
    case YAML_SCALAR_EVENT: return read_scalar(p, event, out, err);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return read_collection(p, event, depth, out, err);
    case YAML_ALIAS_EVENT: return read_alias(p, event, depth, out, err);
    default: return gp_fail(err, GP_INTERNAL, "libyaml gave event %d where a node belongs", (int)event->type);
    }
}

/* What stands between the stream's start and end. Every event that is no bracket of the document is a node. */
static gp_status read_stream(parser *p, gp_yaml **out, gp_error *err) {
    yaml_event_t event;
    gp_yaml *root = NULL;
    int documents = 0;
    for (bool ended = false; !ended;) {
        gp_status status = next_event(p, &event, err);
        if (status != GP_OK) return status;
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_STREAM_END_EVENT: ended = true; break;
        case YAML_DOCUMENT_START_EVENT:
            if (documents++)
                status = gp_fail_at(err, GP_CONFIG, place_of(p, event.start_mark),
                                    "a second document begins here; a file must have exactly one");
            break;
        default: status = read_node(p, &event, 1, &root, err);
        }
        yaml_event_delete(&event);
        if (status != GP_OK) return status;
    }
    bool empty = root && root->kind == GP_YAML_SCALAR && !root->quoted && root->text[0] == '\0';
    *out = empty ? NULL : root;
    return GP_OK;
}

gp_status gp_yaml_parse_value(gp_yaml_document *document, const char *text, size_t bytes, gp_yaml_source source,
                              gp_yaml **out, gp_error *err) {
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    parser p = {.document = document, .source = source, .text = text, .bytes = bytes};
    if (bytes >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        p.text += 3;
        p.bytes -= 3;
    }
    if (p.bytes > GP_YAML_MAX_BYTES)
        return gp_fail_at(err, GP_CONFIG, (gp_place){.path = source.name}, "%zu bytes are too large; there may be %d",
                          p.bytes, (int)GP_YAML_MAX_BYTES);
    GP_RETURN_IF_FAILED(gp_yaml_check_text(p.text, p.bytes, source, err));
    if (!yaml_parser_initialize(&p.yaml)) return gp_fail(err, GP_MEMORY, "out of memory: reading YAML");
    yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *)p.text, p.bytes);
    gp_status status = read_stream(&p, out, err);
    yaml_parser_delete(&p.yaml);
    for (size_t i = 0; i < p.anchor_count; i++) free(p.anchors[i].name);
    free(p.anchors);
    return status;
}

gp_status gp_yaml_parse(const char *text, size_t bytes, const char *name, gp_yaml_document **out, gp_error *err) {
    gp_yaml_document *document = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_create(name, &document, err));
    gp_yaml_source source = {.name = document->name, .lines = true};
    gp_status status = gp_yaml_parse_value(document, text, bytes, source, &document->root, err);
    if (status != GP_OK) {
        gp_yaml_destroy(&document);
        return status;
    }
    *out = document;
    return GP_OK;
}

static void place_all(gp_yaml *node, gp_place place) {
    node->place = place;
    for (size_t i = 0; i < gp_yaml_children(node); i++) place_all(node->items[i], place);
}

gp_status gp_yaml_parse_at(const char *text, size_t bytes, gp_place place, gp_yaml_document **out, gp_error *err) {
    gp_yaml_document *document = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_parse(text, bytes, place.path ? place.path : "", &document, err));
    if (document->root) place_all(document->root, place);
    *out = document;
    return GP_OK;
}

gp_status gp_yaml_load(const char *path, gp_yaml_document **out, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    GP_RETURN_IF_FAILED(gp_text_file_read(path, GP_YAML_MAX_BYTES, "a configuration", &text, &bytes, err));
    gp_status status = gp_yaml_parse(text, bytes, path, out, err);
    free(text);
    return status;
}
