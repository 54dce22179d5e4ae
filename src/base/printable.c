#include "base/printable.h"

#include <string.h>

enum { LONGEST = 8192 }; /* bytes of a line: more than a path has */

typedef struct range {
    uint32_t first, last;
} range;

static const range not_printed[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0x61C, 0x61C},
                                    {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}};

static const range invisible[] = {
    {0xA0, 0xA0},     {0xAD, 0xAD},     {0x34F, 0x34F},     {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
    {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F},   {0x2800, 0x2800},   {0x3164, 0x3164},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0}, {0xFFF9, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

size_t gp_utf8_next(const char *text, size_t left, uint32_t *out) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    size_t bytes = byte[0] < 0x80 ? 1 : byte[0] < 0xC0 ? 0 : byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
    *out = byte[0];
    if (bytes < 2) return bytes;
    if (byte[0] >= 0xF8 || bytes > left) return 0;
    uint32_t point = byte[0] & (0x7FU >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((byte[i] & 0xC0U) != 0x80U) return 0; /* also the text's end */
        point = point << 6 | (byte[i] & 0x3FU);
    }
    if (point < least[bytes] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return 0;
    *out = point;
    return bytes;
}

static bool is_among(uint32_t point, const range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (point >= ranges[i].first && point <= ranges[i].last) return true;
    return false;
}

bool gp_is_invisible(uint32_t point) {
    return is_among(point, invisible, sizeof invisible / sizeof *invisible);
}

size_t gp_printable_next(const char *text, bool *printable) {
    uint32_t point = 0;
    size_t bytes = gp_utf8_next(text, 4, &point);
    *printable = bytes > 0 && !is_among(point, not_printed, sizeof not_printed / sizeof *not_printed);
    return bytes > 0 ? bytes : 1;
}

size_t gp_visible_next(const char *text, bool *visible) {
    uint32_t point = 0;
    size_t bytes = gp_printable_next(text, visible);
    if (*visible && gp_utf8_next(text, bytes, &point) > 0 && gp_is_invisible(point)) *visible = false;
    return bytes;
}

bool gp_is_printable(const char *text) {
    bool printable = true;
    while (*text && printable) text += gp_printable_next(text, &printable);
    return printable;
}

char *gp_make_printable(char *text) {
    char *to = text;
    for (const char *from = text; *from;) {
        bool printable;
        size_t bytes = gp_visible_next(from, &printable);
        if (printable)
            memmove(to, from, bytes);
        else
            *to = '?';
        to += printable ? bytes : 1;
        from += bytes;
    }
    *to = '\0';
    return text;
}

void gp_print_list(FILE *out, const char *format, va_list arguments) {
    char text[LONGEST + 1]; /* a newline */
    size_t length = strlen(format);
    bool ends = length > 0 && format[length - 1] == '\n';
    vsnprintf(text, LONGEST, format, arguments);
    length = strlen(text);
    if (ends && length > 0 && text[length - 1] == '\n') text[length - 1] = '\0';
    gp_make_printable(text);
    if (ends) strcat(text, "\n");
    fputs(text, out); /* in one piece: a launcher mixes what several processes write */
}

void gp_print(FILE *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    gp_print_list(out, format, arguments);
    va_end(arguments);
}
