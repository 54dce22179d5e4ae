#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/tree.h"

typedef struct comparison {
    gp_yaml_visit visit;
    void *context;
    bool ends; /* the visitor wants no more */
} comparison;

/* Of rules the later ones beat the earlier ones; all other mappings have no order. */
bool gp_yaml_is_whole(const char *path) {
    return strcmp(path, "model.rules") == 0;
}

static bool same_order(const gp_yaml *before, const gp_yaml *now) {
    for (size_t i = 0; i < now->count && i < before->count; i++)
        if (strcmp(before->pairs[i].key->text, now->pairs[i].key->text) != 0) return false;
    return true;
}

/* The digits of a whole number without leading zeros; NULL where the text is none. */
static const char *whole_number(const char *text, bool *negative) {
    *negative = *text == '-';
    text += *text == '-' || *text == '+';
    if (!*text || text[strspn(text, "0123456789")]) return NULL;
    return text + strspn(text, "0");
}

/* 0.10 is 0.1, but "0.10" in quotes is a text. A double does not tell all whole numbers apart. */
static bool same_scalar(const gp_yaml *a, const gp_yaml *b) {
    if (strcmp(a->text, b->text) == 0) return a->quoted == b->quoted;
    if (a->quoted || b->quoted) return false;
    bool a_negative, b_negative;
    const char *a_digits = whole_number(a->text, &a_negative), *b_digits = whole_number(b->text, &b_negative);
    if (a_digits && b_digits) return strcmp(a_digits, b_digits) == 0 && (a_negative == b_negative || !*a_digits);
    char *a_end, *b_end;
    double a_value = strtod(a->text, &a_end), b_value = strtod(b->text, &b_end);
    return a_end != a->text && b_end != b->text && !*a_end && !*b_end && a_value == b_value;
}

static gp_status compare(comparison *c, const char *path, const gp_yaml *before, const gp_yaml *now, gp_error *err);

static gp_status compare_child(comparison *c, const char *path, const char *key, const gp_yaml *before,
                               const gp_yaml *now, gp_error *err) {
    char *inner = NULL;
    GP_RETURN_IF_FAILED(gp_format_text(&inner, err, "%s%s%s", path, *path ? "." : "", key));
    gp_status status = compare(c, inner, before, now, err);
    free(inner);
    return status;
}

static gp_status compare_mappings(comparison *c, const char *path, const gp_yaml *before, const gp_yaml *now,
                                  gp_error *err) {
    for (size_t i = 0; i < now->count && !c->ends; i++) {
        const char *key = now->pairs[i].key->text;
        GP_RETURN_IF_FAILED(compare_child(c, path, key, gp_yaml_get(before, key), now->pairs[i].value, err));
    }
    for (size_t i = 0; i < before->count && !c->ends; i++) {
        const char *key = before->pairs[i].key->text;
        if (!gp_yaml_get(now, key)) GP_RETURN_IF_FAILED(compare_child(c, path, key, before->pairs[i].value, NULL, err));
    }
    return GP_OK;
}

static gp_status compare_sequences(comparison *c, const char *path, const gp_yaml *before, const gp_yaml *now,
                                   gp_error *err) {
    size_t longer = before->count > now->count ? before->count : now->count;
    for (size_t i = 0; i < longer && !c->ends; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        GP_RETURN_IF_FAILED(compare_child(c, path, key, i < before->count ? before->items[i] : NULL,
                                          i < now->count ? now->items[i] : NULL, err));
    }
    return GP_OK;
}

static gp_status note_any(void *context, const gp_yaml_difference *difference, gp_error *err) {
    comparison *c = context;
    (void)difference;
    (void)err;
    c->ends = true;
    return GP_OK;
}

static gp_status compare_whole(const char *path, const gp_yaml *before, const gp_yaml *now, bool *same, gp_error *err) {
    comparison inner = {.visit = note_any};
    inner.context = &inner;
    GP_RETURN_IF_FAILED(compare_mappings(&inner, path, before, now, err));
    *same = !inner.ends && same_order(before, now);
    return GP_OK;
}

static gp_status compare(comparison *c, const char *path, const gp_yaml *before, const gp_yaml *now, gp_error *err) {
    if (before && now && before->kind == now->kind) {
        bool whole = now->kind == GP_YAML_MAPPING && gp_yaml_is_whole(path), same = false;
        if (whole) GP_RETURN_IF_FAILED(compare_whole(path, before, now, &same, err));
        if (same) return GP_OK;
        if (now->kind == GP_YAML_MAPPING && !whole) return compare_mappings(c, path, before, now, err);
        if (now->kind == GP_YAML_SEQUENCE) return compare_sequences(c, path, before, now, err);
        if (now->kind == GP_YAML_SCALAR && same_scalar(before, now)) return GP_OK;
    }
    gp_yaml_difference difference = {NULL, before, now};
    GP_RETURN_IF_FAILED(gp_copy_text(&difference.path, path, err));
    gp_status status = c->visit(c->context, &difference, err);
    free(difference.path);
    return status;
}

gp_status gp_yaml_each_difference(const char *path, const gp_yaml *before, const gp_yaml *now, gp_yaml_visit visit,
                                  void *context, gp_error *err) {
    comparison c = {.visit = visit, .context = context};
    return compare(&c, path, before, now, err);
}

typedef struct first_difference {
    comparison *of;
    gp_yaml_difference *out;
} first_difference;

static gp_status keep_first(void *context, const gp_yaml_difference *difference, gp_error *err) {
    const first_difference *first = context;
    GP_RETURN_IF_FAILED(gp_copy_text(&first->out->path, difference->path, err));
    first->out->before = difference->before;
    first->out->now = difference->now;
    first->of->ends = true;
    return GP_OK;
}

gp_status gp_yaml_find_difference(const char *path, const gp_yaml *before, const gp_yaml *now, gp_yaml_difference *out,
                                  gp_error *err) {
    comparison c = {.visit = keep_first};
    first_difference first = {&c, out};
    c.context = &first;
    *out = (gp_yaml_difference){0};
    return compare(&c, path, before, now, err);
}

gp_status gp_yaml_differ(const char *path, const gp_yaml *before, const gp_yaml *now, bool *out, gp_error *err) {
    comparison c = {.visit = note_any};
    c.context = &c;
    GP_RETURN_IF_FAILED(compare(&c, path, before, now, err));
    *out = c.ends;
    return GP_OK;
}
