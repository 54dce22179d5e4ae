#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "config/config_internal.h"
#include "config/tree_internal.h"

enum { MAX_THREADS = 1024 };

static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb_h1",
                                        "zb_h2", "zb_v", "file",        NULL}; /* by gp_schedule_kind */

const char *gp_schedule_kind_name(gp_schedule_kind kind) {
    return schedules[kind];
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* "cuda:1" is kind cuda, index 1; "cuda" is cuda:0. */
static gp_status read_device_name(const gp_choice *choice, const char *what, gp_device_config *device, gp_error *err) {
    static const char *const known[] = {"cpu", "cuda", "ref", NULL};
    static const char *const named[] = {"cpu", "cuda", NULL};
    size_t length = strcspn(choice->kind, ":");
    const char *index = choice->kind + length;
    char base[32];
    snprintf(base, sizeof base, "%.*s", (int)(length < sizeof base ? length : sizeof base - 1), choice->kind);
    int kind = gp_index_of(base, known);
    size_t value = 0;
    bool cuda = kind >= 0 && strcmp(known[kind], "cuda") == 0;
    bool numbered = cuda && *index && gp_yaml_index(index + 1, strlen(index + 1), &value) && value < 1024;
    if (kind < 0 || (*index && !numbered)) {
        gp_suggestion suggestion = gp_suggest(base, named);
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s: unknown device %s%s", what, gp_show(choice->kind).text,
                          cuda || strstr(suggestion.text, "cuda") ? "; a GPU is cuda:0, cuda:1, …"
                          : suggestion.text[0]                    ? suggestion.text
                                                                  : "; this version has cpu");
    }
    device->kind = known[kind];
    device->index = (int)value;
    return GP_OK;
}

static gp_status read_device_options(const gp_yaml *options, const char *what, gp_device_config *device, int64_t *count,
                                     gp_error *err) {
    char name[64];
    int64_t threads = 1;
    const gp_yaml *node = gp_yaml_get(options, "threads");
    snprintf(name, sizeof name, "%s.threads", what);
    if (node) GP_RETURN_IF_FAILED(gp_read_integer(node, name, 1, MAX_THREADS, &threads, err));
    device->threads = (int)threads;
    node = gp_yaml_get(options, "memory");
    snprintf(name, sizeof name, "%s.memory", what);
    if (node) GP_RETURN_IF_FAILED(gp_read_bytes(node, name, &device->memory, err));
    if (node && device->memory == 0) return gp_fail_at(err, GP_CONFIG, node->place, "%s: must be more than 0", name);
    node = gp_yaml_get(options, "count");
    snprintf(name, sizeof name, "%s.count", what);
    if (node) GP_RETURN_IF_FAILED(gp_read_integer(node, name, 1, GP_MAX_STAGES, count, err));
    return GP_OK;
}

