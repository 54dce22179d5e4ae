/* Finds the first difference of two trees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree_internal.h"

typedef struct comparison {
    gp_yaml_visit visit;
    void *context;
    size_t length; /* of the path */
    char path[(GP_YAML_MAX_DEPTH + 1) * (GP_YAML_MAX_KEY + 1)];
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

static gp_status compare(comparison *c, const gp_yaml *before, const gp_yaml *now, gp_error *err);

static gp_status compare_child(comparison *c, const char *key, const gp_yaml *before, const gp_yaml *now,
                               gp_error *err) {
    size_t length = c->length;
    c->length += (size_t)snprintf(c->path + length, sizeof c->path - length, "%s%s", length ? "." : "", key);
    gp_status status = compare(c, before, now, err);
    c->length = length;
    c->path[length] = '\0';
    return status;
}

static gp_status compare_mappings(comparison *c, const gp_yaml *before, const gp_yaml *now, gp_error *err) {
    for (size_t i = 0; i < now->count; i++) {
        const char *key = now->pairs[i].key->text;
        GP_RETURN_IF_FAILED(compare_child(c, key, gp_yaml_get(before, key), now->pairs[i].value, err));
    }
    for (size_t i = 0; i < before->count; i++) {
        const char *key = before->pairs[i].key->text;
        if (!gp_yaml_get(now, key)) GP_RETURN_IF_FAILED(compare_child(c, key, before->pairs[i].value, NULL, err));
    }
    return GP_OK;
}

static gp_status compare_sequences(comparison *c, const gp_yaml *before, const gp_yaml *now, gp_error *err) {
    for (size_t i = 0; i < before->count || i < now->count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        GP_RETURN_IF_FAILED(compare_child(c, key, i < before->count ? before->items[i] : NULL,
                                          i < now->count ? now->items[i] : NULL, err));
    }
    return GP_OK;
}

/* The path behind its end stays as it is: clearing all of it for each comparison would take longer than comparing. */
static void begin(comparison *c, const char *path, gp_yaml_visit visit, void *context) {
    c->visit = visit;
    c->context = context;
    c->length = strlen(path);
    memcpy(c->path, path, c->length + 1);
}

static gp_status stop(void *context, const gp_yaml_difference *difference, gp_error *err) {
    (void)context;
    (void)difference;
    (void)err;
    return GP_CANCELLED;
}

static bool same_whole(const char *path, const gp_yaml *before, const gp_yaml *now) {
    comparison inner;
    begin(&inner, path, stop, NULL);
    return compare_mappings(&inner, before, now, NULL) == GP_OK && same_order(before, now);
}

static gp_status compare(comparison *c, const gp_yaml *before, const gp_yaml *now, gp_error *err) {
    if (before && now && before->kind == now->kind) {
        bool whole = now->kind == GP_YAML_MAPPING && gp_yaml_is_whole(c->path);
        if (whole && same_whole(c->path, before, now)) return GP_OK;
        if (now->kind == GP_YAML_MAPPING && !whole) return compare_mappings(c, before, now, err);
        if (now->kind == GP_YAML_SEQUENCE) return compare_sequences(c, before, now, err);
        if (now->kind == GP_YAML_SCALAR && same_scalar(before, now)) return GP_OK;
    }
    return c->visit(c->context, &(gp_yaml_difference){c->path, before, now}, err);
}

gp_status gp_yaml_each_difference(const char *path, const gp_yaml *before, const gp_yaml *now, gp_yaml_visit visit,
                                  void *context, gp_error *err) {
    comparison c;
    begin(&c, path, visit, context);
    return compare(&c, before, now, err);
}

bool gp_yaml_differ(const char *path, const gp_yaml *before, const gp_yaml *now) {
    return gp_yaml_each_difference(path, before, now, stop, NULL, NULL) != GP_OK;
}
