#include "base/status.h"

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
