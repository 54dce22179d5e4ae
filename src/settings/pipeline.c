/* The keys of `pipeline`. */
#include <string.h>

#include "settings/tables_internal.h"

#define AT(field) offsetof(gp_schedule_config, field)

static const gp_key interleaved_keys[] = {
    {"chunks", &gp_int_type, AT(chunks), .unsaid = "2", .integer = {1, GP_MAX_STAGES}}, {0}};
static const gp_key file_keys[] = {
    {"path", &gp_path_type, AT(file), .example = "", .place = AT(place), .flags = GP_KEY_UNNAMED}, {0}};
static const gp_key_kind schedules[] = {
    {"gpipe", GP_SCHEDULE_GPIPE, .options = {0}},
    {"1f1b", GP_SCHEDULE_1F1B, .options = {0}},
    {"interleaved", GP_SCHEDULE_INTERLEAVED, .options = {.keys = interleaved_keys, .alone = GP_ALONE_ANY}},
    {"zb_h1", GP_SCHEDULE_ZB_H1, .options = {0}},
    {"zb_h2", GP_SCHEDULE_ZB_H2, .options = {0}},
    {"zb_v", GP_SCHEDULE_ZB_V, .options = {0}},
    {"file", GP_SCHEDULE_FILE, .options = {.keys = file_keys, .needs = "the path of the file", .alone = GP_ALONE_ANY}},
    {0},
};
static const gp_key_table schedule_table = {.kinds = schedules, .kind = AT(kind), .kind_place = AT(place)};
#undef AT

gp_status gp_read_schedule(const gp_yaml *node, const char *folder, gp_schedule_config *out, gp_error *err) {
    gp_key_context at = {.what = "pipeline.schedule", .joint = ".", .folder = folder, .place = node->place};
    *out = (gp_schedule_config){.chunks = 1};
    GP_RETURN_IF_FAILED(gp_read_table(&schedule_table, node, &at, out, err));
    if (out->kind == GP_SCHEDULE_ZB_V) out->chunks = 2;
    return GP_OK;
}

static gp_status count_stages(gp_pipeline_config *pipeline, gp_error *err) {
    const gp_schedule_config *schedule = &pipeline->schedule;
    int most = GP_MAX_STAGES / schedule->chunks;
    if (pipeline->device_count > most)
        return gp_fail_at(err, GP_CONFIG, schedule->place,
                          "pipeline.schedule: %d stages on each of %d devices are more than %d stages",
                          schedule->chunks, pipeline->device_count, (int)GP_MAX_STAGES);
    pipeline->stages = schedule->kind == GP_SCHEDULE_FILE ? 0 : pipeline->entry_count * schedule->chunks;
    return GP_OK;
}

static gp_status read_schedule(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                               gp_error *err) {
    gp_pipeline_config *pipeline = base;
    (void)key;
    GP_RETURN_IF_FAILED(gp_read_schedule(node, at->folder, &pipeline->schedule, err));
    return count_stages(pipeline, err);
}

static void write_schedule(FILE *file, const gp_key *key, const void *base) {
    gp_write_table(file, key->table, &((const gp_pipeline_config *)base)->schedule);
}

static const gp_key_type schedule_type = {"", read_schedule, write_schedule, NULL};

/* Short for each device of the list so many times. */
static gp_status read_replicas(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                               gp_error *err) {
    gp_pipeline_config *pipeline = base;
    int64_t replicas = 1;
    (void)key;
    GP_RETURN_IF_FAILED(gp_read_integer(node, at->what, 1, GP_MAX_STAGES, &replicas, err));
    if (replicas == 1) return GP_OK;
    if (pipeline->replicated)
        return gp_refuse(
            node->place, at->what, err,
            "pipeline.devices names the replicas already, as lists within the list: leave one of both out");
    GP_RETURN_IF_FAILED(gp_config_replicate(pipeline, (int)replicas, node->place, err));
    return count_stages(pipeline, err);
}

static const gp_key_type replicas_type = {"integer", read_replicas, NULL, NULL};

