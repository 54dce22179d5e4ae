#include "balance/rates_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "balance/cache.h"
#include "balance/profile.h"
#include "balance/when.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/text_file.h"
#include "config/read.h"

enum { MOST_BYTES = 1 << 16 };

/* What rates depend on; owned texts. */
typedef struct identity {
    char *machine, *libraries;
    char device[48];
} identity;

static void identity_fini(identity *of) {
    free(of->machine);
    free(of->libraries);
}

static gp_status identify(const gp_device_spec *spec, identity *out, gp_error *err) {
    *out = (identity){0};
    gp_device_text(out->device, spec->kind->name, spec->index, spec->threads);
    gp_status status = gp_cache_machine(&out->machine, err);
    if (status == GP_OK)
        status = gp_copy_text(&out->libraries, spec->kind->libraries ? spec->kind->libraries() : "", err);
    if (status != GP_OK) identity_fini(out);
    return status;
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    return gp_hash_bytes(hash, text, strlen(text) + 1);
}

static gp_status path_of(const identity *of, char **out, gp_error *err) {
    char *cache = NULL;
    *out = NULL;
    GP_RETURN_IF_FAILED(gp_cache_folder(&cache, err));
    if (!cache) return GP_OK;
    uint64_t hash = hash_text(hash_text(hash_text(0, of->machine), of->libraries), of->device);
    gp_status status = gp_format_text(out, err, "%s/rates/%016" PRIx64 ".json", cache, hash);
    free(cache);
    return status;
}

gp_status gp_rates_path(const gp_device_spec *spec, char **out, gp_error *err) {
    identity of;
    GP_RETURN_IF_FAILED(identify(spec, &of, err));
    gp_status status = path_of(&of, out, err);
    identity_fini(&of);
    return status;
}

/* ---- the numbers ------------------------------------------------------------------------------------------------- */

/* A number of the file: how many units of it are 1, and its range in these units. */
typedef struct member {
    const char *key;
    double *value;
    double unit, least, most;
} member;

enum { MEMBERS = 5 };

static void list_members(gp_rates *rates, member out[MEMBERS]) {
    const member all[MEMBERS] = {
        {"gflops", &rates->flops, 1e9, 1e-3, 1e9},
        {"gb_per_s", &rates->bytes, 1e9, 1e-3, 1e6},
        {"op_us", &rates->latency, 1e-6, 0, 1e6},
        {"copy_us", &rates->copy_latency, 1e-6, 0, 1e6},
        {"copy_gb_per_s", &rates->copy_bytes, 1e9, 1e-3, 1e6},
    };
    memcpy(out, all, sizeof all);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool is_text(const gp_yaml *root, const char *key, const char *text) {
    const gp_yaml *is = gp_yaml_get(root, key);
    return is && is->kind == GP_YAML_SCALAR && strcmp(is->text, text) == 0;
}

/* GP_CONFIG: the file is damaged. */
static gp_status read_numbers(const gp_yaml *root, gp_rates *out, gp_error *err) {
    member members[MEMBERS];
    list_members(out, members);
    for (int i = 0; i < MEMBERS; i++) {
        const gp_yaml *node = gp_yaml_get(root, members[i].key);
        if (!node) return gp_fail_at(err, GP_CONFIG, root->place, "\"%s\" is missing", members[i].key);
        GP_RETURN_IF_FAILED(
            gp_read_number(node, members[i].key, members[i].least, members[i].most, 0, members[i].value, err));
        *members[i].value *= members[i].unit;
    }
    const gp_yaml *loaded = gp_yaml_get(root, "under_load"), *taken = gp_yaml_get(root, "taken");
    if (loaded) GP_RETURN_IF_FAILED(gp_read_boolean(loaded, "under_load", &out->under_load, err));
    if (taken && taken->kind == GP_YAML_SCALAR && gp_when_parse(taken->text, &out->taken)) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, taken ? taken->place : root->place,
                      "\"taken\" must be a time such as \"2026-11-22T19:02:44Z\"");
}

