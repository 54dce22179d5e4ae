#include "data/json_members.h"

#include <string.h>

static char peek(const gp_json_members *it) {
    return it->at < it->object.bytes ? it->object.text[it->at] : '\0';
}

static bool is_one_of(char c, const char *these) {
    return c != '\0' && strchr(these, c);
}

static void skip_blanks(gp_json_members *it) {
    while (it->at < it->object.bytes && is_one_of(it->object.text[it->at], " \t\r\n")) it->at++;
}

/* Behind the closing quote, or at the end. */
static void skip_text(gp_json_members *it) {
    for (it->at++; it->at < it->object.bytes; it->at++) {
        char c = it->object.text[it->at];
        if (c == '\\') it->at++;
        if (c != '"') continue;
        it->at++;
        return;
    }
    it->at = it->object.bytes;
}

static bool stop(const char **wrong, const char *why) {
    *wrong = why;
    return false;
}

/* False: more is nested in the value than a right header has; jansson, which recurses, must not get it. */
static bool skip_value(gp_json_members *it, const char **wrong) {
    enum { MOST = 7 }; /* with the header itself 8 */
    int depth = 0;
    while (it->at < it->object.bytes) {
        char c = it->object.text[it->at];
        if (c == '"') {
            skip_text(it);
            if (depth == 0) return true;
            continue;
        }
        if (depth == 0 && is_one_of(c, ",]} \t\r\n")) return true;
        if ((c == '{' || c == '[') && ++depth > MOST) return stop(wrong, "is nested deeper than 8");
        it->at++;
        if ((c == '}' || c == ']') && --depth == 0) return true;
    }
    return true;
}

static gp_json_slice slice_from(const gp_json_members *it, size_t from) {
    return (gp_json_slice){it->object.text + from, it->at - from};
}

/* At the next name; false after the object's end, or where *wrong says why not. */
static bool find_name(gp_json_members *it, const char **wrong) {
    bool first = !it->begun;
    *wrong = NULL;
    it->begun = true;
    skip_blanks(it);
    if (first) {
        if (peek(it) != '{') return stop(wrong, "is not valid JSON: { is expected");
    } else if (peek(it) != ',' && peek(it) != '}') {
        return stop(wrong, "is not valid JSON: a comma or } is expected");
    }
    bool end = peek(it) == '}';
    it->at++;
    skip_blanks(it);
    if (first && peek(it) == '}') {
        end = true;
        it->at++;
        skip_blanks(it);
    }
    if (end) return it->at == it->object.bytes ? false : stop(wrong, "is not valid JSON: its end is expected");
    return peek(it) == '"' ? true : stop(wrong, "is not valid JSON: a name in quotation marks is expected");
}

bool gp_json_next(gp_json_members *members, gp_json_slice *name, gp_json_slice *value, const char **wrong) {
    if (!find_name(members, wrong)) return false;
    size_t from = members->at;
    skip_text(members);
    *name = slice_from(members, from);
    skip_blanks(members);
    if (peek(members) != ':') return stop(wrong, "is not valid JSON: : is expected");
    members->at++;
    skip_blanks(members);
    from = members->at;
    if (!skip_value(members, wrong)) return false;
    *value = slice_from(members, from);
    return value->bytes > 0 ? true : stop(wrong, "is not valid JSON: a value is expected");
}
