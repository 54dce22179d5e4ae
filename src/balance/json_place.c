#include "balance/json_place.h"

#include <stdbool.h>
#include <string.h>

typedef struct reader {
    const char *text;
    size_t bytes, at;
} reader;

static char peek(const reader *r) {
    return r->at < r->bytes ? r->text[r->at] : '\0';
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Blanks, and what stands between members. */
static void skip_between(reader *r) {
    while (r->at < r->bytes && (is_blank(r->text[r->at]) || r->text[r->at] == ',' || r->text[r->at] == ':')) r->at++;
}

static void skip_text(reader *r) {
    for (r->at++; r->at < r->bytes && r->text[r->at] != '"'; r->at++)
        if (r->text[r->at] == '\\') r->at++;
    r->at++;
}

static void skip_value(reader *r) {
    static const char ends[] = ",:]}\" \t\r\n";
    int depth = 0;
    do {
        char c = peek(r);
        if (c == '"') {
            skip_text(r);
        } else if (c == '{' || c == '[') {
            depth++;
            r->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            r->at++;
        } else {
            /* A NUL, which the parser lets pass behind a number, is part of it. */
            while (r->at < r->bytes && !memchr(ends, r->text[r->at], sizeof ends - 1)) r->at++;
        }
        if (depth > 0) skip_between(r);
    } while (depth > 0 && r->at < r->bytes);
}

static bool find_key(reader *r, const char *key) {
    size_t length = strlen(key);
    r->at++;
    for (skip_between(r); peek(r) == '"'; skip_between(r)) {
        size_t name = r->at + 1;
        skip_text(r);
        skip_between(r);
        if (r->at >= name + length + 1 && r->text[name + length] == '"' && strncmp(r->text + name, key, length) == 0)
            return true;
        skip_value(r);
    }
    return false;
}

static void find_element(reader *r, size_t index) {
    r->at++;
    skip_between(r);
    for (size_t i = 0; i < index; i++) {
        skip_value(r);
        skip_between(r);
    }
}

gp_place gp_json_place(const char *text, size_t bytes, const char *path, const gp_json_step *steps, size_t count) {
    reader r = {text, bytes, 0};
    gp_place place = {.path = path, .line = 1, .column = 1};
    skip_between(&r);
    for (size_t s = 0; s < count; s++) {
        size_t object = r.at;
        if (!steps[s].key)
            find_element(&r, steps[s].index);
        else if (!find_key(&r, steps[s].key))
            r.at = object;
    }
    for (size_t i = 0; i < r.at && i < bytes; i++) {
        bool ends = text[i] == '\n';
        place.line += ends;
        if (ends)
            place.column = 1;
        else
            place.column += ((unsigned char)text[i] & 0xC0U) != 0x80U;
    }
    return place;
}
