#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

int gp_status_exit(gp_status status) {
    switch (status) {
#define GP_STATUS_EXIT(suffix, exit_status)                                                                            \
    case GP_##suffix: return exit_status;
        GP_STATUS_MAP(GP_STATUS_EXIT)
#undef GP_STATUS_EXIT
    }
    return 1;
}

/* A text that was cut ends with "…", at a character's boundary. */
static void mark_cut(char *text, size_t size) {
    static const char ellipsis[] = "…";
    size_t end = size - sizeof ellipsis;
    while (end > 0 && ((unsigned char)text[end] & 0xC0U) == 0x80U) end--;
    memcpy(text + end, ellipsis, sizeof ellipsis);
}

/* Errors quote files that anybody wrote: no text of theirs may begin a line of its own or speak to the terminal. */
static void write_text(gp_error *err, size_t used, const char *format, va_list args) {
    int wanted = vsnprintf(err->text + used, sizeof err->text - used, format, args);
    if (wanted >= 0 && (size_t)wanted >= sizeof err->text - used) mark_cut(err->text, sizeof err->text);
    gp_make_printable(err->text);
}

static void fail_at(gp_error *err, gp_status status, gp_place place, const char *format, va_list args) {
    int used = 0;
    if (!err) return;
    err->status = status;
    err->lines = err->unsaid = 0;
    if (place.path && place.line > 0 && place.column > 0)
        used = snprintf(err->text, sizeof err->text, "%s:%d:%d: ", place.path, place.line, place.column);
    else if (place.path && place.line > 0)
        used = snprintf(err->text, sizeof err->text, "%s:%d: ", place.path, place.line);
    else if (place.path)
        used = snprintf(err->text, sizeof err->text, "%s: ", place.path);
    if (used < 0) used = 0;
    size_t most = sizeof err->text - 1; /* then nothing of the sentence has room, and the text is cut */
    write_text(err, (size_t)used < most ? (size_t)used : most, format, args);
}

gp_status gp_fail(gp_error *err, gp_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_at(err, status, (gp_place){0}, format, args);
    va_end(args);
    return status;
}

gp_status gp_fail_at(gp_error *err, gp_status status, gp_place place, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_at(err, status, place, format, args);
    va_end(args);
    return status;
}

gp_status gp_error_context(gp_error *err, const char *format, ...) {
    if (!err) return GP_INTERNAL;
    char cause[GP_ERROR_TEXT];
    memcpy(cause, err->text, sizeof cause);
    va_list args;
    va_start(args, format);
    write_text(err, 0, format, args);
    va_end(args);
    size_t used = strlen(err->text);
    int wanted = snprintf(err->text + used, sizeof err->text - used, "%s", cause);
    if (wanted >= 0 && (size_t)wanted >= sizeof err->text - used) mark_cut(err->text, sizeof err->text);
    return err->status;
}

enum { MOST_LINES = 10, LAST_LINE = 40 /* bytes of "and 3 more mistakes" */ };

/* The text without its last line, which only counts. */
static size_t said_length(const gp_error *err) {
    const char *last = err->unsaid > 0 ? strrchr(err->text, '\n') : NULL;
    return last ? (size_t)(last - err->text) : strlen(err->text);
}

/* An alias stands for the same mistake more than once. */
static bool has_line(const char *text, const char *line, size_t length) {
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strcspn(at, "\n") == length && memcmp(at, line, length) == 0) return true;
    }
    return false;
}

/* Adds a line, or counts it. `used`: bytes of the text without its last line. */
static size_t add_line(gp_error *err, size_t used, const char *line, size_t length) {
    err->text[used] = '\0';
    if (has_line(err->text, line, length)) return used;
    if (err->unsaid > 0 || err->lines >= MOST_LINES || used + 1 + length + LAST_LINE >= sizeof err->text) {
        err->unsaid++;
        return used;
    }
    err->text[used++] = '\n';
    memcpy(err->text + used, line, length);
    err->lines++;
    return used + length;
}

gp_status gp_error_join(gp_error *err, gp_status before, const gp_error *next) {
    if (next->status == GP_OK || (before != GP_OK && before != GP_CONFIG)) return before;
    if (!err) return next->status;
    if (before == GP_OK || next->status != GP_CONFIG) {
        *err = *next;
        return err->status;
    }
    size_t used = said_length(err), end = said_length(next);
    if (err->lines == 0) err->lines = 1;
    if (used + LAST_LINE > sizeof err->text) {
        mark_cut(err->text, sizeof err->text - LAST_LINE);
        used = strlen(err->text);
    }
    for (size_t at = 0, length = 0; at < end; at += length + 1) {
        length = strcspn(next->text + at, "\n");
        used = add_line(err, used, next->text + at, length);
    }
    err->unsaid += next->unsaid;
    err->text[used] = '\0';
    if (err->unsaid > 0)
        snprintf(err->text + used, sizeof err->text - used, "\nand %d more mistake%s", err->unsaid,
                 err->unsaid == 1 ? "" : "s");
    return err->status;
}
