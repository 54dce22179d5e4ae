#include "profile/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const char *const gp_profile_time_names[GP_PROFILE_TIMES] = {"forward", "backward_input", "backward_weight",
                                                             "recompute", "update"};
const char *const gp_profile_text_names[GP_PROFILE_TEXTS] = {"machine", "libraries", "program", "precision",
                                                             "optimizer"};

void gp_profile_identity_fini(gp_profile_identity *identity) {
    for (int t = 0; t < GP_PROFILE_TEXTS; t++) free(identity->text[t]);
    *identity = (gp_profile_identity){0};
}

static gp_status make_row(const gp_device_spec *spec, int layers, gp_profile_device *row, gp_error *err) {
    snprintf(row->kind, sizeof row->kind, "%s", spec->kind->name);
    row->index = spec->index;
    row->threads = spec->kind->on_host ? spec->threads : 1;
    row->slowdown = 1;
    row->rates = gp_rates_assumed(row->threads);
    return layers > 0 ? GP_NEW(&row->layers, layers, err) : GP_OK;
}

static gp_status fill(gp_profile *profile, const gp_graph *graph, const gp_device_spec *devices, int count,
                      gp_error *err) {
    int layers = graph ? graph->layer_count : 0;
    profile->layer_count = layers;
    GP_RETURN_IF_FAILED(GP_NEW(&profile->names, layers, err));
    for (int i = 0; i < layers; i++)
        GP_RETURN_IF_FAILED(gp_copy_text(&profile->names[i], gp_layer_name(graph, i), err));
    GP_RETURN_IF_FAILED(GP_NEW(&profile->devices, count, err));
    for (int d = 0; d < count; d++)
        GP_RETURN_IF_FAILED(make_row(&devices[d], layers, &profile->devices[profile->device_count++], err));
    return GP_OK;
}

gp_status gp_profile_create(gp_profile_identity *identity, const gp_graph *graph, const gp_device_spec *devices,
                            int count, gp_profile **out, gp_error *err) {
    gp_profile *profile = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&profile, 1, err));
    gp_status status = fill(profile, graph, devices, count, err);
    if (status != GP_OK) {
        gp_profile_destroy(&profile);
        return status;
    }
    if (identity) {
        profile->identity = *identity;
        *identity = (gp_profile_identity){0};
    }
    *out = profile;
    return GP_OK;
}

gp_status gp_profile_create_counted(const gp_device_spec *devices, int count, gp_profile **out, gp_error *err) {
    return gp_profile_create(NULL, NULL, devices, count, out, err);
}

gp_rates gp_profile_rates(const gp_profile *profile, const gp_device_spec *spec) {
    const gp_profile_device *row = profile ? gp_profile_find(profile, spec) : NULL;
    return row && !row->layers ? row->rates : gp_rates_assumed(spec->threads);
}

gp_rates gp_profile_choosing_rates(const gp_profile *profile, const gp_device_spec *spec) {
    const gp_rates rates = gp_profile_rates(profile, spec);
    return rates.brief ? gp_rates_assumed(spec->threads) : rates;
}

bool gp_profile_is_counted(const gp_profile *profile) {
    return !profile || profile->layer_count == 0;
}

void gp_profile_destroy(gp_profile **profile) {
    gp_profile *it = *profile;
    if (!it) return;
    gp_profile_identity_fini(&it->identity);
    for (int i = 0; it->names && i < it->layer_count; i++) free(it->names[i]);
    for (int d = 0; d < it->device_count; d++) free(it->devices[d].layers);
    free(it->names);
    free(it->devices);
    free(it->copies);
    free(it->path);
    free(it);
    *profile = NULL;
}

static bool same_device(const gp_profile_device *row, const gp_device_spec *spec) {
    return strcmp(row->kind, spec->kind->name) == 0 && (!spec->kind->on_host || row->threads == spec->threads);
}

