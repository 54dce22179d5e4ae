#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "config/tree_internal.h"

static void write_indent(FILE *file, int depth) {
    for (int i = 0; i < depth; i++) fputs("  ", file);
}

/* Characters beyond ASCII stand for themselves, but for YAML's line breaks, which would be folded. */
static size_t write_escaped(FILE *file, const unsigned char *text) {
    unsigned char c = text[0];
    if (c == '"' || c == '\\') {
        fprintf(file, "\\%c", c);
    } else if (c == '\n') {
        fputs("\\n", file);
    } else if (c == '\t') {
        fputs("\\t", file);
    } else if (c < 0x20 || c == 0x7F) {
        fprintf(file, "\\x%02X", (unsigned)c);
    } else if (c == 0xC2 && text[1] >= 0x80 && text[1] <= 0xA0) {
        fprintf(file, "\\x%02X", (unsigned)text[1]);
        return 2;
    } else if ((c == 0xE2 && text[1] == 0x80 && (text[2] == 0xA8 || text[2] == 0xA9))) {
        fprintf(file, "\\u%04X", 0x2000U | (text[2] & 0x3FU));
        return 3;
    } else if (c == 0xEF && text[1] == 0xBB && text[2] == 0xBF) {
        fputs("\\uFEFF", file);
        return 3;
    } else if (c == 0xEF && text[1] == 0xBF && text[2] >= 0xBE) {
        fprintf(file, "\\uFF%02X", 0xC0U | (text[2] & 0x3FU));
        return 3;
    } else {
        fputc(c, file);
    }
    return 1;
}

void gp_yaml_write_quoted(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at;) at += write_escaped(file, at);
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

static void write_comment(FILE *file, const char *comment) {
    fputs("# ", file);
    for (; *comment; comment++) fputc(*comment == '\n' || *comment == '\r' ? ' ' : *comment, file);
    fputc('\n', file);
}

void gp_yaml_print(const gp_yaml_document *document, const char *comment, FILE *file) {
    write_comment(file, comment);
    if (document->root) write_node(file, document->root, 0, false);
}

/* Whole or not at all, whatever happens meanwhile: written beside the target, synced, renamed. */
gp_status gp_yaml_write(const gp_yaml_document *document, const char *comment, const char *path, gp_error *err) {
    char *beside = NULL;
    GP_RETURN_IF_FAILED(gp_format_text(&beside, err, "%s.part", path));
    FILE *file = fopen(beside, "we");
    bool failed = !file;
    if (file) {
        gp_yaml_print(document, comment, file);
        failed = ferror(file) != 0 || fflush(file) != 0 || fsync(fileno(file)) != 0;
        int cause = errno;
        if (fclose(file) != 0 && !failed)
            failed = true;
        else if (failed)
            errno = cause;
    }
    if (!failed) failed = rename(beside, path) != 0;
    gp_status status = failed ? gp_fail(err, GP_IO, "%s: cannot be written: %s", path, strerror(errno)) : GP_OK;
    if (failed && file) unlink(beside);
    free(beside);
    return status;
}
