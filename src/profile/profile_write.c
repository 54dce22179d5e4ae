/* Profiles as JSON: a line for each layer, so that people can read and compare them. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/replace.h"
#include "profile/profile_file.h"
#include "profile/when.h"

const char gp_profile_head[] = "{\n  \"gpipe_profile\"";

/* As it is read. */
static void round_to(const char *format, double unit, double *value) {
    char text[40];
    snprintf(text, sizeof text, format, *value / unit);
    *value = strtod(text, NULL) * unit;
}

void gp_profile_round(gp_profile *profile) {
    for (int d = 0; d < profile->device_count; d++) {
        gp_profile_device *device = &profile->devices[d];
        round_to("%.4g", 1, &device->slowdown);
        for (int i = 0; i < profile->layer_count; i++)
            for (int t = 0; t < GP_PROFILE_TIMES; t++) round_to("%.6g", 1e-3, &device->layers[i].time[t]);
    }
    for (int c = 0; c < profile->copy_count; c++) {
        round_to("%.6g", 1e-3, &profile->copies[c].latency);
        round_to("%.6g", 1e-3 * 0x1p-20, &profile->copies[c].per_byte);
    }
}

static gp_status write_text(FILE *file, const char *text, gp_error *err) {
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    if (!quoted) return gp_fail(err, GP_MEMORY, "out of memory: a profile");
    fputs(quoted, file);
    free(quoted);
    return GP_OK;
}

static gp_status write_identity(FILE *file, const gp_profile_identity *identity, gp_error *err) {
    fprintf(file, "%s: %d", gp_profile_head, GP_PROFILE_FORMAT);
    for (int t = 0; t < GP_PROFILE_TEXTS; t++) {
        if (!identity->text[t]) continue;
        fprintf(file, ",\n  \"%s\": ", gp_profile_text_name((gp_profile_text_kind)t));
        GP_RETURN_IF_FAILED(write_text(file, identity->text[t], err));
    }
    if (identity->model) fprintf(file, ",\n  \"model\": \"%016" PRIx64 "\"", identity->model);
    fprintf(file, ",\n  \"micro_batch\": %" PRId64, identity->samples);
    if (identity->together) fprintf(file, ",\n  \"together\": %" PRId64, identity->together);
    return GP_OK;
}

/* When it was measured, if that is known. */
static void write_taking(FILE *file, const gp_profile *profile) {
    char when[GP_WHEN_TEXT];
    if (profile->taken > 0) fprintf(file, ",\n  \"taken\": \"%s\"", gp_when_text(when, profile->taken));
}

static gp_status write_layers(FILE *file, const gp_profile *profile, const gp_profile_device *device, gp_error *err) {
    for (int i = 0; i < profile->layer_count; i++) {
        fprintf(file, "%s\n      {", i ? "," : "");
        if (profile->names[i]) {
            fputs("\"name\": ", file);
            GP_RETURN_IF_FAILED(write_text(file, profile->names[i], err));
            fputs(", ", file);
        }
        for (int t = 0; t < GP_PROFILE_TIMES; t++)
            fprintf(file, "%s\"%s\": %.6g", t ? ", " : "", gp_profile_time_name((gp_profile_time)t),
                    device->layers[i].time[t] / 1e-3);
        fputs("}", file);
    }
    return GP_OK;
}

static gp_status write_devices(FILE *file, const gp_profile *profile, gp_error *err) {
    fputs(",\n  \"devices\": [", file);
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        bool indexed = strcmp(device->kind, "cuda") == 0 && device->index != GP_PROFILE_ANY_INDEX;
        fprintf(file, "%s\n    {\"device\": \"%s", d ? "," : "", device->kind);
        if (indexed) fprintf(file, ":%d", device->index);
        fprintf(file, "\", \"threads\": %d, \"slowdown\": %.4g, \"layers\": [", device->threads, device->slowdown);
        GP_RETURN_IF_FAILED(write_layers(file, profile, device, err));
        fputs("\n    ]}", file);
    }
    fputs("\n  ],\n  \"copies\": [", file);
    return GP_OK;
}

static void write_copies(FILE *file, const gp_profile *profile) {
    for (int c = 0; c < profile->copy_count; c++) {
        const gp_profile_copy *copy = &profile->copies[c];
        fprintf(file, "%s\n    {\"from\": \"%s\", \"to\": \"%s\", \"latency\": %.6g, \"per_mib\": %.6g}", c ? "," : "",
                copy->from, copy->to, copy->latency / 1e-3, copy->per_byte / (1e-3 * 0x1p-20));
    }
    fputs("\n  ]\n}\n", file);
}

gp_status gp_profile_text(const gp_profile *profile, char **out, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return gp_fail(err, GP_MEMORY, "out of memory: a profile");
    gp_status status = write_identity(file, &profile->identity, err);
    if (status == GP_OK) write_taking(file, profile);
    if (status == GP_OK) status = write_devices(file, profile, err);
    if (status == GP_OK) write_copies(file, profile);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed || !text) {
        free(text);
        return gp_fail(err, GP_MEMORY, "out of memory: a profile");
    }
    if (status != GP_OK)
        free(text);
    else
        *out = text;
    return status;
}

gp_status gp_profile_write(const gp_profile *profile, const char *path, gp_error *err) {
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_profile_text(profile, &text, err));
    gp_status status = gp_file_replace(path, &(gp_bytes){text, strlen(text)}, 1, err);
    free(text);
    return status;
}