/* *found false: rates of another machine, or of another version's format. */
static gp_status read_root(const gp_yaml *root, const char *path, const identity *of, gp_rates *out, bool *found,
                           gp_error *err) {
    gp_rates rates = {0};
    int64_t format = 0;
    const gp_yaml *node = gp_yaml_get(root, "gpipe_rates");
    if (!node) return gp_fail(err, GP_CONFIG, "%s:1:1: \"gpipe_rates\" is missing: the file holds no rates", path);
    GP_RETURN_IF_FAILED(gp_read_integer(node, "gpipe_rates", 1, INT64_MAX, &format, err));
    if (format != 1 || !is_text(root, "machine", of->machine) || !is_text(root, "libraries", of->libraries) ||
        !is_text(root, "device", of->device))
        return GP_OK;
    GP_RETURN_IF_FAILED(read_numbers(root, &rates, err));
    *out = rates;
    *found = true;
    return GP_OK;
}

static gp_status read_file(const char *path, const identity *of, gp_rates *out, bool *found, char **warning,
                           gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_error why = {0};
    char *text = NULL;
    size_t bytes = 0;
    if (access(path, F_OK) != 0) return GP_OK;
    gp_status status = gp_text_file_read(path, MOST_BYTES, "a file of rates", &text, &bytes, &why);
    if (status == GP_OK) status = gp_yaml_parse(text, bytes, path, &document, &why);
    if (status == GP_OK) status = read_root(gp_yaml_root(document), path, of, out, found, &why);
    gp_yaml_destroy(&document);
    free(text);
    if (status == GP_OK) return GP_OK;
    if (status == GP_MEMORY) return gp_fail(err, status, "%s", why.text);
    return gp_format_text(warning, err, "%s; the file is ignored, gpipe-balance replaces it", why.text);
}

static gp_status find_own(const gp_device_spec *spec, gp_rates *out, bool *found, char **warning, gp_error *err) {
    identity of;
    char *path = NULL;
    *found = false;
    GP_RETURN_IF_FAILED(identify(spec, &of, err));
    gp_status status = path_of(&of, &path, err);
    if (status == GP_OK && path) status = read_file(path, &of, out, found, warning, err);
    free(path);
    identity_fini(&of);
    return status;
}

gp_status gp_rates_find(const gp_device_spec *spec, gp_rates *out, bool *found, char **warning, gp_error *err) {
    gp_rates one;
    gp_device_spec alone = *spec;
    *warning = NULL;
    GP_RETURN_IF_FAILED(find_own(spec, out, found, warning, err));
    if (*found || *warning || spec->threads <= 1) return GP_OK;
    alone.threads = 1;
    GP_RETURN_IF_FAILED(find_own(&alone, &one, found, warning, err));
    if (*found) *out = gp_rates_of_threads(&one, spec->threads);
    return GP_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static gp_status make_text(const identity *of, const gp_rates *rates, char **out, gp_error *err) {
    gp_rates copy = *rates;
    member members[MEMBERS];
    char when[GP_WHEN_TEXT];
    json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:s, s:b}", "gpipe_rates", 1, "machine", of->machine, "libraries",
                             of->libraries, "device", of->device, "taken", gp_when_text(when, rates->taken),
                             "under_load", rates->under_load);
    list_members(&copy, members);
    for (int i = 0; i < MEMBERS && root; i++)
        json_object_set_new(root, members[i].key, json_real(*members[i].value / members[i].unit));
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(root);
    if (!text) return gp_fail(err, GP_MEMORY, "out of memory: rates");
    gp_status status = gp_format_text(out, err, "%s\n", text);
    free(text);
    return status;
}

gp_status gp_rates_keep(const gp_device_spec *spec, const gp_rates *rates, gp_error *err) {
    identity of;
    char *path = NULL, *text = NULL;
    GP_RETURN_IF_FAILED(identify(spec, &of, err));
    gp_status status = path_of(&of, &path, err);
    if (status == GP_OK && path) status = make_text(&of, rates, &text, err);
    if (status == GP_OK && path) status = gp_cache_write(path, text, err);
    free(text);
    free(path);
    identity_fini(&of);
    return status;
}
