/* Profiles as JSON: a line for each layer, so that people can read and compare them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/replace.h"
#include "base/text_stream.h"
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
        round_to("%.4g", 1, &device->spread);
        for (int i = 0; i < profile->layer_count; i++)
            for (int t = 0; t < GP_PROFILE_TIMES; t++) round_to("%.6g", 1e-3, &device->layers[i].time[t]);
    }
    for (int c = 0; c < profile->copy_count; c++) {
        round_to("%.6g", 1e-3, &profile->copies[c].latency);
        round_to("%.6g", 1e-3 * 0x1p-20, &profile->copies[c].per_byte);
    }
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        round_to("%.6g", 1e-3, &profile->links[k].latency);
        round_to("%.6g", 1e-3 * 0x1p-20, &profile->links[k].per_byte);
    }
}

static void write_identity(FILE *file, const gp_profile_identity *identity) {
    fprintf(file, "%s: %d", gp_profile_head, GP_PROFILE_FORMAT);
    for (int t = 0; t < GP_PROFILE_TEXTS; t++) {
        if (!identity->text[t]) continue;
        fprintf(file, ",\n  \"%s\": ", gp_profile_text_names[t]);
        gp_json_text(file, identity->text[t]);
    }
    if (identity->model) fprintf(file, ",\n  \"model\": \"%016" PRIx64 "\"", identity->model);
    fprintf(file, ",\n  \"micro_batch\": %" PRId64, identity->samples);
    if (identity->together) fprintf(file, ",\n  \"together\": %" PRId64, identity->together);
}

static void write_layer(FILE *file, const char *name, const gp_layer_times *times) {
    fputs("\n      {", file);
    if (name) {
        fputs("\"name\": ", file);
        gp_json_text(file, name);
        fputs(", ", file);
    }
    for (int t = 0; t < GP_PROFILE_TIMES; t++)
        fprintf(file, "%s\"%s\": %.6g", t ? ", " : "", gp_profile_time_names[t], times->time[t] / 1e-3);
    fputs("}", file);
}

static void write_devices(FILE *file, const gp_profile *profile) {
    fputs(",\n  \"devices\": [", file);
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        bool indexed = strcmp(device->kind, "cuda") == 0 && device->index != GP_PROFILE_ANY_INDEX;
        fprintf(file, "%s\n    {\"device\": \"%s", d ? "," : "", device->kind);
        if (indexed) fprintf(file, ":%d", device->index);
        fprintf(file, "\", \"threads\": %d, \"slowdown\": %.4g, ", device->threads, device->slowdown);
        if (device->spread > 0) fprintf(file, "\"spread\": %.4g, ", device->spread);
        fputs("\"layers\": [", file);
        for (int i = 0; i < profile->layer_count; i++) {
            if (i > 0) fputs(",", file);
            write_layer(file, profile->names[i], &device->layers[i]);
        }
        fputs("\n    ]}", file);
    }
}

static void write_copies(FILE *file, const gp_profile *profile) {
    fputs("\n  ],\n  \"copies\": [", file);
    for (int c = 0; c < profile->copy_count; c++) {
        const gp_profile_copy *copy = &profile->copies[c];
        fprintf(file, "%s\n    {\"from\": \"%s\", \"to\": \"%s\", \"latency\": %.6g, \"per_mib\": %.6g}", c ? "," : "",
                copy->from, copy->to, copy->latency / 1e-3, copy->per_byte / (1e-3 * 0x1p-20));
    }
    fputs("\n  ]", file);
}

static void write_links(FILE *file, const gp_profile *profile) {
    const char *before = ",\n  \"links\": {";
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        const gp_profile_link *link = &profile->links[k];
        if (!link->known) continue;
        fprintf(file, "%s\n    \"%s\": {\"latency\": %.6g, \"per_mib\": %.6g}", before,
                gp_link_kind_name((gp_link_kind)k), link->latency / 1e-3, link->per_byte / (1e-3 * 0x1p-20));
        before = ",";
    }
    if (gp_profile_has_links(profile)) fputs("\n  }", file);
}

gp_status gp_profile_text(const gp_profile *profile, char **out, gp_error *err) {
    gp_text_stream text;
    char when[GP_WHEN_TEXT];
    GP_RETURN_IF_FAILED(gp_text_begin(&text, "a profile", err));
    write_identity(text.file, &profile->identity);
    if (profile->taken > 0) fprintf(text.file, ",\n  \"taken\": \"%s\"", gp_when_text(when, profile->taken));
    write_devices(text.file, profile);
    write_copies(text.file, profile);
    write_links(text.file, profile);
    fputs("\n}\n", text.file);
    return gp_text_end(&text, GP_OK, out, err);
}

gp_status gp_profile_write(const gp_profile *profile, const char *path, gp_error *err) {
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_profile_text(profile, &text, err));
    gp_status status = gp_file_replace(path, text, err);
    free(text);
    return status;
}