/* One entry, which stands for *count equal workers. */
static gp_status read_device(const gp_yaml *node, const char *what, gp_device_config *device, int64_t *count,
                             gp_error *err) {
    static const char *const cpu_options[] = {"threads", "memory", "count", NULL};
    static const char *const other_options[] = {"memory", "count", NULL};
    const gp_yaml *options = NULL;
    gp_choice choice;
    char name[48];
    if (node->kind == GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: replicas of a stage (a list) are not available yet", what);
    GP_RETURN_IF_FAILED(gp_read_kind(node, what, NULL, &choice, err));
    GP_RETURN_IF_FAILED(read_device_name(&choice, what, device, err));
    snprintf(name, sizeof name, "%s.%s", what, choice.kind);
    device->place = choice.place;
    device->threads = 1;
    bool cpu = strcmp(device->kind, "cpu") == 0;
    if (cpu && choice.main) {
        int64_t threads = 0;
        GP_RETURN_IF_FAILED(gp_read_integer(choice.main, name, 1, MAX_THREADS, &threads, err));
        device->threads = (int)threads;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(gp_read_options(&choice, name, cpu ? cpu_options : other_options, NULL, &options, err));
    return options ? read_device_options(options, name, device, count, err) : GP_OK;
}

static gp_status append_devices(gp_pipeline_config *pipeline, const gp_device_config *device, int64_t count,
                                size_t *capacity, gp_error *err) {
    if (pipeline->device_count + count > GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, device->place, "pipeline.devices: more than %d devices", (int)GP_MAX_STAGES);
    GP_RETURN_IF_FAILED(GP_GROW(&pipeline->devices, capacity, pipeline->device_count + count, err));
    for (int64_t i = 0; i < count; i++) pipeline->devices[pipeline->device_count++] = *device;
    return GP_OK;
}

/* "cuda" without a number, alone or with options. */
static bool is_first_gpu(const gp_yaml *entry) {
    return entry->kind == GP_YAML_SCALAR ? strcmp(entry->text, "cuda") == 0 : gp_yaml_get(entry, "cuda") != NULL;
}

/* It is cuda:0. Who writes it twice wants two GPUs. */
static gp_status check_first_gpu(const gp_yaml *list, gp_error *err) {
    bool has = false;
    for (size_t i = 0; i < list->count; i++) {
        if (!is_first_gpu(list->items[i])) continue;
        if (has)
            return gp_fail_at(err, GP_CONFIG, list->items[i]->place,
                              "pipeline.devices.%zu: cuda is cuda:0, which the list has already; write cuda:0, cuda:1",
                              i);
        has = true;
    }
    return GP_OK;
}

static gp_status read_devices(gp_pipeline_config *pipeline, const gp_yaml *node, gp_place place, gp_error *err) {
    size_t capacity = 0;
    if (!node)
        return append_devices(pipeline, &(gp_device_config){.kind = "cpu", .threads = 1, .place = place}, 1, &capacity,
                              err);
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, node->place, "pipeline.devices: needs a list, as in [cpu, cpu], not %s",
                          gp_show_node(node).text);
    if (node->count == 0) return gp_fail_at(err, GP_CONFIG, node->place, "pipeline.devices: the list is empty");
    for (size_t i = 0; i < node->count; i++) {
        gp_device_config device = {0};
        int64_t count = 1;
        char what[40];
        snprintf(what, sizeof what, "pipeline.devices.%zu", i);
        GP_RETURN_IF_FAILED(read_device(node->items[i], what, &device, &count, err));
        GP_RETURN_IF_FAILED(append_devices(pipeline, &device, count, &capacity, err));
    }
    return check_first_gpu(node, err);
}

/* ---- balance ----------------------------------------------------------------------------------------------------- */

static gp_status read_balance_list(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err) {
    static const char what[] = "pipeline.balance";
    size_t count = 0;
    if (gp_balance_has_names(node)) return gp_read_balance_names(pipeline, node, err);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->layers, GP_MAX_STAGES, err));
    GP_RETURN_IF_FAILED(gp_read_integers(node, what, 1, INT32_MAX, GP_MAX_STAGES, pipeline->layers, &count, err));
    bool one_each = pipeline->stages == pipeline->device_count;
    bool suits = pipeline->stages == 0 || (int)count == pipeline->stages;
    if (!suits && !pipeline->finds_balance)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "%s: has %zu %s, but there %s %d %s%s; each needs one, which pipeline.balance=auto finds",
                          what, count, count == 1 ? "entry" : "entries", pipeline->stages == 1 ? "is" : "are",
                          pipeline->stages, one_each ? "device" : "stage", pipeline->stages == 1 ? "" : "s");
    pipeline->balance = suits ? GP_BALANCE_LAYERS : GP_BALANCE_AUTO;
    pipeline->layers_count = (int)count;
    return GP_OK;
}

