/* changes: configurations by step. Each entry makes a second configuration, which is read and checked as a whole. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_stream.h"
#include "settings/tables_internal.h"

enum { MOST_CHANGES = 1000 };

bool gp_path_is_below(const char *path, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

bool gp_paths_meet(const char *a, const char *b) {
    return gp_path_is_below(a, b) || gp_path_is_below(b, a);
}

gp_key_change gp_change_rule(const char *path) {
    const char *reason;
    return gp_find_change(&gp_config_table, path, &reason);
}

const char *gp_change_refusal(const char *path) {
    const char *reason;
    (void)gp_find_change(&gp_config_table, path, &reason);
    return reason;
}

void gp_settings_fini(gp_settings *settings) {
    for (int i = 0; i < settings->count; i++) {
        free(settings->item[i].path);
        free(settings->item[i].value);
    }
    free(settings->item);
    *settings = (gp_settings){0};
}

static gp_status flow_text(const gp_yaml *node, char **out, gp_error *err) {
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "a change of the configuration", err));
    gp_yaml_write_flow(stream.file, node);
    return gp_text_end(&stream, GP_OK, out, err);
}

static gp_status add_setting(gp_settings *settings, const char *path, const gp_yaml *value, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&settings->item, &settings->capacity, settings->count + 1, err));
    gp_setting *item = &settings->item[settings->count];
    *item = (gp_setting){0};
    GP_RETURN_IF_FAILED(gp_copy_text(&item->path, path, err));
    gp_status status = flow_text(value, &item->value, err);
    if (status == GP_OK)
        settings->count++;
    else
        free(item->path);
    return status;
}

static bool lacks_key(const gp_yaml *before, const gp_yaml *now) {
    for (size_t i = 0; i < before->count; i++)
        if (!gp_yaml_get(now, before->pairs[i].key->text)) return true;
    return false;
}

static bool are_alike_lists(const gp_yaml *before, const gp_yaml *now) {
    return before->kind == GP_YAML_SEQUENCE && now->kind == GP_YAML_SEQUENCE && before->count == now->count;
}

static gp_status list_settings(gp_settings *settings, const char *path, const gp_yaml *before, const gp_yaml *now,
                               gp_error *err);

static gp_status list_child(gp_settings *settings, const char *path, const char *key, const gp_yaml *before,
                            const gp_yaml *now, gp_error *err) {
    char *inner = NULL;
    if (!*path && strcmp(key, "changes") == 0) return GP_OK;
    GP_RETURN_IF_FAILED(gp_format_text(&inner, err, "%s%s%s", path, *path ? "." : "", key));
    gp_status status = list_settings(settings, inner, before, now, err);
    free(inner);
    return status;
}

/* A key that is gone cannot be set: then the mapping around it is the value. */
static gp_status list_settings(gp_settings *settings, const char *path, const gp_yaml *before, const gp_yaml *now,
                               gp_error *err) {
    bool mappings = before && before->kind == GP_YAML_MAPPING && now->kind == GP_YAML_MAPPING;
    if (before && !gp_yaml_differ(path, before, now)) return GP_OK;
    if (mappings && !gp_yaml_is_whole(path) && (!*path || !lacks_key(before, now))) {
        for (size_t i = 0; i < now->count; i++) {
            const char *key = now->pairs[i].key->text;
            GP_RETURN_IF_FAILED(list_child(settings, path, key, gp_yaml_get(before, key), now->pairs[i].value, err));
        }
        return GP_OK;
    }
    /* The layers of a model: an entry of the list has a path of its own. */
    if (before && gp_path_is_below(path, "model") && are_alike_lists(before, now)) {
        for (size_t i = 0; i < now->count; i++) {
            char index[24];
            snprintf(index, sizeof index, "%zu", i);
            GP_RETURN_IF_FAILED(list_child(settings, path, index, before->items[i], now->items[i], err));
        }
        return GP_OK;
    }
    return add_setting(settings, path, now, err);
}