const gp_profile_device *gp_profile_find(const gp_profile *profile, const gp_device_spec *spec) {
    const gp_profile_device *any = NULL;
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *row = &profile->devices[d];
        if (!same_device(row, spec)) continue;
        if (row->index == spec->index) return row;
        if (row->index == GP_PROFILE_ANY_INDEX) any = row;
    }
    return any;
}

const gp_profile_copy *gp_profile_find_copy(const gp_profile *profile, const char *from, const char *to) {
    for (int c = 0; c < profile->copy_count; c++)
        if (strcmp(profile->copies[c].from, from) == 0 && strcmp(profile->copies[c].to, to) == 0)
            return &profile->copies[c];
    return NULL;
}

bool gp_profile_has_links(const gp_profile *profile) {
    bool any = false;
    for (int k = 0; k < GP_LINK_KINDS; k++) any = any || profile->links[k].known;
    return any;
}

const char *gp_layer_name(const gp_graph *graph, int layer) {
    return graph->nodes[layer > 0 ? graph->unit_end[layer - 1] : 0].name;
}

const char *gp_device_text(char buffer[48], const char *kind, int index, int threads) {
    if (strcmp(kind, "cuda") == 0 && index != GP_PROFILE_ANY_INDEX)
        snprintf(buffer, 48, "%s:%d", kind, index);
    else if (threads > 1)
        snprintf(buffer, 48, "%s, %d threads", kind, threads);
    else
        snprintf(buffer, 48, "%s", kind);
    return buffer;
}

int gp_profile_distinct(const gp_device_spec *devices, int count, gp_device_spec *out) {
    int distinct = 0;
    for (int d = 0; d < count; d++) {
        int i = 0;
        while (i < distinct && !(out[i].kind == devices[d].kind && out[i].index == devices[d].index &&
                                 out[i].threads == devices[d].threads))
            i++;
        if (i == distinct) out[distinct++] = devices[d];
    }
    return distinct;
}

static gp_status check_layers(const gp_profile *profile, const gp_graph *graph, gp_error *err) {
    if (profile->layer_count != graph->layer_count)
        return gp_fail(err, GP_DATA, "%s: the profile has %d layer%s, but the model has %d", profile->path,
                       profile->layer_count, profile->layer_count == 1 ? "" : "s", graph->layer_count);
    for (int i = 0; i < graph->layer_count; i++)
        if (profile->names[i] && strcmp(profile->names[i], gp_layer_name(graph, i)) != 0)
            return gp_fail(err, GP_DATA,
                           "%s: the profile is of another model: its layer %d is \"%s\", but the model's is \"%s\"",
                           profile->path, i, profile->names[i], gp_layer_name(graph, i));
    return GP_OK;
}

static gp_status refuse_device(const gp_profile *profile, const gp_device_spec *spec, gp_error *err) {
    char text[48], has[48];
    const gp_profile_device *row = &profile->devices[0];
    return gp_fail(err, GP_DATA, "%s: the profile has no times for device %s, only for %s%s", profile->path,
                   gp_device_text(text, spec->kind->name, spec->index, spec->threads),
                   gp_device_text(has, row->kind, row->index, row->threads),
                   profile->device_count > 1 ? " and others" : "");
}

bool gp_profile_has_devices(const gp_profile *profile, const gp_device_spec *devices, int count) {
    for (int d = 0; d < count; d++)
        if (!gp_profile_find(profile, &devices[d])) return false;
    return true;
}

gp_status gp_profile_check(const gp_profile *profile, const gp_graph *graph, const gp_profile_identity *now,
                           const gp_device_spec *devices, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(check_layers(profile, graph, err));
    if (profile->identity.model && profile->identity.model != now->model)
        return gp_fail(
            err, GP_DATA,
            "%s: the profile is of another model: its layers have the same names, but other options or shapes",
            profile->path);
    for (int d = 0; d < count; d++)
        if (!gp_profile_find(profile, &devices[d])) return refuse_device(profile, &devices[d], err);
    return GP_OK;
}
