/* `pipeline.devices`: reading, as text, and when two devices are the same. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_stream.h"
#include "settings/tables_internal.h"

enum { MAX_THREADS = 1024 };

bool gp_device_configs_equal(const gp_device_config *a, const gp_device_config *b) {
    return strcmp(a->kind, b->kind) == 0 && a->index == b->index && a->numbered == b->numbered &&
           a->threads == b->threads && a->memory == b->memory && a->rank == b->rank;
}

/* One entry of the list, which stands for `count` equal workers. */
typedef struct entry {
    gp_device_config device;
    int64_t count;
} entry;

#define AT(field) offsetof(entry, field)
#define MEMORY                                                                                                         \
    { "memory", &gp_bytes_type, AT(device.memory), .unsaid = NULL }
#define RANK                                                                                                           \
    {                                                                                                                  \
        "rank", &gp_int_type, AT(device.rank), .unsaid = NULL, .integer = { 0, GP_MAX_STAGES - 1 }                     \
    }
#define COUNT                                                                                                          \
    {                                                                                                                  \
        "count", &gp_int64_type, AT(count), .unsaid = "1", .integer = { 1, GP_MAX_STAGES }                             \
    }

static const gp_key cpu_keys[] = {
    {"threads", &gp_int_type, AT(device.threads), .unsaid = "1", .integer = {1, MAX_THREADS}},
    MEMORY,
    RANK,
    COUNT,
    {0}};
static const gp_key other_keys[] = {MEMORY, RANK, COUNT, {0}};
static const gp_key_kind devices[] = {
    {"cpu", .options = {.keys = cpu_keys, .alone = GP_ALONE_UNNAMED}},
    {"cuda", .options = {.keys = other_keys}},
    {"ref", .options = {.keys = other_keys}},
    {0},
};
/* "cuda:1" is kind cuda, index 1; gp_placement_number numbers "cuda". */
static gp_status read_name(const gp_choice *choice, const char *what, entry *out, const gp_key_table **options,
                           gp_error *err) {
    static const char *const named[] = {"cpu", "cuda", NULL};
    size_t length = strcspn(choice->kind, ":");
    const char *index = choice->kind + length;
    char base[32];
    snprintf(base, sizeof base, "%.*s", (int)(length < sizeof base ? length : sizeof base - 1), choice->kind);
    const gp_key_kind *kind = devices;
    while (kind->name && strcmp(kind->name, base) != 0) kind++;
    size_t value = 0;
    bool cuda = kind->name && strcmp(base, "cuda") == 0;
    bool numbered = cuda && *index && gp_yaml_index(index + 1, strlen(index + 1), &value) && value < 1024;
    if (!kind->name || (*index && !numbered)) {
        gp_suggestion suggestion = gp_suggest(base, named);
        return gp_refuse(choice->place, what, err, "unknown device %s%s", gp_show(choice->kind).text,
                         cuda || strstr(suggestion.text, "cuda") ? "; a GPU is cuda:0, cuda:1, …"
                         : suggestion.text[0]                    ? suggestion.text
                                                                 : "; this version has cpu");
    }
    out->device = (gp_device_config){.kind = kind->name,
                                     .index = (int)value,
                                     .numbered = numbered,
                                     .threads = 1,
                                     .rank = -1,
                                     .place = choice->place};
    *options = &kind->options;
    return GP_OK;
}

static gp_status read_entry(const gp_yaml *node, const gp_key_context *at, entry *out, gp_error *err) {
    const gp_key_table *options = NULL;
    gp_choice choice;
    char what[48];
    if (node->kind == GP_YAML_SEQUENCE)
        return gp_refuse(node->place, at->what, err, "a list of replicas has devices, and no list within it");
    GP_RETURN_IF_FAILED(gp_read_kind(node, at->what, NULL, &choice, err));
    GP_RETURN_IF_FAILED(read_name(&choice, at->what, out, &options, err));
    snprintf(what, sizeof what, "%s.%s", at->what, choice.kind);
    gp_key_context inner = {.what = what, .joint = ".", .folder = at->folder, .place = choice.place};
    return gp_read_kind_options(options, &choice, &inner, out, err);
}

/* Room in both lists of a configuration. */
typedef struct room {
    size_t devices, replicas;
} room;

static gp_status append(gp_pipeline_config *pipeline, const entry *its, room *capacity, gp_error *err) {
    if (pipeline->device_count + its->count > GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, its->device.place, "pipeline.devices: more than %d devices",
                          (int)GP_MAX_STAGES);
    GP_RETURN_IF_FAILED(GP_GROW(&pipeline->devices, &capacity->devices, pipeline->device_count + its->count, err));
    for (int64_t i = 0; i < its->count; i++) pipeline->devices[pipeline->device_count++] = its->device;
    return GP_OK;
}

/* Entries of so many devices each. */
static gp_status append_entries(gp_pipeline_config *pipeline, int64_t entries, int replicas, room *capacity,
                                gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&pipeline->replicas, &capacity->replicas, pipeline->entry_count + entries, err));
    for (int64_t i = 0; i < entries; i++) pipeline->replicas[pipeline->entry_count++] = replicas;
    pipeline->replicated = pipeline->replicated || replicas > 1;
    return GP_OK;
}

/* Replicas compute the same, each its share. */
static gp_status check_replicas(const gp_device_config *first, int count, const char *what, gp_error *err) {
    for (int d = 1; d < count; d++) {
        if (strcmp(first[d].kind, first->kind) != 0)
            return gp_refuse(first[d].place, what, err, "a stage has replicas on %s and %s: they must be of one kind",
                             first->kind, first[d].kind);
        if (first[d].threads != first->threads)
            return gp_refuse(first[d].place, what, err,
                             "a stage has replicas with %d and %d threads: they must have as many", first->threads,
                             first[d].threads);
    }
    return GP_OK;
}