gp_status gp_settings_between(gp_yaml_document *before, gp_yaml_document *now, gp_settings *out, gp_error *err) {
    gp_settings settings = {0};
    bool pipeline = false, balance = false;
    gp_status status = list_settings(&settings, "", gp_yaml_root(before), gp_yaml_root(now), err);
    for (int i = 0; i < settings.count; i++) {
        pipeline = pipeline || gp_path_is_below(settings.item[i].path, "pipeline.devices") ||
                   gp_path_is_below(settings.item[i].path, "pipeline.schedule");
        balance = balance || gp_paths_meet(settings.item[i].path, "pipeline.balance");
    }
    /* A balance that was found for other devices does not hold for these. */
    const gp_yaml *found = gp_yaml_find(now, "pipeline.balance");
    if (status == GP_OK && pipeline && !balance && found)
        status = add_setting(&settings, "pipeline.balance", found, err);
    if (status != GP_OK)
        gp_settings_fini(&settings);
    else
        *out = settings;
    return status;
}

static gp_status refuse_epochs(const gp_yaml *key, size_t digits, gp_error *err) {
    return gp_fail_at(
        err, GP_CONFIG, key->place,
        "changes: %s is not a step: a change is named by the first step that has it; after %.*s epoch%s that is "
        "%.*s × N + 1, where N is the number of steps in an epoch: data.train's samples / data.batch, rounded up "
        "(with drop_last down)",
        gp_show(key->text).text, (int)digits, key->text, strncmp(key->text, "1 ", 2) == 0 ? "" : "s", (int)digits,
        key->text);
}

static gp_status read_step(const gp_yaml *key, int64_t *out, gp_error *err) {
    const char *text = key->text;
    size_t digits = strspn(text, "0123456789");
    const char *unit = text + digits + strspn(text + digits, " ");
    if (digits > 0 && digits < 18 && (strcmp(unit, "epochs") == 0 || strcmp(unit, "epoch") == 0))
        return refuse_epochs(key, digits, err);
    int64_t step = digits > 0 && digits < 18 && !text[digits] ? strtoll(text, NULL, 10) : -1;
    if (step < 0)
        return gp_fail_at(err, GP_CONFIG, key->place, "changes: %s is not a step, as in 501: {optimizer.sgd.lr: 0.01}",
                          gp_show(text).text);
    if (step < 2)
        return gp_fail_at(err, GP_CONFIG, key->place,
                          "changes: step %" PRId64 " is too early: changes are possible from step 2 on", step);
    if (step > UINT32_MAX)
        return gp_fail_at(err, GP_CONFIG, key->place,
                          "changes: step %" PRId64 " is too late: a run has %" PRIu32 " steps at most", step,
                          UINT32_MAX);
    *out = step;
    return GP_OK;
}

/* The key of an entry that says this, or the entry. */
static gp_place find_place(const gp_yaml *entry, const char *path) {
    for (size_t i = 0; i < entry->count; i++)
        if (gp_paths_meet(entry->pairs[i].key->text, path)) return entry->pairs[i].key->place;
    return entry->place;
}

typedef struct refusing {
    int64_t step;
    const gp_yaml *entry;
} refusing;

static gp_status refuse_fixed(void *context, const gp_yaml_difference *difference, gp_error *err) {
    const refusing *r = context;
    const char *reason = gp_change_refusal(difference->path);
    if (!reason) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, find_place(r->entry, difference->path),
                      "changes.%" PRId64 ": %s cannot change within a run: %s", r->step, difference->path, reason);
}

static gp_status compare_phases(const gp_config *before, gp_change *change, const gp_yaml *entry, gp_error *err) {
    gp_yaml_document *then = NULL, *now = NULL;
    refusing r = {change->step, entry};
    GP_RETURN_IF_FAILED(gp_config_resolved(before, &then, err));
    gp_status status = gp_config_resolved(change->config, &now, err);
    if (status == GP_OK)
        status = gp_yaml_each_difference("", gp_yaml_root(then), gp_yaml_root(now), refuse_fixed, &r, err);
    if (status == GP_OK) status = gp_settings_between(then, now, &change->settings, err);
    gp_yaml_destroy(&now);
    gp_yaml_destroy(&then);
    return status;
}

static gp_status put_entry(gp_yaml_document *document, const gp_yaml *entry, gp_error *err) {
    for (size_t i = 0; i < entry->count; i++) {
        const gp_yaml *key = entry->pairs[i].key;
        if (gp_path_is_below(key->text, "changes"))
            return gp_fail_at(err, GP_CONFIG, key->place, "changes: a change cannot have changes of its own");
        GP_RETURN_IF_FAILED(gp_yaml_put_node(document, key->text, key->place, entry->pairs[i].value, err));
    }
    return GP_OK;
}

