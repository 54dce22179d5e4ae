/* Writes the tree as YAML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/replace.h"
#include "base/text_stream.h"
#include "config/tree_internal.h"

static void write_indent(FILE *file, int depth) {
    for (int i = 0; i < depth; i++) fputs("  ", file);
}

/* Characters beyond ASCII stand for themselves, but for those that are not printed or cannot be seen
 * (base/printable.h), which YAML's line breaks are among, and for two that YAML does not give back. */
static size_t write_escaped(FILE *file, const char *text) {
    bool visible;
    uint32_t point;
    size_t bytes = gp_visible_next(text, &visible);
    bool known = gp_utf8_next(text, bytes, &point) > 0;
    bool given_back = point != 0xFFFE && point != 0xFFFF;
    if (*text == '"' || *text == '\\')
        fprintf(file, "\\%c", *text);
    else if (*text == '\n')
        fputs("\\n", file);
    else if (*text == '\t')
        fputs("\\t", file);
    else if (known && (!visible || !given_back))
        fprintf(file, point < 0x100 ? "\\x%02X" : point < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)point);
    else
        fwrite(text, 1, bytes, file);
    return bytes;
}

void gp_yaml_write_quoted(FILE *file, const char *text) {
    fputc('"', file);
    while (*text) text += write_escaped(file, text);
    fputc('"', file);
}

/* What is not quoted was read as a plain scalar, so it can be written as one. */
static void write_scalar(FILE *file, const gp_yaml *node) {
    if (node->quoted)
        gp_yaml_write_quoted(file, node->text);
    else
        fputs(node->text, file);
}

/* A list of short plain words and numbers stands in one line, as people write it. */
static bool is_short_list(const gp_yaml *node) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
    if (node->kind != GP_YAML_SEQUENCE) return false;
    for (size_t i = 0; i < node->count; i++) {
        const gp_yaml *item = node->items[i];
        if (item->kind != GP_YAML_SCALAR) return false;
        if (item->quoted) continue;
        /* Within brackets a lone or leading '-' reads otherwise. */
        if (item->text[0] == '\0' || item->text[strspn(item->text, safe)] != '\0') return false;
        if (item->text[0] == '-' && item->text[1] == '\0') return false;
    }
    return true;
}

static void write_node(FILE *file, const gp_yaml *node, int depth, bool after_dash);

static void write_pair(FILE *file, const gp_yaml_pair *pair, int depth) {
    write_scalar(file, pair->key);
    fputc(':', file);
    const gp_yaml *value = pair->value;
    bool nested = value->kind != GP_YAML_SCALAR && value->count > 0 && !is_short_list(value);
    if (nested)
        fputc('\n', file);
    else if (value->kind != GP_YAML_SCALAR || value->quoted || value->text[0] != '\0')
        fputc(' ', file);
    write_node(file, value, nested ? depth + 1 : depth, false);
}

/* Begins at the indent of `depth`, or behind "- " where `after_dash`; ends with a newline. */
static void write_node(FILE *file, const gp_yaml *node, int depth, bool after_dash) {
    if (node->kind == GP_YAML_SCALAR) {
        write_scalar(file, node);
        fputc('\n', file);
    } else if (node->count == 0) {
        fputs(node->kind == GP_YAML_SEQUENCE ? "[]\n" : "{}\n", file);
    } else if (is_short_list(node)) {
        fputc('[', file);
        for (size_t i = 0; i < node->count; i++) {
            if (i) fputs(", ", file);
            write_scalar(file, node->items[i]);
        }
        fputs("]\n", file);
    } else {
        for (size_t i = 0; i < node->count; i++) {
            if (i || !after_dash) write_indent(file, depth);
            if (node->kind == GP_YAML_MAPPING) {
                write_pair(file, &node->pairs[i], depth);
            } else {
                fputs("- ", file);
                write_node(file, node->items[i], depth + 1, true);
            }
        }
    }
}

/* Within brackets a plain scalar may have none of these. */
static void write_flow_scalar(FILE *file, const gp_yaml *node) {
    bool safe = node->text[0] != '\0' && node->text[strcspn(node->text, ",[]{}:#\"'&*!|>%@`")] == '\0' &&
                strcmp(node->text, "-") != 0 && node->text[0] != '?';
    if (node->quoted || !safe)
        gp_yaml_write_quoted(file, node->text);
    else
        fputs(node->text, file);
}

void gp_yaml_write_flow(FILE *file, const gp_yaml *node) {
    if (node->kind == GP_YAML_SCALAR) {
        write_flow_scalar(file, node);
        return;
    }
    bool mapping = node->kind == GP_YAML_MAPPING;
    fputc(mapping ? '{' : '[', file);
    for (size_t i = 0; i < node->count; i++) {
        if (i > 0) fputs(", ", file);
        if (mapping) {
            write_flow_scalar(file, node->pairs[i].key);
            fputs(": ", file);
        }
        gp_yaml_write_flow(file, mapping ? node->pairs[i].value : node->items[i]);
    }
    fputc(mapping ? '}' : ']', file);
}

static void write_comment(FILE *file, const char *comment) {
    fputs("# ", file);
    for (; *comment; comment++) fputc(*comment == '\n' || *comment == '\r' ? ' ' : *comment, file);
    fputc('\n', file);
}

gp_status gp_yaml_text(const gp_yaml_document *document, const char *comment, char **out, gp_error *err) {
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "a configuration as text", err));
    write_comment(stream.file, comment);
    if (document->root) write_node(stream.file, document->root, 0, false);
    return gp_text_end(&stream, GP_OK, out, err);
}

gp_status gp_yaml_write(const gp_yaml_document *document, const char *comment, const char *path, gp_error *err) {
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_text(document, comment, &text, err));
    gp_status status = gp_file_replace(path, text, err);
    free(text);
    return status;
}
