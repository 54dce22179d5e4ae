/* Profiles from files that people may have written: each message has a place. JSON is a subset of YAML. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_file.h"
#include "config/read.h"
#include "profile/profile_file.h"
#include "profile/when.h"

enum { MOST_BYTES = 8 << 20, MOST_THREADS = 1024 };
static const double most_milliseconds = 1e9; /* eleven days */
static const double least_per_mib = 1e-6;    /* milliseconds: what messages take divides */

/* A mapping, and its name in messages: "devices.0.layers.3". */
typedef struct object {
    const gp_yaml *node;
    char name[160];
} object;

/* "devices.0.threads" */
typedef struct label {
    char text[200];
} label;

static label name_key(const object *in, const char *key) {
    label out;
    snprintf(out.text, sizeof out.text, "%.150s%s%.30s", in->name, *in->name ? "." : "", key);
    return out;
}

/* `node`: the key's value. */
static gp_status refuse(const object *in, const char *key, const gp_yaml *node, const char *rule, gp_error *err) {
    return gp_fail_at(err, GP_DATA, node->place, "%s: must be %s", name_key(in, key).text, rule);
}

static gp_status refuse_missing(const object *in, const char *key, gp_error *err) {
    return gp_fail_at(err, GP_DATA, in->node->place, "%s%s\"%s\" is missing", in->name, *in->name ? ": " : "", key);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* A missing text is NULL. */
static gp_status read_text(const object *in, const char *key, char **out, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(in->node, key);
    if (!node) return GP_OK;
    if (node->kind != GP_YAML_SCALAR) return refuse(in, key, node, "a text", err);
    return gp_copy_text(out, node->text, err);
}

/* A missing number is `usual`; if that is below `low`, the number must be there. */
static gp_status read_integer(const object *in, const char *key, int64_t low, int64_t high, int64_t usual, int64_t *out,
                              gp_error *err) {
    const gp_yaml *node = gp_yaml_get(in->node, key);
    *out = usual;
    if (!node) return usual >= low ? GP_OK : refuse_missing(in, key, err);
    return gp_read_integer(node, name_key(in, key).text, low, high, out, err);
}

static gp_status read_number(const object *in, const char *key, double low, double high, double usual, double *out,
                             gp_error *err) {
    const gp_yaml *node = gp_yaml_get(in->node, key);
    *out = usual;
    return node ? gp_read_number(node, name_key(in, key).text, low, high, 0, out, err) : GP_OK;
}

/* Milliseconds; `usual` in seconds. */
static gp_status read_time(const object *in, const char *key, double usual, double *out, gp_error *err) {
    double milliseconds;
    GP_RETURN_IF_FAILED(read_number(in, key, 0, most_milliseconds, 0, &milliseconds, err));
    *out = gp_yaml_get(in->node, key) ? milliseconds * 1e-3 : usual;
    return GP_OK;
}

/* A list that is not empty. */
static gp_status find_list(const object *in, const char *key, const gp_yaml **out, gp_error *err) {
    *out = gp_yaml_get(in->node, key);
    if (!*out) return refuse_missing(in, key, err);
    if ((*out)->kind != GP_YAML_SEQUENCE || (*out)->count == 0)
        return refuse(in, key, *out, "a list that is not empty", err);
    return GP_OK;
}

/* An entry of a list, a mapping with some of the keys `known`. */
static gp_status find_entry(const object *in, const char *key, size_t index, const char *const *known, object *out,
                            gp_error *err) {
    out->node = gp_yaml_get(in->node, key)->items[index];
    snprintf(out->name, sizeof out->name, "%.90s%s%.30s.%zu", in->name, *in->name ? "." : "", key, index);
    GP_RETURN_IF_FAILED(gp_read_mapping(out->node, out->name, err));
    return gp_check_keys(out->node, out->name, known, NULL, err);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* A file written by hand may leave out: backward as two times, recompute if it is as forward, update. */
static gp_status read_times(const object *layer, double time[GP_PROFILE_TIMES], gp_error *err) {
    bool both = gp_yaml_get(layer->node, "backward"), input = gp_yaml_get(layer->node, "backward_input"),
         weight = gp_yaml_get(layer->node, "backward_weight");
    double backward;
    if (!gp_yaml_get(layer->node, "forward")) return refuse_missing(layer, "forward", err);
    if (both ? input || weight : !input || !weight)
        return gp_fail_at(err, GP_DATA, layer->node->place,
                          "%s: must have either \"backward\", or \"backward_input\" and \"backward_weight\"",
                          layer->name);
    GP_RETURN_IF_FAILED(read_time(layer, "backward", 0, &backward, err));
    for (int t = 0; t < GP_PROFILE_TIMES; t++) {
        bool halves = t == GP_PROFILE_TIME_BACKWARD_INPUT || t == GP_PROFILE_TIME_BACKWARD_WEIGHT;
        double usual = t == GP_PROFILE_TIME_RECOMPUTE ? time[GP_PROFILE_TIME_FORWARD] : halves ? backward / 2 : 0;
        GP_RETURN_IF_FAILED(read_time(layer, gp_profile_time_names[t], usual, &time[t], err));
    }
    return GP_OK;
}

static gp_status read_layer(const object *layer, gp_profile *profile, gp_profile_device *device, size_t index,
                            gp_error *err) {
    char *name = NULL, *before = profile->names[index];
    GP_RETURN_IF_FAILED(read_times(layer, device->layers[index].time, err));
    GP_RETURN_IF_FAILED(read_text(layer, "name", &name, err));
    if (!name) return GP_OK;
    profile->names[index] = name;
    gp_status status = GP_OK;
    if (before && strcmp(name, before) != 0)
        status = gp_fail_at(err, GP_DATA, layer->node->place, "%s: is \"%.80s\", but \"%.80s\" on the first device",
                            layer->name, name, before);
    free(before);
    return status;
}

static gp_status read_layers(const object *in, gp_profile *profile, gp_profile_device *device, gp_error *err) {
    static const char *const known[] = {"forward", "backward_input", "backward_weight", "recompute",
                                        "update",  "name",           "backward",        NULL};
    const gp_yaml *layers;
    object layer;
    GP_RETURN_IF_FAILED(find_list(in, "layers", &layers, err));
    if (!profile->names) GP_RETURN_IF_FAILED(GP_NEW(&profile->names, layers->count, err));
    if (profile->layer_count == 0) profile->layer_count = (int)layers->count;
    if ((int)layers->count != profile->layer_count)
        return gp_fail_at(err, GP_DATA, layers->place, "%s.layers: has %zu layers, but the first device has %d",
                          in->name, layers->count, profile->layer_count);
    GP_RETURN_IF_FAILED(GP_NEW(&device->layers, layers->count, err));
    for (size_t i = 0; i < layers->count; i++) {
        GP_RETURN_IF_FAILED(find_entry(in, "layers", i, known, &layer, err));
        GP_RETURN_IF_FAILED(read_layer(&layer, profile, device, i, err));
    }
    return GP_OK;
}

/* ---- devices and copies ------------------------------------------------------------------------------------------ */

/* "cpu", "host": `text` up to `length`. */
static bool read_kind(const char *text, size_t length, char out[16]) {
    if (length == 0 || length >= 16 || strspn(text, "abcdefghijklmnopqrstuvwxyz") < length) return false;
    snprintf(out, 16, "%.*s", (int)length, text);
    return true;
}

/* "cpu", "cuda" (any), "cuda:1" */
static gp_status read_device_name(const object *in, gp_profile_device *device, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(in->node, "device");
    int end = 0;
    if (!node) return refuse_missing(in, "device", err);
    const char *text = node->kind == GP_YAML_SCALAR ? node->text : "";
    size_t length = strcspn(text, ":");
    device->index = GP_PROFILE_ANY_INDEX;
    bool numbered =
        text[length] && sscanf(text + length, ":%4d%n", &device->index, &end) == 1 && !text[length + (size_t)end];
    if (!read_kind(text, length, device->kind) ||
        (text[length] && !(numbered && device->index >= 0 && strcmp(device->kind, "cpu") != 0)))
        return refuse(in, "device", node, "cpu, cuda, cuda:0, …", err);
    return GP_OK;
}

static gp_status read_device(const object *in, gp_profile *profile, gp_error *err) {
    gp_profile_device *device = &profile->devices[profile->device_count++];
    int64_t threads;
    GP_RETURN_IF_FAILED(read_device_name(in, device, err));
    GP_RETURN_IF_FAILED(read_integer(in, "threads", 1, MOST_THREADS, 1, &threads, err));
    GP_RETURN_IF_FAILED(read_number(in, "slowdown", 0.01, 1000, 1, &device->slowdown, err));
    GP_RETURN_IF_FAILED(read_number(in, "spread", 0, 1000, 0, &device->spread, err));
    device->threads = (int)threads;
    for (int d = 0; d < profile->device_count - 1; d++) {
        const gp_profile_device *other = &profile->devices[d];
        if (strcmp(other->kind, device->kind) == 0 && other->index == device->index &&
            other->threads == device->threads)
            return gp_fail_at(err, GP_DATA, in->node->place, "%s: is the same device as the one at index %d", in->name,
                              d);
    }
    return read_layers(in, profile, device, err);
}

static gp_status read_devices(const object *root, gp_profile *profile, gp_error *err) {
    static const char *const known[] = {"device", "threads", "slowdown", "spread", "layers", NULL};
    const gp_yaml *devices;
    object device;
    GP_RETURN_IF_FAILED(find_list(root, "devices", &devices, err));
    if (devices->count > GP_PROFILE_MAX_DEVICES)
        return gp_fail_at(err, GP_DATA, devices->place, "devices: has %zu devices; at most %d are allowed",
                          devices->count, (int)GP_PROFILE_MAX_DEVICES);
    GP_RETURN_IF_FAILED(GP_NEW(&profile->devices, devices->count, err));
    for (size_t d = 0; d < devices->count; d++) {
        GP_RETURN_IF_FAILED(find_entry(root, "devices", d, known, &device, err));
        GP_RETURN_IF_FAILED(read_device(&device, profile, err));
    }
    return GP_OK;
}

static gp_status read_end(const object *copy, const char *key, char out[16], gp_error *err) {
    const gp_yaml *node = gp_yaml_get(copy->node, key);
    if (!node) return refuse_missing(copy, key, err);
    bool known = node->kind == GP_YAML_SCALAR && read_kind(node->text, strlen(node->text), out);
    return known ? GP_OK : refuse(copy, key, node, "a kind of device: cpu, cuda or host", err);
}

static gp_status read_copies(const object *root, gp_profile *profile, gp_error *err) {
    static const char *const known[] = {"from", "to", "latency", "per_mib", NULL};
    const gp_yaml *copies = gp_yaml_get(root->node, "copies");
    if (!copies) return GP_OK;
    if (copies->kind != GP_YAML_SEQUENCE) return refuse(root, "copies", copies, "a list", err);
    GP_RETURN_IF_FAILED(GP_NEW(&profile->copies, copies->count, err));
    for (size_t c = 0; c < copies->count; c++) {
        gp_profile_copy *copy = &profile->copies[profile->copy_count++];
        object its;
        double per_mib;
        GP_RETURN_IF_FAILED(find_entry(root, "copies", c, known, &its, err));
        GP_RETURN_IF_FAILED(read_end(&its, "from", copy->from, err));
        GP_RETURN_IF_FAILED(read_end(&its, "to", copy->to, err));
        GP_RETURN_IF_FAILED(read_time(&its, "latency", 0, &copy->latency, err));
        if (!gp_yaml_get(its.node, "per_mib")) return refuse_missing(&its, "per_mib", err);
        GP_RETURN_IF_FAILED(read_time(&its, "per_mib", 0, &per_mib, err));
        copy->per_byte = per_mib * 0x1p-20;
    }
    return GP_OK;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static gp_status read_link(const object *links, gp_link_kind kind, gp_profile_link *out, gp_error *err) {
    static const char *const known[] = {"latency", "per_mib", NULL};
    const char *key = gp_link_kind_name(kind);
    object its = {.node = gp_yaml_get(links->node, key)};
    double per_mib;
    if (!its.node) return GP_OK;
    snprintf(its.name, sizeof its.name, "%.90s.%.30s", links->name, key);
    GP_RETURN_IF_FAILED(gp_read_mapping(its.node, its.name, err));
    GP_RETURN_IF_FAILED(gp_check_keys(its.node, its.name, known, NULL, err));
    GP_RETURN_IF_FAILED(read_time(&its, "latency", 0, &out->latency, err));
    if (!gp_yaml_get(its.node, "per_mib")) return refuse_missing(&its, "per_mib", err);
    GP_RETURN_IF_FAILED(read_number(&its, "per_mib", least_per_mib, most_milliseconds, 0, &per_mib, err));
    out->per_byte = per_mib * (1e-3 * 0x1p-20);
    out->known = true;
    return GP_OK;
}

static gp_status read_links(const object *root, gp_profile *profile, gp_error *err) {
    static const char *const known[] = {"host", "network", NULL};
    const object links = {.node = gp_yaml_get(root->node, "links"), .name = "links"};
    if (!links.node) return GP_OK;
    GP_RETURN_IF_FAILED(gp_read_mapping(links.node, links.name, err));
    GP_RETURN_IF_FAILED(gp_check_keys(links.node, links.name, known, NULL, err));
    GP_RETURN_IF_FAILED(read_link(&links, GP_LINK_HOST, &profile->links[GP_LINK_HOST], err));
    return read_link(&links, GP_LINK_NETWORK, &profile->links[GP_LINK_NETWORK], err);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static gp_status check_format(const object *root, gp_error *err) {
    int64_t format = 0;
    const gp_yaml *node = gp_yaml_get(root->node, "gpipe_profile");
    GP_RETURN_IF_FAILED(read_integer(root, "gpipe_profile", 1, INT64_MAX, 0, &format, err));
    if (format == GP_PROFILE_FORMAT) return GP_OK;
    return gp_fail_at(err, GP_DATA, node->place,
                      "gpipe_profile: is %" PRId64 ", a format of %s version; this version reads format %d", format,
                      format < GP_PROFILE_FORMAT ? "an earlier" : "a later", (int)GP_PROFILE_FORMAT);
}

static gp_status read_identity(const object *root, gp_profile_identity *identity, gp_error *err) {
    char *model = NULL;
    for (int t = 0; t < GP_PROFILE_TEXTS; t++)
        GP_RETURN_IF_FAILED(read_text(root, gp_profile_text_names[t], &identity->text[t], err));
    GP_RETURN_IF_FAILED(read_text(root, "model", &model, err));
    bool valid = !model || (strlen(model) == 16 && strspn(model, "0123456789abcdef") == 16);
    identity->model = model && valid ? strtoull(model, NULL, 16) : 0;
    free(model);
    const gp_yaml *node = gp_yaml_get(root->node, "model");
    if (node && !valid) return refuse(root, "model", node, "16 hexadecimal digits", err);
    GP_RETURN_IF_FAILED(read_integer(root, "micro_batch", 1, INT64_C(1) << 40, 0, &identity->samples, err));
    return read_integer(root, "together", 0, GP_PROFILE_MAX_DEVICES, 0, &identity->together, err);
}

static gp_status read_root(const object *root, gp_profile *profile, gp_error *err) {
    static const char *const known[] = {"gpipe_profile", "machine",   "libraries", "program",
                                        "precision",     "optimizer", "model",     "micro_batch",
                                        "together",      "taken",     "load", /* of earlier versions; ignored */
                                        "devices",       "copies",    "links",     NULL};
    if (!gp_yaml_get(root->node, "gpipe_profile"))
        return gp_fail_at(err, GP_DATA, (gp_place){profile->path, 1, 1}, "not a profile: \"gpipe_profile\" is missing");
    GP_RETURN_IF_FAILED(check_format(root, err));
    GP_RETURN_IF_FAILED(gp_check_keys(root->node, "profile", known, NULL, err));
    GP_RETURN_IF_FAILED(read_identity(root, &profile->identity, err));
    const gp_yaml *taken = gp_yaml_get(root->node, "taken");
    if (taken && (taken->kind != GP_YAML_SCALAR || !gp_when_parse(taken->text, &profile->taken)))
        return refuse(root, "taken", taken, "a time such as \"2026-11-22T19:02:44Z\"", err);
    GP_RETURN_IF_FAILED(read_devices(root, profile, err));
    GP_RETURN_IF_FAILED(read_copies(root, profile, err));
    return read_links(root, profile, err);
}

/* The readers of the configuration fail with GP_CONFIG, and may list several mistakes. A file of data has one sentence.
 */
static gp_status as_data(gp_status status, gp_error *err) {
    if (status != GP_CONFIG) return status;
    err->text[strcspn(err->text, "\n")] = '\0';
    err->lines = err->unsaid = 0;
    return err->status = GP_DATA;
}

gp_status gp_profile_parse(const char *text, size_t bytes, const char *path, gp_profile **out, gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_profile *profile = NULL;
    gp_status status = gp_yaml_parse(text, bytes, path, &document, err);
    if (status == GP_OK) status = GP_NEW(&profile, 1, err);
    if (status == GP_OK) status = gp_copy_text(&profile->path, path, err);
    if (status == GP_OK) status = read_root(&(object){.node = gp_yaml_root(document)}, profile, err);
    gp_yaml_destroy(&document);
    if (status == GP_OK)
        *out = profile;
    else
        gp_profile_destroy(&profile);
    return as_data(status, err);
}

gp_status gp_profile_read(const char *path, gp_profile **out, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    gp_status status = gp_text_file_read(path, MOST_BYTES, "a profile", &text, &bytes, err);
    if (status == GP_OK) status = gp_profile_parse(text, bytes, path, out, err);
    free(text);
    return as_data(status, err);
}
