#include "balance/scale.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "balance/cost.h"
#include "balance/profile_identity.h"
#include "base/memory.h"

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

static void scale_time(gp_estimate *time, double factor) {
    time->median *= factor;
    time->low *= factor;
    time->high *= factor;
}

static void scale_rows(gp_profile *profile, const int64_t *before, const int64_t *after, double proportion) {
    for (int d = 0; d < profile->device_count; d++)
        for (int i = 0; i < profile->layer_count; i++) {
            double factor = before[i] > 0 ? (double)after[i] / (double)before[i] : proportion;
            for (int t = 0; t < GP_PROFILE_TIMES; t++)
                if (t != GP_PROFILE_TIME_UPDATE) scale_time(&profile->devices[d].layers[i].time[t], factor);
        }
}

gp_status gp_profile_scale(gp_profile *profile, const gp_graph *graph, int64_t samples, gp_error *err) {
    int64_t *before = NULL, *after = NULL, measured = profile->identity.samples;
    gp_status status = GP_NEW(&before, graph->layer_count, err);
    if (status == GP_OK) status = GP_NEW(&after, graph->layer_count, err);
    if (status == GP_OK) status = gp_cost_by_time(graph, measured, 0, before, err);
    if (status == GP_OK) status = gp_cost_by_time(graph, samples, 0, after, err);
    if (status == GP_OK) {
        scale_rows(profile, before, after, (double)samples / (double)measured);
        profile->scaled = measured;
        profile->identity.samples = samples;
    }
    free(before);
    free(after);
    return status;
}

/* ---- the nearest profile ----------------------------------------------------------------------------------------- */

enum { HEAD = 4096 };

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_akin(const gp_profile_identity *a, const gp_profile_identity *b) {
    return same_text(a->program, b->program) && same_text(a->machine, b->machine) &&
           same_text(a->libraries, b->libraries) && same_text(a->precision, b->precision) &&
           same_text(a->optimizer, b->optimizer) && a->model == b->model;
}

/* Profiles name their model in the first lines: those of other models are not read further. */
static bool is_of_model(const char *path, uint64_t model) {
    char head[HEAD + 1], wanted[48];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    FILE *file = fopen(path, "rbe");
    if (!file) return false;
    size_t bytes = fread(head, 1, HEAD, file);
    fclose(file);
    head[bytes] = '\0';
    snprintf(wanted, sizeof wanted, "\"model\": \"%016" PRIx64 "\"", model);
    return strstr(head, wanted) != NULL;
}

typedef struct search {
    const gp_profile_identity *identity;
    const gp_graph *graph;
    const gp_device_spec *devices;
    int count;
    gp_profile *best;
} search;

static double distance(const search *s, const gp_profile *profile) {
    double a = (double)s->identity->samples, b = (double)profile->identity.samples;
    return a > b ? a / b : b / a;
}

/* Equal ones are told apart by their paths: the order of a folder's entries means nothing. */
static bool is_better(const search *s, const gp_profile *profile) {
    if (!s->best) return true;
    bool equal = profile->identity.together == s->identity->together;
    bool best_equal = s->best->identity.together == s->identity->together;
    if (equal != best_equal) return equal;
    double near = distance(s, profile), best = distance(s, s->best);
    return near < best || (near <= best && strcmp(profile->path, s->best->path) < 0);
}

static gp_status look_at(search *s, const char *path, gp_error *err) {
    gp_profile *profile = NULL;
    gp_error why = {0};
    if (!is_of_model(path, s->identity->model)) return GP_OK;
    gp_status status = gp_profile_read(path, &profile, &why);
    if (status == GP_MEMORY) return gp_fail(err, status, "%s", why.text);
    if (status == GP_OK && is_akin(&profile->identity, s->identity) && profile->layer_count == s->graph->layer_count &&
        gp_profile_has_devices(profile, s->devices, s->count) && is_better(s, profile)) {
        gp_profile_destroy(&s->best);
        s->best = profile;
        profile = NULL;
    }
    gp_profile_destroy(&profile);
    return GP_OK;
}

static bool is_profile_name(const char *name) {
    size_t length = strlen(name);
    return name[0] != '.' && length > 5 && strcmp(name + length - 5, ".json") == 0;
}

static gp_status look_around(search *s, const char *path, gp_error *err) {
    int length = (int)(strrchr(path, '/') - path);
    char *folder = NULL;
    gp_status status = gp_format_text(&folder, err, "%.*s", length, path);
    DIR *entries = status == GP_OK ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (entries && status == GP_OK && (entry = readdir(entries))) {
        char *file = NULL;
        if (!is_profile_name(entry->d_name)) continue;
        status = gp_format_text(&file, err, "%s/%s", folder, entry->d_name);
        if (status == GP_OK) status = look_at(s, file, err);
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