static gp_status read_balance(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err) {
    static const char *const modes[] = {"auto", "size", NULL}; /* by gp_balance_mode */
    int mode = 0;
    gp_suggestion suggestion = {""};
    if (node->kind == GP_YAML_SCALAR) suggestion = gp_suggest(node->text, modes);
    pipeline->balance_place = node->place;
    if (node->kind == GP_YAML_SEQUENCE) return read_balance_list(pipeline, node, err);
    if (node->kind == GP_YAML_MAPPING || gp_index_of(node->text, modes) < 0)
        return gp_fail_at(
            err, GP_CONFIG, node->place,
            "pipeline.balance: needs auto, size, the layers per stage, as in [4, 4], or the first layers of the "
            "later stages, as in [conv4_1], not %s%s",
            gp_show_node(node).text, suggestion.text);
    GP_RETURN_IF_FAILED(gp_read_choice(node, "pipeline.balance", modes, &mode, err));
    pipeline->balance = (gp_balance_mode)mode;
    return GP_OK;
}

/* ---- the section ------------------------------------------------------------------------------------------------- */

static gp_status read_chunks(const gp_choice *choice, gp_schedule_config *schedule, gp_error *err) {
    static const char *const known[] = {"chunks", NULL};
    static const char what[] = "pipeline.schedule.interleaved";
    const gp_yaml *options = NULL, *node = choice->main;
    int64_t chunks = 2;
    if (!node) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, what, known, NULL, &options, err));
        node = options ? gp_yaml_get(options, "chunks") : NULL;
    }
    if (node)
        GP_RETURN_IF_FAILED(
            gp_read_integer(node, "pipeline.schedule.interleaved.chunks", 1, GP_MAX_STAGES, &chunks, err));
    schedule->chunks = (int)chunks;
    return GP_OK;
}

static gp_status read_file(const gp_choice *choice, const char *folder, gp_schedule_config *schedule, gp_error *err) {
    static const char *const known[] = {"path", NULL};
    static const char what[] = "pipeline.schedule.file";
    const gp_yaml *options = NULL, *node = choice->main;
    if (!node) {
        GP_RETURN_IF_FAILED(gp_read_options(choice, what, known, NULL, &options, err));
        node = options ? gp_yaml_get(options, "path") : NULL;
    }
    if (!node) return gp_fail_at(err, GP_CONFIG, choice->place, "%s: needs the path of the file", what);
    schedule->place = node->place;
    return gp_read_path(node, what, folder, &schedule->file, err);
}

gp_status gp_read_schedule(const gp_yaml *node, const char *folder, gp_schedule_config *out, gp_error *err) {
    static const char *const options[] = {NULL};
    const gp_yaml *none = NULL;
    gp_choice choice;
    int kind = 0;
    char what[40];
    GP_RETURN_IF_FAILED(gp_read_kind(node, "pipeline.schedule", NULL, &choice, err));
    GP_RETURN_IF_FAILED(gp_find_kind(&choice, "pipeline.schedule", schedules, NULL, &kind, err));
    *out = (gp_schedule_config){.kind = (gp_schedule_kind)kind, .chunks = 1, .place = choice.place};
    if (out->kind == GP_SCHEDULE_INTERLEAVED) return read_chunks(&choice, out, err);
    if (out->kind == GP_SCHEDULE_FILE) return read_file(&choice, folder, out, err);
    if (out->kind == GP_SCHEDULE_ZB_V) out->chunks = 2;
    snprintf(what, sizeof what, "pipeline.schedule.%s", schedules[kind]);
    return gp_read_options(&choice, what, options, NULL, &none, err);
}

static gp_status count_stages(gp_pipeline_config *pipeline, gp_error *err) {
    const gp_schedule_config *schedule = &pipeline->schedule;
    int most = GP_MAX_STAGES / schedule->chunks;
    if (pipeline->device_count > most)
        return gp_fail_at(err, GP_CONFIG, schedule->place,
                          "pipeline.schedule: %d stages on each of %d devices are more than %d stages",
                          schedule->chunks, pipeline->device_count, (int)GP_MAX_STAGES);
    pipeline->stages = schedule->kind == GP_SCHEDULE_FILE ? 0 : pipeline->device_count * schedule->chunks;
    return GP_OK;
}