static gp_status read_replicas(const gp_yaml *list, const gp_key_context *at, gp_pipeline_config *pipeline,
                               room *capacity, gp_error *err) {
    int before = pipeline->device_count;
    if (list->count == 0) return gp_refuse(list->place, at->what, err, "the list of replicas is empty");
    for (size_t i = 0; i < list->count; i++) {
        entry next = {.count = 1};
        char what[64];
        snprintf(what, sizeof what, "%s.%zu", at->what, i);
        gp_key_context inner = {.what = what, .folder = at->folder, .place = list->items[i]->place};
        GP_RETURN_IF_FAILED(read_entry(list->items[i], &inner, &next, err));
        GP_RETURN_IF_FAILED(append(pipeline, &next, capacity, err));
    }
    int count = pipeline->device_count - before;
    GP_RETURN_IF_FAILED(check_replicas(&pipeline->devices[before], count, at->what, err));
    return append_entries(pipeline, 1, count, capacity, err);
}

static gp_status read_item(const gp_yaml *node, const gp_key_context *at, void *base, room *capacity, gp_error *err) {
    entry next = {.count = 1};
    if (node->kind == GP_YAML_SEQUENCE) return read_replicas(node, at, base, capacity, err);
    GP_RETURN_IF_FAILED(read_entry(node, at, &next, err));
    GP_RETURN_IF_FAILED(append(base, &next, capacity, err));
    return append_entries(base, next.count, 1, capacity, err);
}

static gp_status read_devices(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                              gp_error *err) {
    room capacity = {0};
    (void)key;
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_refuse(node->place, at->what, err, "needs a list, as in [cpu, cpu], not %s", gp_show_node(node).text);
    if (node->count == 0) return gp_refuse(node->place, at->what, err, "the list is empty");
    gp_status status = GP_OK;
    for (size_t i = 0; i < node->count; i++) {
        gp_error next = {0};
        char what[40];
        snprintf(what, sizeof what, "%s.%zu", at->what, i);
        const gp_key_context inner = {.what = what, .folder = at->folder, .place = node->items[i]->place};
        if (read_item(node->items[i], &inner, base, &capacity, &next) != GP_OK)
            status = gp_error_join(err, status, &next);
    }
    return status;
}

gp_status gp_config_replicate(gp_pipeline_config *pipeline, int replicas, gp_place place, gp_error *err) {
    gp_device_config *all = NULL;
    if (pipeline->device_count > GP_MAX_STAGES / replicas)
        return gp_fail_at(err, GP_CONFIG, place, "pipeline.replicas: %d of each of %d devices are more than %d",
                          replicas, pipeline->device_count, (int)GP_MAX_STAGES);
    GP_RETURN_IF_FAILED(GP_NEW(&all, pipeline->device_count * replicas, err));
    for (int d = 0; d < pipeline->device_count * replicas; d++) all[d] = pipeline->devices[d / replicas];
    for (int e = 0; e < pipeline->entry_count; e++) pipeline->replicas[e] = replicas;
    free(pipeline->devices);
    pipeline->devices = all;
    pipeline->device_count *= replicas;
    pipeline->replicated = true;
    return GP_OK;
}

static void write_device(FILE *file, const gp_device_config *device, int count) {
    const char *comma = "";
    fprintf(file, "{%s", device->kind);
    if (device->numbered) fprintf(file, ":%d", device->index);
    fputs(": {", file);
    if (strcmp(device->kind, "cpu") == 0) {
        fprintf(file, "threads: %d", device->threads);
        comma = ", ";
    }
    if (device->memory) {
        fprintf(file, "%smemory: %zu", comma, device->memory);
        comma = ", ";
    }
    if (device->rank >= 0) {
        fprintf(file, "%srank: %d", comma, device->rank);
        comma = ", ";
    }
    if (count > 1) fprintf(file, "%scount: %d", comma, count);
    fputs("}}", file);
}

static void write_list(FILE *file, const gp_device_config *its, int count) {
    fputs("[", file);
    for (int d = 0; d < count; d++) {
        if (d > 0) fputs(", ", file);
        write_device(file, &its[d], 1);
    }
    fputs("]", file);
}

/* Entries from this one on, each of one device, and all equal. */
static int count_alike(const gp_pipeline_config *pipeline, int first, const gp_device_config *device) {
    int run = 1;
    while (first + run < pipeline->entry_count && pipeline->replicas[first + run] == 1 &&
           gp_device_configs_equal(device, device + run))
        run++;
    return run;
}

/* A long run of equal devices is written as one entry. */
static void write_all(FILE *file, const gp_pipeline_config *pipeline) {
    enum { LONG_RUN = 16 };
    const gp_device_config *device = pipeline->devices;
    fputs("[", file);
    for (int i = 0; i < pipeline->entry_count;) {
        int replicas = pipeline->replicas[i], run = replicas > 1 ? 1 : count_alike(pipeline, i, device);
        if (run <= LONG_RUN) run = 1;
        if (i > 0) fputs(", ", file);
        if (replicas > 1)
            write_list(file, device, replicas);
        else
            write_device(file, device, run);
        i += run;
        device += replicas > 1 ? replicas : run;
    }
    fputs("]", file);
}

static void write_devices(FILE *file, const gp_key *key, const void *base) {
    (void)key;
    write_all(file, base);
}

const gp_key_type gp_devices_type = {"list", read_devices, write_devices, NULL};
const gp_key_table gp_device_table = {.kinds = devices};

gp_status gp_config_devices_text(const gp_pipeline_config *pipeline, char **out, gp_error *err) {
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "the devices", err));
    write_all(stream.file, pipeline);
    return gp_text_end(&stream, GP_OK, out, err);
}
