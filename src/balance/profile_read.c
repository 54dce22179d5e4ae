/* Profiles from JSON that anybody wrote: every sentence says where. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "balance/json_place.h"
#include "balance/profile.h"
#include "balance/when.h"
#include "base/memory.h"

enum { MOST_BYTES = 8 << 20, MOST_STEPS = 8, MOST_THREADS = 1024, MOST_LOAD = 1 << 20 };
static const double most_milliseconds = 1e9; /* eleven days */

/* A value, and the way to it. */
typedef struct reader {
    const char *text, *path;
    size_t bytes;
    gp_json_step steps[MOST_STEPS];
    size_t step_count;
} reader;

static void enter(reader *r, const char *key, size_t index) {
    r->steps[r->step_count++] = (gp_json_step){key, index};
}

static void leave(reader *r) {
    r->step_count--;
}

/* "devices.0.layers.3.forward" */
static const char *name_steps(const reader *r, char buffer[160]) {
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t s = 0; s < r->step_count; s++) {
        const char *dot = s ? "." : "";
        int wrote = r->steps[s].key ? snprintf(buffer + used, 160 - used, "%s%s", dot, r->steps[s].key)
                                    : snprintf(buffer + used, 160 - used, "%s%zu", dot, r->steps[s].index);
        if (wrote > 0) used += (size_t)wrote < 160 - used ? (size_t)wrote : 159 - used;
    }
    return buffer;
}

static GP_PRINTF(3, 4) gp_status refuse(const reader *r, gp_error *err, const char *format, ...) {
    char name[160], what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    gp_place place = gp_json_place(r->text, r->bytes, r->path, r->steps, r->step_count);
    name_steps(r, name);
    return gp_fail_at(err, GP_DATA, place, "%s%s%s", name, *name ? ": " : "", what);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static const char *kind_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a text";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a truth value";
    case JSON_NULL: break;
    }
    return "null";
}

/* Keys that are none of `known` are somebody's mistake, and would be lost. */
static gp_status check_keys(reader *r, json_t *object, const char *const *known, gp_error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return refuse(r, err, "must be an object, not %s", kind_of(object));
    json_object_foreach(object, key, value) {
        size_t k = 0;
        while (known[k] && strcmp(known[k], key) != 0) k++;
        if (known[k]) continue;
        enter(r, key, 0);
        return refuse(r, err, "unknown key");
    }
    return GP_OK;
}

/* A missing text is NULL. */
static gp_status read_text(reader *r, json_t *object, const char *key, char **out, gp_error *err) {
    json_t *value = json_object_get(object, key);
    if (!value) return GP_OK;
    enter(r, key, 0);
    if (!json_is_string(value)) return refuse(r, err, "must be a text, not %s", kind_of(value));
    if (strlen(json_string_value(value)) > 1000) return refuse(r, err, "must be a text of at most 1000 bytes");
    leave(r);
    return gp_copy_text(out, json_string_value(value), err);
}

static gp_status read_integer(reader *r, json_t *object, const char *key, int64_t low, int64_t high, int64_t usual,
                              int64_t *out, gp_error *err) {
    json_t *value = json_object_get(object, key);
    *out = usual;
    if (!value && usual >= low) return GP_OK;
    if (!value) return refuse(r, err, "\"%s\" is missing", key);
    enter(r, key, 0);
    if (!json_is_integer(value)) return refuse(r, err, "must be an integer, not %s", kind_of(value));
    *out = json_integer_value(value);
    if (*out < low || *out > high)
        return refuse(r, err, "must be from %" PRId64 " to %" PRId64 ", not %" PRId64, low, high, *out);
    leave(r);
    return GP_OK;
}

static gp_status check_milliseconds(reader *r, const json_t *value, double *seconds, gp_error *err) {
    if (!json_is_number(value)) return refuse(r, err, "must be a number of milliseconds, not %s", kind_of(value));
    double milliseconds = json_number_value(value);
    if (!(milliseconds >= 0 && milliseconds <= most_milliseconds))
        return refuse(r, err, "must be from 0 to %g milliseconds, not %g", most_milliseconds, milliseconds);
    *seconds = milliseconds * 1e-3;
    return GP_OK;
}