/* Whether all devices copy beside computing. A worker on a CPU copies by itself before it computes: barriers order
 * nothing there, and make every worker wait for the slowest one in each clock. */
static bool copies_beside(const gp_pipeline_config *pipeline) {
    for (int d = 0; d < pipeline->device_count; d++)
        if (strcmp(pipeline->devices[d].kind, "cuda") != 0) return false;
    return true;
}

static gp_status read_lockstep(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err) {
    enum { AUTO, TRUE, FALSE };
    static const char *const choices[] = {[AUTO] = "auto", [TRUE] = "true", [FALSE] = "false", NULL};
    bool has = pipeline->schedule.kind == GP_SCHEDULE_GPIPE;
    int choice = AUTO;
    if (node) GP_RETURN_IF_FAILED(gp_read_choice(node, "pipeline.lockstep", choices, &choice, err));
    if (choice == TRUE && !has)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "pipeline.lockstep: belongs to the schedule gpipe; %s has none (auto is off there)",
                          schedules[pipeline->schedule.kind]);
    pipeline->lockstep = has && (choice == TRUE || (choice == AUTO && copies_beside(pipeline)));
    return GP_OK;
}

static gp_status read_options(gp_pipeline_config *pipeline, const gp_yaml *node, const char *folder, gp_error *err) {
    static const char *const known[] = {"devices",  "balance",    "together", "micro_batches",
                                        "schedule", "checkpoint", "lockstep", NULL};
    static const char *const later[] = {"replicas", "transport", NULL};
    int64_t micro_batches = 1;
    GP_RETURN_IF_FAILED(gp_read_mapping(node, "pipeline", err));
    GP_RETURN_IF_FAILED(gp_check_keys(node, "pipeline", known, later, err));
    GP_RETURN_IF_FAILED(read_devices(pipeline, gp_yaml_get(node, "devices"), node->place, err));
    const gp_yaml *value = gp_yaml_get(node, "schedule");
    if (value) GP_RETURN_IF_FAILED(gp_read_schedule(value, folder, &pipeline->schedule, err));
    GP_RETURN_IF_FAILED(count_stages(pipeline, err));
    value = gp_yaml_get(node, "balance");
    if (value) GP_RETURN_IF_FAILED(read_balance(pipeline, value, err));
    value = gp_yaml_get(node, "together");
    if (value) GP_RETURN_IF_FAILED(gp_read_together(pipeline, value, err));
    value = gp_yaml_get(node, "micro_batches");
    if (value) {
        GP_RETURN_IF_FAILED(
            gp_read_integer(value, "pipeline.micro_batches", 1, GP_MAX_MICRO_BATCHES, &micro_batches, err));
        pipeline->micro_batches = (int)micro_batches;
        pipeline->micro_batches_place = value->place;
    }
    value = gp_yaml_get(node, "checkpoint");
    if (value) GP_RETURN_IF_FAILED(gp_read_checkpoint(pipeline, value, err));
    return read_lockstep(pipeline, gp_yaml_get(node, "lockstep"), err);
}

gp_status gp_read_pipeline(gp_config *config, const gp_yaml *node, gp_error *err) {
    gp_pipeline_config *pipeline = &config->pipeline;
    gp_place place = node ? node->place : gp_yaml_root(config->document)->place;
    pipeline->micro_batches = 1;
    pipeline->schedule = (gp_schedule_config){.kind = GP_SCHEDULE_GPIPE, .chunks = 1, .place = place};
    pipeline->checkpoint = GP_CHECKPOINT_EXCEPT_LAST;
    pipeline->lockstep = false;
    pipeline->balance_place = place;
    pipeline->micro_batches_place = place;
    if (node) return read_options(pipeline, node, config->folder, err);
    GP_RETURN_IF_FAILED(read_devices(pipeline, NULL, place, err));
    return count_stages(pipeline, err);
}
