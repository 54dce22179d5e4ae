/* Texts of others for terminals: names, paths and what files say may hold anything.
 *
 * Every message and report that quotes such a text goes through here: errors in status.c, lines by gp_print, cells of
 * tables in plan_report_text.c. JSON and YAML that programs read keep exact texts, escaped. Any thread.
 *
 * What is not printed becomes '?': control characters (U+0000 to U+001F, U+007F to U+009F), characters that change the
 * direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), line and paragraph separators
 * (U+2028, U+2029), and each byte that is no part of valid UTF-8. Within messages and lines also what cannot be seen
 * (U+200B, U+FEFF and their like) or looks like the common space (U+00A0): a name that has one looks like another. */
#ifndef GP_BASE_PRINTABLE_H
#define GP_BASE_PRINTABLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/* Bytes of the UTF-8 character at `text`, of which `left` ≥ 1 bytes may be read, and its code point. 0: it is none
 * (RFC 3629: shortest form, no surrogates). A NUL ends the text in any case. */
size_t gp_utf8_next(const char *text, size_t left, uint32_t *out);
/* Whether a character cannot be seen, or not be told from the common space. */
bool gp_is_invisible(uint32_t point);
/* Changes the text in place, which never becomes longer; a newline is changed too. Returns it. */
char *gp_make_printable(char *text);
/* Bytes of the character at the start of a text that is not empty; *printable: whether a terminal may have it. */
size_t gp_printable_next(const char *text, bool *printable);
/* The same; *visible: whether it stays as it is in messages and lines. */
size_t gp_visible_next(const char *text, bool *visible);

/* Whether a terminal may have the whole text. */
bool gp_is_printable(const char *text);

/* Prints a line or a part of one: a newline stays only as the last character of the format. A line of more than 8 KiB
 * is cut. */
void gp_print(FILE *out, const char *format, ...) GP_PRINTF(2, 3);
void gp_print_list(FILE *out, const char *format, va_list arguments) GP_PRINTF(2, 0);

#endif
