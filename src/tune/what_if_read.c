/* Reads the file with these times. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "config/read.h"
#include "tune/what_if.h"

static const double most_ms = 1e9, most_rate = 1e6;
const char *const gp_what_if_copies[] = {"beside", "queued", "same_queue", NULL};
const char *const gp_what_if_hosts[] = {"per_device", "one", NULL};

typedef struct reader {
    const gp_yaml *root;
    gp_what_if *to;
    int stages;
} reader;

/* ---- what is played ---------------------------------------------------------------------------------------------- */

static gp_status read_count(const reader *r, const char *key, int most, int *out, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(r->root, key);
    int64_t value = 0;
    if (!node) return gp_fail_at(err, GP_CONFIG, r->root->place, "%s: is missing", key);
    GP_RETURN_IF_FAILED(gp_read_integer(node, key, 1, most, &value, err));
    *out = (int)value;
    return GP_OK;
}

/* `chunks` beside the schedule says the same as its own option. */
static gp_status read_chunks(reader *r, const gp_yaml *schedule, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(r->root, "chunks");
    gp_schedule_kind kind = r->to->schedule;
    int64_t chunks = r->to->chunks;
    if (!node) return GP_OK;
    GP_RETURN_IF_FAILED(gp_read_integer(node, "chunks", 1, GP_MAX_STAGES, &chunks, err));
    /* 1 beside zb_v: what the other schedules have, left standing while schedules are compared. */
    if (chunks == r->to->chunks || (kind == GP_SCHEDULE_ZB_V && chunks == 1)) return GP_OK;
    if (kind != GP_SCHEDULE_INTERLEAVED)
        return gp_fail_at(err, GP_CONFIG, node->place, "chunks: %s has %d chunks per device, not %" PRId64,
                          gp_schedule_kind_name(kind), r->to->chunks, chunks);
    if (schedule->kind == GP_YAML_MAPPING)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "chunks: %" PRId64 " here, but %d in the schedule; give one of them", chunks, r->to->chunks);
    r->to->chunks = (int)chunks;
    return GP_OK;
}

static gp_status read_schedule(reader *r, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(r->root, "schedule");
    gp_schedule_config schedule = {.kind = GP_SCHEDULE_GPIPE, .chunks = 1};
    if (!node) return gp_fail_at(err, GP_CONFIG, r->root->place, "schedule: is missing");
    gp_status status = gp_read_schedule(node, ".", &schedule, err);
    free(schedule.file);
    GP_RETURN_IF_FAILED(status);
    if (schedule.kind == GP_SCHEDULE_FILE)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "schedule: a schedule of a file cannot be simulated; name one, such as 1f1b");
    r->to->schedule = schedule.kind;
    r->to->chunks = schedule.chunks;
    return read_chunks(r, node, err);
}

static gp_status read_sizes(reader *r, gp_error *err) {
    gp_what_if *to = r->to;
    if (gp_yaml_get(r->root, "processors"))
        GP_RETURN_IF_FAILED(read_count(r, "processors", GP_MAX_STAGES, &to->processors, err));
    GP_RETURN_IF_FAILED(read_count(r, "stages", GP_MAX_STAGES, &to->devices, err));
    GP_RETURN_IF_FAILED(read_count(r, "micro_batches", GP_MAX_MICRO_BATCHES, &to->micro_batches, err));
    GP_RETURN_IF_FAILED(read_schedule(r, err));
    gp_place place = gp_yaml_get(r->root, "stages")->place;
    if ((int64_t)to->chunks * to->devices > GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, place, "stages: %d chunks on each of %d devices are more than %d stages",
                          to->chunks, to->devices, (int)GP_MAX_STAGES);
    r->stages = to->devices * to->chunks;
    if ((int64_t)to->micro_batches * r->stages > GP_MAX_PLANNED)
        return gp_fail_at(err, GP_CONFIG, place, "stages: %d stages times %d micro-batches are more than %d", r->stages,
                          to->micro_batches, (int)GP_MAX_PLANNED);
    return GP_OK;
}