/* A number, or [median, low, high]. */
static gp_status read_estimate(reader *r, const json_t *value, gp_estimate *out, gp_error *err) {
    double *into[3] = {&out->median, &out->low, &out->high};
    if (!json_is_array(value)) {
        GP_RETURN_IF_FAILED(check_milliseconds(r, value, &out->median, err));
        out->low = out->high = out->median;
        return GP_OK;
    }
    if (json_array_size(value) != 3)
        return refuse(r, err, "must be a number or [median, low, high], not a list of %zu", json_array_size(value));
    for (size_t i = 0; i < 3; i++) {
        enter(r, NULL, i);
        GP_RETURN_IF_FAILED(check_milliseconds(r, json_array_get(value, i), into[i], err));
        leave(r);
    }
    if (!(out->low <= out->median && out->median <= out->high))
        return refuse(r, err, "the median %g must be between low, %g, and high, %g", out->median * 1e3, out->low * 1e3,
                      out->high * 1e3);
    return GP_OK;
}

static gp_status find_estimate(reader *r, json_t *object, const char *key, bool *there, gp_estimate *out,
                               gp_error *err) {
    json_t *value = json_object_get(object, key);
    *there = value != NULL;
    if (!value) return GP_OK;
    enter(r, key, 0);
    GP_RETURN_IF_FAILED(read_estimate(r, value, out, err));
    leave(r);
    return GP_OK;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static gp_estimate half_of(gp_estimate whole) {
    return (gp_estimate){whole.median / 2, whole.low / 2, whole.high / 2};
}

/* What a file written by hand leaves out: backward as one time, recompute as forward, no update. */
static gp_status read_times(reader *r, json_t *layer, gp_layer_times *out, gp_error *err) {
    bool there[GP_PROFILE_TIMES], both;
    gp_estimate backward = {0};
    for (int t = 0; t < GP_PROFILE_TIMES; t++)
        GP_RETURN_IF_FAILED(
            find_estimate(r, layer, gp_profile_time_name((gp_profile_time)t), &there[t], &out->time[t], err));
    GP_RETURN_IF_FAILED(find_estimate(r, layer, "backward", &both, &backward, err));
    if (!there[GP_PROFILE_TIME_FORWARD]) return refuse(r, err, "\"forward\" is missing");
    if (both && (there[GP_PROFILE_TIME_BACKWARD_INPUT] || there[GP_PROFILE_TIME_BACKWARD_WEIGHT]))
        return refuse(r, err, "must have either \"backward\", or \"backward_input\" and \"backward_weight\"; not both");
    if (!both && !(there[GP_PROFILE_TIME_BACKWARD_INPUT] && there[GP_PROFILE_TIME_BACKWARD_WEIGHT]))
        return refuse(r, err, "must have \"backward\", or \"backward_input\" and \"backward_weight\"");
    if (both)
        out->time[GP_PROFILE_TIME_BACKWARD_INPUT] = out->time[GP_PROFILE_TIME_BACKWARD_WEIGHT] = half_of(backward);
    if (!there[GP_PROFILE_TIME_RECOMPUTE]) out->time[GP_PROFILE_TIME_RECOMPUTE] = out->time[GP_PROFILE_TIME_FORWARD];
    return GP_OK;
}

static gp_status read_layer(reader *r, gp_profile *profile, gp_profile_device *device, int layer, json_t *value,
                            gp_error *err) {
    static const char *const known[] = {
#define KNOWN_TIME(suffix, name) name,
        GP_PROFILE_TIME_MAP(KNOWN_TIME)
#undef KNOWN_TIME
            "name",
        "backward", NULL};
    char *name = NULL;
    GP_RETURN_IF_FAILED(check_keys(r, value, known, err));
    GP_RETURN_IF_FAILED(read_times(r, value, &device->layers[layer], err));
    GP_RETURN_IF_FAILED(read_text(r, value, "name", &name, err));
    if (name && profile->names[layer] && strcmp(name, profile->names[layer]) != 0) {
        gp_status status =
            refuse(r, err, "is \"%.80s\", but \"%.80s\" on the first device", name, profile->names[layer]);
        free(name);
        return status;
    }
    if (name) free(profile->names[layer]);
    if (name) profile->names[layer] = name;
    return GP_OK;
}

static gp_status read_layers(reader *r, gp_profile *profile, gp_profile_device *device, json_t *object, gp_error *err) {
    json_t *layers = json_object_get(object, "layers");
    if (!layers) return refuse(r, err, "\"layers\" is missing");
    enter(r, "layers", 0);
    if (!json_is_array(layers)) return refuse(r, err, "must be a list, not %s", kind_of(layers));
    size_t count = json_array_size(layers);
    if (count == 0) return refuse(r, err, "the list is empty");
    if (!profile->names) {
        profile->layer_count = (int)count;
        GP_RETURN_IF_FAILED(GP_NEW(&profile->names, count, err));
    }
    if ((int)count != profile->layer_count)
        return refuse(r, err, "has %zu layers, but the first device has %d", count, profile->layer_count);
    GP_RETURN_IF_FAILED(GP_NEW(&device->layers, count, err));
    for (size_t i = 0; i < count; i++) {
        enter(r, NULL, i);
        GP_RETURN_IF_FAILED(read_layer(r, profile, device, (int)i, json_array_get(layers, i), err));
        leave(r);
    }
    leave(r);
    return GP_OK;
}

/* ---- devices and copies ------------------------------------------------------------------------------------------ */

static bool is_kind(const char *text, size_t length) {
    return length > 0 && length < sizeof((gp_profile_device *)0)->kind &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz") == length;
}

/* "cpu", "cuda" (any), "cuda:1" */
static gp_status read_device_name(reader *r, json_t *object, gp_profile_device *device, gp_error *err) {
    const json_t *value = json_object_get(object, "device");
    int end = 0;
    if (!value) return refuse(r, err, "\"device\" is missing");
    enter(r, "device", 0);
    const char *text = json_string_value(value);
    size_t length = text ? strcspn(text, ":") : 0;
    if (!text) return refuse(r, err, "must be cpu, cuda, cuda:0, …, not %s", kind_of(value));
    snprintf(device->kind, sizeof device->kind, "%.*s", (int)length, text);
    device->index = GP_PROFILE_ANY_INDEX;
    bool numbered =
        text[length] && sscanf(text + length, ":%4d%n", &device->index, &end) == 1 && !text[length + (size_t)end];
    if (!is_kind(device->kind, length) ||
        (text[length] && !(numbered && device->index >= 0 && strcmp(device->kind, "cpu") != 0)))
        return refuse(r, err, "must be cpu, cuda, cuda:0, …, not \"%.60s\"", text);
    leave(r);
    return GP_OK;
}

static gp_status read_slowdown(reader *r, json_t *object, double *out, bool *missing, gp_error *err) {
    const json_t *value = json_object_get(object, "slowdown");
    *out = 1;
    *missing = !value;
    if (!value) return GP_OK;
    enter(r, "slowdown", 0);
    *out = json_number_value(value);
    if (!(*out >= 0.01 && *out <= 1000)) return refuse(r, err, "must be a number from 0.01 to 1000");
    leave(r);
    return GP_OK;
}

static gp_status read_device(reader *r, gp_profile *profile, json_t *value, gp_error *err) {
    static const char *const known[] = {"device", "threads", "slowdown", "layers", NULL};
    gp_profile_device *device = &profile->devices[profile->device_count++];
    int64_t threads;
    GP_RETURN_IF_FAILED(check_keys(r, value, known, err));
    GP_RETURN_IF_FAILED(read_device_name(r, value, device, err));
    GP_RETURN_IF_FAILED(read_integer(r, value, "threads", 1, MOST_THREADS, 1, &threads, err));
    device->threads = (int)threads;
    GP_RETURN_IF_FAILED(read_slowdown(r, value, &device->slowdown, &device->hurried, err));
    for (int d = 0; d < profile->device_count - 1; d++) {
        const gp_profile_device *other = &profile->devices[d];
        if (strcmp(other->kind, device->kind) == 0 && other->index == device->index &&
            other->threads == device->threads)
            return refuse(r, err, "is the same device as the one at index %d", d);
    }
    return read_layers(r, profile, device, value, err);
}

static gp_status read_devices(reader *r, gp_profile *profile, json_t *root, gp_error *err) {
    json_t *devices = json_object_get(root, "devices");
    if (!devices) return refuse(r, err, "\"devices\" is missing");
    enter(r, "devices", 0);
    if (!json_is_array(devices)) return refuse(r, err, "must be a list, not %s", kind_of(devices));
    size_t count = json_array_size(devices);
    if (count == 0 || count > GP_PROFILE_MAX_DEVICES)
        return refuse(r, err, "must have 1 to %d devices, not %zu", (int)GP_PROFILE_MAX_DEVICES, count);
    GP_RETURN_IF_FAILED(GP_NEW(&profile->devices, count, err));
    for (size_t d = 0; d < count; d++) {
        enter(r, NULL, d);
        GP_RETURN_IF_FAILED(read_device(r, profile, json_array_get(devices, d), err));
        leave(r);
    }
    leave(r);
    return GP_OK;
}

static gp_status read_end(reader *r, json_t *object, const char *key, char out[16], gp_error *err) {
    const json_t *value = json_object_get(object, key);
    if (!value) return refuse(r, err, "\"%s\" is missing", key);
    enter(r, key, 0);
    const char *text = json_string_value(value);
    if (!text || !is_kind(text, strlen(text))) return refuse(r, err, "must be a kind of device: cpu, cuda or host");
    snprintf(out, 16, "%s", text);
    leave(r);
    return GP_OK;
}

static gp_status read_copy(reader *r, gp_profile *profile, json_t *value, gp_error *err) {
    static const char *const known[] = {"from", "to", "latency", "per_mib", NULL};
    gp_profile_copy *copy = &profile->copies[profile->copy_count++];
    gp_estimate latency = {0}, per_mib = {0};
    bool there;
    GP_RETURN_IF_FAILED(check_keys(r, value, known, err));
    GP_RETURN_IF_FAILED(read_end(r, value, "from", copy->from, err));
    GP_RETURN_IF_FAILED(read_end(r, value, "to", copy->to, err));
    GP_RETURN_IF_FAILED(find_estimate(r, value, "latency", &there, &latency, err));
    GP_RETURN_IF_FAILED(find_estimate(r, value, "per_mib", &there, &per_mib, err));
    if (!there) return refuse(r, err, "\"per_mib\" is missing");
    copy->latency = latency.median;
    copy->per_byte = per_mib.median * 0x1p-20;
    return GP_OK;
}

static gp_status read_copies(reader *r, gp_profile *profile, json_t *root, gp_error *err) {
    json_t *copies = json_object_get(root, "copies");
    if (!copies) return GP_OK;
    enter(r, "copies", 0);
    if (!json_is_array(copies)) return refuse(r, err, "must be a list, not %s", kind_of(copies));
    GP_RETURN_IF_FAILED(GP_NEW(&profile->copies, json_array_size(copies), err));
    for (size_t c = 0; c < json_array_size(copies); c++) {
        enter(r, NULL, c);
        GP_RETURN_IF_FAILED(read_copy(r, profile, json_array_get(copies, c), err));
        leave(r);
    }
    leave(r);
    return GP_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static gp_status read_model(reader *r, json_t *root, gp_profile_identity *identity, gp_error *err) {
    const json_t *value = json_object_get(root, "model");
    if (!value) return GP_OK;
    enter(r, "model", 0);
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return refuse(r, err, "must be 16 hexadecimal digits");
    identity->model = strtoull(text, NULL, 16);
    leave(r);
    return GP_OK;
}

static gp_status read_taking(reader *r, json_t *root, gp_profile *profile, gp_error *err) {
    const json_t *taken = json_object_get(root, "taken"), *load = json_object_get(root, "load");
    if (taken) {
        enter(r, "taken", 0);
        if (!json_is_string(taken) || !gp_when_parse(json_string_value(taken), &profile->taken))
            return refuse(r, err, "must be a time such as \"2026-11-22T19:02:44Z\"");
        leave(r);
    }
    profile->load = -1;
    if (!load) return GP_OK;
    enter(r, "load", 0);
    profile->load = json_number_value(load);
    if (!json_is_number(load) || !(profile->load >= 0 && profile->load <= MOST_LOAD))
        return refuse(r, err, "must be a number of processors, from 0 to %d", (int)MOST_LOAD);
    leave(r);
    return GP_OK;
}

static gp_status read_root(reader *r, gp_profile *profile, json_t *root, gp_error *err) {
    static const char *const known[] = {"gpipe_profile", "program", "machine",     "libraries", "precision",
                                        "optimizer",     "model",   "micro_batch", "together",  "taken",
                                        "load",          "devices", "copies",      NULL};
    gp_profile_identity *identity = &profile->identity;
    int64_t format;
    if (!json_is_object(root)) return refuse(r, err, "must be an object, not %s", kind_of(root));
    if (!json_object_get(root, "gpipe_profile")) return refuse(r, err, "not a profile: \"gpipe_profile\" is missing");
    GP_RETURN_IF_FAILED(read_integer(r, root, "gpipe_profile", 1, INT64_MAX, 0, &format, err));
    if (format != 1) {
        enter(r, "gpipe_profile", 0);
        return refuse(r, err, "is %" PRId64 ", a format of a later version; this version reads format 1", format);
    }
    GP_RETURN_IF_FAILED(check_keys(r, root, known, err));
    GP_RETURN_IF_FAILED(read_text(r, root, "program", &identity->program, err));
    GP_RETURN_IF_FAILED(read_text(r, root, "machine", &identity->machine, err));
    GP_RETURN_IF_FAILED(read_text(r, root, "libraries", &identity->libraries, err));
    GP_RETURN_IF_FAILED(read_text(r, root, "precision", &identity->precision, err));
    GP_RETURN_IF_FAILED(read_text(r, root, "optimizer", &identity->optimizer, err));
    GP_RETURN_IF_FAILED(read_model(r, root, identity, err));
    GP_RETURN_IF_FAILED(read_integer(r, root, "micro_batch", 1, INT64_C(1) << 40, 0, &identity->samples, err));
    GP_RETURN_IF_FAILED(read_integer(r, root, "together", 0, GP_PROFILE_MAX_DEVICES, 0, &identity->together, err));
    GP_RETURN_IF_FAILED(read_taking(r, root, profile, err));
    GP_RETURN_IF_FAILED(read_devices(r, profile, root, err));
    return read_copies(r, profile, root, err);
}

gp_status gp_profile_parse(const char *text, size_t bytes, const char *path, gp_profile **out, gp_error *err) {
    reader r = {.text = text, .path = path, .bytes = bytes};
    json_error_t wrong;
    gp_profile *profile = NULL;
    errno = 0;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &wrong);
    /* Where memory is short, jansson may call the text wrong. */
    if (!root && errno == ENOMEM) return gp_fail(err, GP_MEMORY, "out of memory: the profile %s", path);
    if (!root)
        return gp_fail_at(err, GP_DATA,
                          (gp_place){path, wrong.line > 0 ? wrong.line : 1, wrong.column > 0 ? wrong.column : 1},
                          "not valid JSON: %s", wrong.text);
    gp_status status = GP_NEW(&profile, 1, err);
    if (status == GP_OK) status = gp_copy_text(&profile->path, path, err);
    if (status == GP_OK) status = read_root(&r, profile, root, err);
    json_decref(root);
    if (status != GP_OK)
        gp_profile_destroy(&profile);
    else
        *out = profile;
    return status;
}

static gp_status read_stream(FILE *file, const char *path, size_t size, char **out, size_t *bytes, gp_error *err) {
    char *text = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&text, size + 1, err));
    *bytes = fread(text, 1, size, file);
    if (ferror(file)) {
        free(text);
        return gp_fail(err, GP_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    *out = text;
    return GP_OK;
}

gp_status gp_profile_read(const char *path, gp_profile **out, gp_error *err) {
    struct stat info;
    char *text = NULL;
    size_t bytes = 0;
    if (stat(path, &info) != 0) return gp_fail(err, GP_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return gp_fail(err, GP_DATA, "%s: not a regular file", path);
    if (info.st_size > MOST_BYTES)
        return gp_fail(err, GP_DATA, "%s: has %lld bytes; a profile may have at most %d", path, (long long)info.st_size,
                       (int)MOST_BYTES);
    FILE *file = fopen(path, "rbe");
    if (!file) return gp_fail(err, GP_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    gp_status status = read_stream(file, path, (size_t)info.st_size, &text, &bytes, err);
    fclose(file);
    if (status == GP_OK) status = gp_profile_parse(text, bytes, path, out, err);
    free(text);
    return status;
}
