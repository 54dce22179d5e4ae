/* The types of keys that more than one table uses: one value each, without a form of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "config/keys.h"

#define VALUE(type)       ((type *)((char *)base + key->offset))
#define CONST_VALUE(type) ((const type *)((const char *)base + key->offset))

void gp_write_number(FILE *file, double value) {
    char text[GP_NUMBER_TEXT];
    fputs(gp_number_text(text, value), file);
}

void gp_write_time(FILE *file, gp_time time) {
    fprintf(file, "%lld%s", (long long)time.count, !time.epochs ? "" : time.count == 1 ? " epoch" : " epochs");
}

/* A value outside the range of integers was not said. */
static gp_status read_int64(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    return gp_read_integer(node, at->what, key->integer.low, key->integer.high, VALUE(int64_t), err);
}

static void write_int64(FILE *file, const gp_key *key, const void *base) {
    fprintf(file, "%lld", (long long)*CONST_VALUE(int64_t));
}

static bool is_int64_said(const gp_key *key, const void *base) {
    return *CONST_VALUE(int64_t) >= key->integer.low;
}

const gp_key_type gp_int64_type = {"integer", read_int64, write_int64, is_int64_said};

static gp_status read_int(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base, gp_error *err) {
    int64_t value = 0;
    GP_RETURN_IF_FAILED(gp_read_integer(node, at->what, key->integer.low, key->integer.high, &value, err));
    *VALUE(int) = (int)value;
    return GP_OK;
}

static void write_int(FILE *file, const gp_key *key, const void *base) {
    fprintf(file, "%d", *CONST_VALUE(int));
}

const gp_key_type gp_int_type = {"integer", read_int, write_int, NULL};

static gp_status read_pair(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    return gp_read_pair(node, at->what, key->integer.low, key->integer.high, VALUE(int64_t), err);
}

static void write_pair(FILE *file, const gp_key *key, const void *base) {
    fprintf(file, "[%lld, %lld]", (long long)CONST_VALUE(int64_t)[0], (long long)CONST_VALUE(int64_t)[1]);
}

const gp_key_type gp_pair_type = {"integer or `[height, width]`", read_pair, write_pair, NULL};

static gp_status read_bytes(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    GP_RETURN_IF_FAILED(gp_read_bytes(node, at->what, VALUE(size_t), err));
    if (*VALUE(size_t) > 0) return GP_OK;
    return gp_refuse(node->place, at->what, err, "must be more than 0");
}

static void write_bytes(FILE *file, const gp_key *key, const void *base) {
    fprintf(file, "%zu", *CONST_VALUE(size_t));
}

static bool are_bytes_said(const gp_key *key, const void *base) {
    return *CONST_VALUE(size_t) > 0;
}

const gp_key_type gp_bytes_type = {"size", read_bytes, write_bytes, are_bytes_said};

static gp_status read_number(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                             gp_error *err) {
    return gp_read_number(node, at->what, key->number.low, key->number.high, key->number.open, VALUE(double), err);
}

static void write_number(FILE *file, const gp_key *key, const void *base) {
    gp_write_number(file, *CONST_VALUE(double));
}

static bool is_number_said(const gp_key *key, const void *base) {
    return *CONST_VALUE(double) > key->number.low;
}

const gp_key_type gp_number_type = {"number", read_number, write_number, is_number_said};

static gp_status read_boolean(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                              gp_error *err) {
    return gp_read_boolean(node, at->what, VALUE(bool), err);
}

static void write_boolean(FILE *file, const gp_key *key, const void *base) {
    fputs(*CONST_VALUE(bool) ? "true" : "false", file);
}

const gp_key_type gp_boolean_type = {"`true` or `false`", read_boolean, write_boolean, NULL};

static gp_status read_choice(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                             gp_error *err) {
    if (node->kind == GP_YAML_SCALAR && gp_is_later(node->text, key->later))
        return gp_refuse(node->place, at->what, err, "%s is not available yet; this version has %s",
                         gp_show(node->text).text, gp_list_names(key->names).text);
    return gp_read_choice(node, at->what, key->names, VALUE(int), err);
}

static void write_choice(FILE *file, const gp_key *key, const void *base) {
    fputs(key->names[*CONST_VALUE(int)], file);
}

const gp_key_type gp_choice_type = {"", read_choice, write_choice, NULL};

static gp_status read_time(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    return gp_read_time(node, at->what, key->integer.low, VALUE(gp_time), err);
}

static void write_time(FILE *file, const gp_key *key, const void *base) {
    gp_write_time(file, *CONST_VALUE(gp_time));
}

const gp_key_type gp_time_type = {"time", read_time, write_time, NULL};

static gp_status read_every(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    return gp_read_every(node, at->what, VALUE(gp_every), err);
}

static void write_every(FILE *file, const gp_key *key, const void *base) {
    const gp_every *every = CONST_VALUE(gp_every);
    if (every->time.count > 0) {
        gp_write_time(file, every->time);
    } else if (every->minutes == 0) {
        fputs("never", file);
    } else {
        if (every->about) fputs("about ", file);
        gp_write_number(file, every->minutes);
        fputs(every->minutes == 1 ? " minute" : " minutes", file);
    }
}

const gp_key_type gp_every_type = {"time, minutes, or `never`", read_every, write_every, NULL};

static gp_status read_path(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    const char *path = NULL;
    GP_RETURN_IF_FAILED(gp_read_text(node, at->what, &path, err));
    if (path[0] == '/') return gp_copy_text(VALUE(char *), path, err);
    return gp_format_text(VALUE(char *), err, "%s/%s", strcmp(at->folder, "/") == 0 ? "" : at->folder, path);
}

static void write_path(FILE *file, const gp_key *key, const void *base) {
    gp_yaml_write_quoted(file, *CONST_VALUE(char *));
}

static bool is_path_said(const gp_key *key, const void *base) {
    return *CONST_VALUE(char *) != NULL;
}

const gp_key_type gp_path_type = {"path", read_path, write_path, is_path_said};

void gp_write_names(FILE *file, const gp_placed_name *names, int count) {
    fputs("[", file);
    for (int i = 0; i < count; i++) {
        if (i > 0) fputs(", ", file);
        gp_yaml_write_quoted(file, names[i].text);
    }
    fputs("]", file);
}

static gp_status read_table(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    return gp_read_table(key->table, node, at, VALUE(char), err);
}

static void write_table(FILE *file, const gp_key *key, const void *base) {
    gp_write_table(file, key->table, CONST_VALUE(char));
}

/* A mapping without a default is said if it has a kind, or its first key is. */
static bool is_table_said(const gp_key *key, const void *base) {
    const gp_key *first = key->table->keys;
    if (key->table->kinds) return *(const int *)(CONST_VALUE(char) + key->table->kind) != 0;
    return first->type->is_said(first, CONST_VALUE(char));
}

const gp_key_type gp_table_type = {"mapping", read_table, write_table, is_table_said};

const gp_key_type gp_elsewhere_type = {"", NULL, NULL, NULL};