static gp_status read_ways(reader *r, gp_error *err) {
    static const char *const modes[] = {"never", "except_last", "always", NULL}; /* by gp_checkpoint_mode */
    const gp_yaml *node = gp_yaml_get(r->root, "checkpoint");
    int mode = GP_CHECKPOINT_NEVER;
    if (node) GP_RETURN_IF_FAILED(gp_read_choice(node, "checkpoint", modes, &mode, err));
    r->to->checkpoint = (gp_checkpoint_mode)mode;
    node = gp_yaml_get(r->root, "lockstep");
    if (!node) return GP_OK;
    GP_RETURN_IF_FAILED(gp_read_boolean(node, "lockstep", &r->to->lockstep, err));
    if (r->to->lockstep && r->to->schedule != GP_SCHEDULE_GPIPE)
        return gp_fail_at(err, GP_CONFIG, node->place, "lockstep: only the schedule gpipe has it, not %s",
                          gp_schedule_kind_name(r->to->schedule));
    return GP_OK;
}

static gp_status read_launch(const gp_yaml *device, const char *key, const char *name, double *out, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(device, key);
    return node ? gp_read_number(node, name, 0, most_ms, 0, out, err) : GP_OK;
}

/* Devices that host threads issue to (schedule/issue.h). */
static gp_status read_device(const reader *r, gp_error *err) {
    static const char *const known[] = {"copies", "hosts", "launch", "launch_copy", "wake", NULL};
    const gp_yaml *device = gp_yaml_get(r->root, "device"), *node;
    gp_issue_model *model = &r->to->model;
    int choice = 0;
    if (!device) return GP_OK;
    if (r->to->processors > 0)
        return gp_fail_at(err, GP_CONFIG, device->place,
                          "device: cannot be combined with processors; remove one of the two keys");
    GP_RETURN_IF_FAILED(gp_read_mapping(device, "device", err));
    GP_RETURN_IF_FAILED(gp_check_keys(device, "device", known, NULL, err));
    if ((node = gp_yaml_get(device, "copies")))
        GP_RETURN_IF_FAILED(gp_read_choice(node, "device.copies", gp_what_if_copies, &choice, err));
    model->copies = (gp_issue_copies)choice;
    choice = 0;
    if ((node = gp_yaml_get(device, "hosts")))
        GP_RETURN_IF_FAILED(gp_read_choice(node, "device.hosts", gp_what_if_hosts, &choice, err));
    model->one_host = choice == 1;
    GP_RETURN_IF_FAILED(read_launch(device, "launch", "device.launch", &model->launch, err));
    model->launch_copy = model->launch;
    GP_RETURN_IF_FAILED(read_launch(device, "launch_copy", "device.launch_copy", &model->launch_copy, err));
    GP_RETURN_IF_FAILED(read_launch(device, "wake", "device.wake", &model->wake, err));
    node = gp_yaml_get(device, "wake");
    if (model->one_host && node)
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "device.wake: one host thread waits for no other; remove it, or write hosts: per_device");
    r->to->issued = true;
    return GP_OK;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static int device_of(const reader *r, int stage) {
    int turned = r->stages - 1 - stage;
    if (r->to->schedule == GP_SCHEDULE_ZB_V) return stage < turned ? stage : turned;
    return stage % r->to->devices;
}

/* Whose entry is the copy between a stage and the one before it: the later device's, but interleaved's way back from
 * the last to the first has the first's, since no other copy has it. */
static int boundary_of(const reader *r, int stage) {
    int here = device_of(r, stage), before = stage > 0 ? device_of(r, stage - 1) : here;
    return r->to->schedule == GP_SCHEDULE_ZB_V && before > here ? before : here;
}

/* One number for all devices, one for each, or one for each stage. What a device takes, its stages share; what is not
 * shared is of copies. */
static gp_status read_times(const reader *r, const char *key, bool shared, double **out, gp_error *err) {
    const gp_yaml *node = gp_yaml_get(r->root, key);
    double share = shared ? 1.0 / r->to->chunks : 1;
    GP_RETURN_IF_FAILED(GP_NEW(out, r->stages, err));
    if (!node) return GP_OK;
    bool list = node->kind == GP_YAML_SEQUENCE, each = list && node->count == (size_t)r->stages;
    if (list && !each && node->count != (size_t)r->to->devices) {
        char or_stages[32] = "";
        if (r->to->chunks > 1) snprintf(or_stages, sizeof or_stages, " or %d", r->stages);
        return gp_fail_at(err, GP_CONFIG, node->place,
                          "%s: the list has %zu numbers; give one number, or a list of %d%s", key, node->count,
                          r->to->devices, or_stages);
    }
    for (int s = 0; s < r->stages; s++) {
        const gp_yaml *item = list ? node->items[each ? s : shared ? device_of(r, s) : boundary_of(r, s)] : node;
        double ms = 0;
        GP_RETURN_IF_FAILED(gp_read_number(item, key, 0, most_ms, 0, &ms, err));
        (*out)[s] = each ? ms : ms * share;
    }
    return GP_OK;
}

