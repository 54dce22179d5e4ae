#include "profile/profile_kept.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/philox.h"
#include "profile/cache.h"
#include "profile/profile_file.h"
#include "profile/profile_words.h"
#include "profile/scale.h"

/* The name of a file begins with the number of its model: files of other models need not be read. */
enum { MODEL_DIGITS = 16 };

static uint64_t hash_number(uint64_t hash, int64_t number) {
    return gp_hash_bytes(hash, &number, sizeof number);
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    return gp_hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t hash_identity(const gp_profile_identity *identity, const gp_device_spec *devices, int count) {
    uint64_t hash = 0;
    for (int t = 0; t < GP_PROFILE_TEXTS; t++) hash = hash_text(hash, identity->text[t]);
    hash = hash_number(hash, identity->samples);
    hash = hash_number(hash, identity->together);
    for (int d = 0; d < count; d++) {
        hash = hash_text(hash, devices[d].kind->name);
        hash = hash_number(hash, devices[d].index);
        hash = hash_number(hash, devices[d].threads);
    }
    return hash;
}

gp_status gp_profile_path(const char *folder, const gp_profile_identity *identity, const gp_device_spec *devices,
                          int count, char **out, gp_error *err) {
    char *cache = NULL;
    *out = NULL;
    GP_RETURN_IF_FAILED(gp_cache_folder(&cache, err));
    if (!cache) return GP_OK;
    gp_status status = gp_format_text(out, err, "%s/%s/%016" PRIx64 "-%016" PRIx64 ".json", cache, folder,
                                      identity->model, hash_identity(identity, devices, count));
    free(cache);
    return status;
}

gp_status gp_profile_keep(const gp_profile *profile, const char *path, gp_error *err) {
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_profile_text(profile, &text, err));
    gp_status status = gp_cache_write(path, text, err);
    free(text);
    return status;
}

bool gp_profile_is_spoilt(const gp_profile *profile, int64_t now) {
    int64_t age = now - profile->taken;
    return gp_profile_is_disturbed(profile) && (age < 0 || age >= GP_MAY_STILL_RUN);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

typedef struct search {
    const gp_profile_identity *identity;
    const gp_graph *graph;
    const gp_device_spec *devices;
    int count;
    gp_profile *best;
} search;

/* NULL: a profile for something else, or a damaged one. */
static gp_status read_akin(const search *s, const char *path, gp_profile **out, gp_error *err) {
    gp_profile *profile = NULL;
    gp_error why = {0};
    gp_status status = gp_profile_read(path, &profile, &why);
    if (status == GP_MEMORY) return gp_fail(err, status, "%s", why.text);
    if (status == GP_OK &&
        !(gp_profile_identity_akin(&profile->identity, s->identity) && profile->layer_count == s->graph->layer_count &&
          gp_profile_has_devices(profile, s->devices, s->count)))
        gp_profile_destroy(&profile);
    *out = profile;
    return GP_OK;
}

gp_status gp_profile_find_kept(const char *path, const gp_profile_identity *identity, const gp_graph *graph,
                               const gp_device_spec *devices, int count, gp_profile **out, gp_error *err) {
    const search s = {identity, graph, devices, count, NULL};
    *out = NULL;
    if (!path || access(path, F_OK) != 0) return GP_OK;
    GP_RETURN_IF_FAILED(read_akin(&s, path, out, err));
    if (*out && !gp_profile_identity_equal(&(*out)->identity, identity)) gp_profile_destroy(out);
    return GP_OK;
}

static double distance(const search *s, const gp_profile *profile) {
    double a = (double)s->identity->samples, b = (double)profile->identity.samples;
    return a > b ? a / b : b / a;
}

/* The order of a folder's entries means nothing, so the paths of equal profiles decide. */
static bool is_better(const search *s, const gp_profile *profile) {
    if (!s->best) return true;
    bool equal = profile->identity.together == s->identity->together;
    bool best_equal = s->best->identity.together == s->identity->together;
    if (equal != best_equal) return equal;
    double near = distance(s, profile), best = distance(s, s->best);
    return near < best || (near <= best && strcmp(profile->path, s->best->path) < 0);
}

static bool is_of_model(const char *name, const char *path) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0 &&
           strncmp(name, strrchr(path, '/') + 1, MODEL_DIGITS) == 0;
}

static gp_status look_around(search *s, const char *path, gp_error *err) {
    int length = (int)(strrchr(path, '/') - path);
    char *folder = NULL;
    gp_status status = gp_format_text(&folder, err, "%.*s", length, path);
    DIR *entries = status == GP_OK ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (entries && status == GP_OK && (entry = readdir(entries))) {
        char *file = NULL;
        gp_profile *found = NULL;
        if (!is_of_model(entry->d_name, path)) continue;
        status = gp_format_text(&file, err, "%s/%s", folder, entry->d_name);
        if (status == GP_OK) status = read_akin(s, file, &found, err);
        if (found && !gp_profile_is_spoilt(found, (int64_t)time(NULL)) && is_better(s, found)) {
            gp_profile_destroy(&s->best);
            s->best = found;
            found = NULL;
        }
        gp_profile_destroy(&found);
        free(file);
    }
    if (entries) closedir(entries);
    free(folder);
    return status;
}

gp_status gp_profile_find_near(const char *path, const gp_profile_identity *identity, const gp_graph *graph,
                               const gp_device_spec *devices, int count, gp_profile **out, gp_error *err) {
    search s = {identity, graph, devices, count, NULL};
    *out = NULL;
    if (!path) return GP_OK;
    gp_status status = look_around(&s, path, err);
    if (status == GP_OK && s.best && s.best->identity.samples != identity->samples)
        status = gp_profile_scale(s.best, graph, identity->samples, err);
    if (status == GP_OK && s.best) s.best->other_company = s.best->identity.together != identity->together;
    if (status != GP_OK)
        gp_profile_destroy(&s.best);
    else
        *out = s.best;
    return status;
}