static gp_status read_change(gp_config *config, gp_change *change, const gp_yaml *entry, gp_error *err) {
    const gp_config *before = config; /* or what the change before leaves; one with a mistake leaves nothing */
    for (const gp_change *earlier = config->changes; earlier < change; earlier++)
        if (earlier->config) before = earlier->config;
    gp_yaml_document *document = NULL;
    if (entry->kind != GP_YAML_MAPPING || entry->count == 0)
        return gp_fail_at(err, GP_CONFIG, entry->place,
                          "changes.%" PRId64
                          ": needs keys with their new values, as in {optimizer.sgd.lr: 0.01}, not %s",
                          change->step, entry->kind == GP_YAML_MAPPING ? "an empty mapping" : gp_show_node(entry).text);
    GP_RETURN_IF_FAILED(gp_yaml_copy(before->document, &document, err));
    gp_status status = put_entry(document, entry, err);
    if (status != GP_OK)
        gp_yaml_destroy(&document);
    else
        status = gp_config_read(config, &document, false, &change->config, err);
    return status == GP_OK ? compare_phases(before, change, entry, err) : status;
}

static int by_step(const void *a, const void *b) {
    const gp_change *first = a, *second = b;
    return (first->step > second->step) - (first->step < second->step);
}

gp_status gp_read_changes(gp_config *config, const gp_yaml *node, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_read_mapping(node, "changes", err));
    if (node->count > MOST_CHANGES)
        return gp_fail_at(err, GP_CONFIG, node->place, "changes: %zu steps are more than %d", node->count,
                          (int)MOST_CHANGES);
    GP_RETURN_IF_FAILED(GP_NEW(&config->changes, node->count, err));
    for (size_t i = 0; i < node->count; i++) {
        gp_change *change = &config->changes[config->change_count++];
        change->place = node->pairs[i].key->place;
        change->entry = node->pairs[i].value;
        GP_RETURN_IF_FAILED(read_step(node->pairs[i].key, &change->step, err));
    }
    gp_status status = GP_OK;
    qsort(config->changes, node->count, sizeof *config->changes, by_step);
    for (int i = 0; i < config->change_count; i++) {
        gp_change *change = &config->changes[i];
        if (i > 0 && change[-1].step == change->step)
            return gp_fail_at(err, GP_CONFIG, change->place, "changes: step %" PRId64 " is there twice", change->step);
        gp_error next = {0};
        if (read_change(config, change, change->entry, &next) != GP_OK) status = gp_error_join(err, status, &next);
    }
    return status;
}

void gp_free_changes(gp_config *config) {
    for (int i = 0; i < config->change_count; i++) {
        gp_config_destroy(&config->changes[i].config);
        gp_settings_fini(&config->changes[i].settings);
    }
    free(config->changes);
    config->changes = NULL;
    config->change_count = 0;
}

int gp_config_changes_until(const gp_config *config, int64_t step) {
    int count = 0;
    while (count < config->change_count && config->changes[count].step <= step) count++;
    return count;
}

gp_config *gp_config_phase(gp_config *config, int changes) {
    return changes == 0 ? config : config->changes[changes - 1].config;
}

/* "501: {optimizer.sgd.lr: 0.01}, " */
void gp_write_change(FILE *file, int64_t step, const gp_settings *settings) {
    fprintf(file, "%" PRId64 ": {", step);
    for (int i = 0; i < settings->count; i++) {
        fputs(i > 0 ? ", " : "", file);
        if (strspn(settings->item[i].path, "abcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(settings->item[i].path))
            fputs(settings->item[i].path, file);
        else
            gp_yaml_write_quoted(file, settings->item[i].path);
        fprintf(file, ": %s", settings->item[i].value);
    }
    fputs("}, ", file);
}

void gp_write_changes(FILE *file, const gp_config *config) {
    fputs("{", file);
    for (int i = 0; i < config->change_count; i++)
        if (config->changes[i].settings.count > 0)
            gp_write_change(file, config->changes[i].step, &config->changes[i].settings);
    fputs("}", file);
}