enum { LOCKSTEP_AUTO, LOCKSTEP_TRUE, LOCKSTEP_FALSE };
static const char *const lockstep_names[] = {"auto", "true", "false", NULL};

/* Whether all devices copy beside computing. A worker on a CPU copies by itself before it computes: barriers order
 * nothing there, and make every worker wait for the slowest one in each clock. */
static bool copies_beside(const gp_pipeline_config *pipeline) {
    for (int d = 0; d < pipeline->device_count; d++)
        if (strcmp(pipeline->devices[d].kind, "cuda") != 0) return false;
    return true;
}

static gp_status read_lockstep(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                               gp_error *err) {
    gp_pipeline_config *pipeline = base;
    bool has = pipeline->schedule.kind == GP_SCHEDULE_GPIPE;
    int choice = LOCKSTEP_AUTO;
    GP_RETURN_IF_FAILED(gp_read_choice(node, at->what, key->names, &choice, err));
    if (choice == LOCKSTEP_TRUE && !has)
        return gp_refuse(node->place, at->what, err, "belongs to the schedule gpipe; %s has none (auto is off there)",
                         gp_schedule_kind_name(pipeline->schedule.kind));
    pipeline->lockstep = has && (choice == LOCKSTEP_TRUE || (choice == LOCKSTEP_AUTO && copies_beside(pipeline)));
    return GP_OK;
}

static void write_lockstep(FILE *file, const gp_key *key, const void *base) {
    fputs(key->names[((const gp_pipeline_config *)base)->lockstep ? LOCKSTEP_TRUE : LOCKSTEP_FALSE], file);
}

static const gp_key_type lockstep_type = {"", read_lockstep, write_lockstep, NULL};

#define AT(field) offsetof(gp_pipeline_config, field)

static const char *const balances[] = {"auto", "size", NULL}, *const later[] = {"eval", "place", "transfer",
                                                                                "all_reduce", NULL};
static const char *const transports[] = {"auto", "threads", "mpi", "nccl", NULL};
static const gp_key pipeline_keys[] = {
    {"devices", &gp_devices_type, .table = &gp_device_table, .unsaid = "[cpu]", .flags = GP_KEY_FIRST},
    {"replicas", &replicas_type, .unsaid = "1", .flags = GP_KEY_SHORT | GP_KEY_DEPENDS},
    {"shard_optimizer", &gp_boolean_type, AT(shard_optimizer), .unsaid = "false"},
    {"balance", &gp_balance_type, .names = balances, .unsaid = "auto", .place = AT(balance_place),
     .flags = GP_KEY_DEPENDS},
    {"together", &gp_together_type, .count = AT(together_count)},
    {"micro_batches", &gp_int_type, AT(micro_batches), .unsaid = "1", .integer = {1, GP_MAX_MICRO_BATCHES},
     .place = AT(micro_batches_place)},
    {"schedule", &schedule_type, .table = &schedule_table, .unsaid = "gpipe", .flags = GP_KEY_FIRST},
    {"checkpoint", &gp_table_type, .table = &gp_checkpoint_table, .unsaid = "except_last",
     .place = AT(checkpoint_place), .flags = GP_KEY_DEPENDS},
    {"lockstep", &lockstep_type, .names = lockstep_names, .unsaid = "auto", .flags = GP_KEY_DEPENDS},
    {"transport", &gp_choice_type, AT(transport), .unsaid = "auto", .names = transports, .place = AT(transport_place),
     GP_IF_GIVEN(AT(transport_given))},
    {"timeout", &gp_number_type, AT(timeout), .unsaid = "60", .number = {1, GP_MAX_TIMEOUT, 0},
     GP_IF_GIVEN(AT(timeout_given))},
    {"links", &gp_table_type, AT(links), .table = &gp_links_table, GP_IF_GIVEN(AT(links_given))},
    {"pin", &gp_boolean_type, AT(pin), .unsaid = "false", GP_IF_GIVEN(AT(pin_given))},
    {0},
};
const gp_key_table gp_pipeline_table = {.keys = pipeline_keys, .later_keys = later};