static gp_status need_times(const reader *r, const char *key, double **out, gp_error *err) {
    if (!gp_yaml_get(r->root, key)) return gp_fail_at(err, GP_CONFIG, r->root->place, "%s: is missing", key);
    return read_times(r, key, true, out, err);
}

/* Either `copy`, or `latency`, and `bytes` at `bandwidth`. */
static gp_status read_copies(const reader *r, gp_error *err) {
    static const char *const others[] = {"latency", "bytes", "bandwidth"};
    const gp_yaml *copy = gp_yaml_get(r->root, "copy"), *part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = gp_yaml_get(r->root, others[i]);
        if (copy && part[i])
            return gp_fail_at(err, GP_CONFIG, part[i]->place, "%s: cannot be combined with copy", others[i]);
    }
    for (int i = 1; i < 3; i++)
        if (part[i] && !part[3 - i])
            return gp_fail_at(err, GP_CONFIG, part[i]->place, "%s: needs the key %s as well", others[i], others[3 - i]);
    GP_RETURN_IF_FAILED(read_times(r, copy ? "copy" : "latency", false, &r->to->copy, err));
    if (!part[1]) return GP_OK;
    size_t bytes = 0;
    double rate = 0;
    GP_RETURN_IF_FAILED(gp_read_bytes(part[1], "bytes", &bytes, err));
    GP_RETURN_IF_FAILED(gp_read_number(part[2], "bandwidth", 0, most_rate, 1, &rate, err));
    r->to->wire = (double)bytes / (rate * 1e6);
    char most[GP_NUMBER_TEXT];
    if (r->to->wire > most_ms)
        return gp_fail_at(err, GP_CONFIG, part[1]->place, "bytes: a copy at this bandwidth takes longer than %s ms",
                          gp_number_text(most, most_ms));
    return GP_OK;
}

static gp_status read_all(reader *r, gp_error *err) {
    static const char *const known[] = {
        "schedule", "stages",     "micro_batches", "chunks",     "forward",         "backward_input",
        "copy",     "latency",    "bytes",         "bandwidth",  "backward_weight", "recompute",
        "update",   "checkpoint", "lockstep",      "processors", "device",          NULL};
    gp_what_if *to = r->to;
    GP_RETURN_IF_FAILED(gp_check_keys(r->root, "simulation", known, NULL, err));
    GP_RETURN_IF_FAILED(read_sizes(r, err));
    GP_RETURN_IF_FAILED(read_ways(r, err));
    GP_RETURN_IF_FAILED(read_device(r, err));
    GP_RETURN_IF_FAILED(need_times(r, "forward", &to->forward, err));
    GP_RETURN_IF_FAILED(need_times(r, "backward_input", &to->input, err));
    GP_RETURN_IF_FAILED(need_times(r, "backward_weight", &to->weight, err));
    bool again = gp_yaml_get(r->root, "recompute") != NULL; /* else as long as the forward */
    GP_RETURN_IF_FAILED(read_times(r, again ? "recompute" : "forward", true, &to->recompute, err));
    GP_RETURN_IF_FAILED(read_times(r, "update", true, &to->update, err));
    return read_copies(r, err);
}

gp_status gp_what_if_read(const gp_yaml *root, const char *path, gp_what_if *out, gp_error *err) {
    gp_what_if question = {.chunks = 1};
    reader r = {root, &question, 0};
    if (!root) return gp_fail(err, GP_CONFIG, "%s: the file is empty", path);
    GP_RETURN_IF_FAILED(gp_read_mapping(root, "simulation", err));
    gp_status status = read_all(&r, err);
    if (status != GP_OK)
        gp_what_if_fini(&question);
    else
        *out = question;
    return status;
}

void gp_what_if_fini(gp_what_if *question) {
    free(question->forward);
    free(question->input);
    free(question->weight);
    free(question->recompute);
    free(question->update);
    free(question->copy);
    *question = (gp_what_if){0};
}
