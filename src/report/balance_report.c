#include "report/balance_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "balance/expect.h"
#include "base/memory.h"
#include "base/printable.h"
#include "plan/memory.h"
#include "profile/cost.h"
#include "profile/profile_words.h"
#include "profile/when.h"
#include "report/balance_write.h"
#include "report/plan_report_parts.h"
#include "session/ordering.h"
#include "session/processors.h"

enum { BAR = 12, NAME = 26 };

/* A cut of the layers, and what it promises. */
typedef struct cut {
    int64_t *layers; /* [stage] */
    gp_plan *plan;
    gp_expectation expected;
    gp_durations durations; /* of the mini-batch that trains, the plan's first */
    bool fits;              /* into the memory that the devices may use */
    gp_error missing;       /* else: what does not */
} cut;

typedef struct report {
    const gp_session *session;
    const gp_command *command; /* for people only */
    FILE *out;
    int stages;
    int64_t *bytes;              /* [layer] */
    cut found, even, configured; /* configured: layers NULL where the configuration names none */
} report;

/* ---- what is reported -------------------------------------------------------------------------------------------- */

static void cut_fini(cut *c) {
    gp_durations_fini(&c->durations);
    free(c->expected.busy);
    gp_plan_destroy(&c->plan);
    free(c->layers);
}

/* Takes over the layers. */
static gp_status look_at(const report *r, int64_t *layers, cut *out, gp_error *err) {
    out->layers = layers;
    GP_RETURN_IF_FAILED(gp_session_plan_cut(r->session, layers, &out->plan, err));
    int worker;
    out->fits = gp_memory_check(out->plan, &worker, &out->missing) == GP_OK;
    GP_RETURN_IF_FAILED(gp_expect(out->plan, 0, r->session->profile, &out->expected, err));
    return gp_durations_init(out->plan, 0, r->session->profile, &out->durations, err);
}

static gp_status copy_layers(const report *r, const int64_t *from, int64_t **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, r->stages, err));
    memcpy(*out, from, (size_t)r->stages * sizeof **out);
    return GP_OK;
}

/* The same number of layers on each stage, the first ones having one more where that does not come out even. */
static gp_status look_at_even(report *r, gp_error *err) {
    int64_t *layers = NULL, count = r->session->graph->layer_count;
    GP_RETURN_IF_FAILED(GP_NEW(&layers, r->stages, err));
    for (int s = 0; s < r->stages; s++) layers[s] = count / r->stages + (s < count % r->stages);
    return look_at(r, layers, &r->even, err);
}

static gp_status report_init(report *r, gp_error *err) {
    const gp_session *session = r->session;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int64_t *layers = NULL;
    r->stages = session->plan->stages->count;
    GP_RETURN_IF_FAILED(GP_NEW(&r->bytes, session->graph->layer_count, err));
    GP_RETURN_IF_FAILED(
        gp_cost_by_size(session->graph, gp_session_piece(session), session->update.states, r->bytes, err));
    GP_RETURN_IF_FAILED(copy_layers(r, session->layers, &layers, err));
    GP_RETURN_IF_FAILED(look_at(r, layers, &r->found, err));
    GP_RETURN_IF_FAILED(look_at_even(r, err));
    if (pipeline->balance != GP_BALANCE_LAYERS) return GP_OK;
    GP_RETURN_IF_FAILED(copy_layers(r, pipeline->layers, &layers, err));
    return look_at(r, layers, &r->configured, err);
}

static void report_fini(report *r) {
    cut_fini(&r->found);
    cut_fini(&r->even);
    cut_fini(&r->configured);
    free(r->bytes);
}

static double micro_batch_seconds(const gp_layer_times *layer) {
    return layer->time[GP_PROFILE_TIME_FORWARD] + layer->time[GP_PROFILE_TIME_BACKWARD_INPUT] +
           layer->time[GP_PROFILE_TIME_BACKWARD_WEIGHT];
}

/* What a micro-batch takes of the stage, what is computed again for it included: the mean over all of them. */
static double stage_seconds(const cut *c, int s) {
    const gp_program *program = &c->durations.mini->programs->worker[c->plan->stage[s].worker];
    double seconds = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (gp_instr_computes(instr) && gp_instr_has_micro(instr) && instr->stage == s)
            seconds += gp_durations_computing(&c->durations, instr);
    }
    return seconds / c->durations.mini->pieces;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* Eighths of a column. */
static void write_bar(FILE *out, double share) {
    static const char *const part[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int eighths = (int)(share * BAR * 8 + 0.5), columns = eighths / 8;
    for (int i = 0; i < columns; i++) fputs("█", out);
    if (eighths % 8) fputs(part[eighths % 8], out);
    fprintf(out, "%*s", BAR - columns - (eighths % 8 != 0), "");
}

static void write_seconds(FILE *out, double seconds) {
    char text[GP_REPORT_NUMBER];
    gp_report_cell(out, seconds > 0 ? gp_report_seconds(text, seconds) : "0", 10, true);
}

static gp_status write_layer(const report *r, const gp_profile_device *device, int i, double most, gp_error *err) {
    const gp_graph *graph = r->session->graph;
    const gp_layer_times *layer = &device->layers[i];
    const gp_node *node = &graph->nodes[i > 0 ? graph->unit_end[i - 1] : 0];
    int64_t largest = 1;
    char *name = NULL, bytes[32];
    for (int j = 0; j < graph->layer_count; j++)
        if (r->bytes[j] > largest) largest = r->bytes[j];
    GP_RETURN_IF_FAILED(gp_format_text(&name, err, "%s %s", node->layer->type->name, node->name));
    fputs("  ", r->out);
    gp_report_cell(r->out, name, NAME, false);
    free(name);
    write_seconds(r->out, layer->time[GP_PROFILE_TIME_FORWARD]);
    write_seconds(r->out, layer->time[GP_PROFILE_TIME_BACKWARD_INPUT] + layer->time[GP_PROFILE_TIME_BACKWARD_WEIGHT]);
    fputs("  ", r->out);
    write_bar(r->out, most > 0 ? micro_batch_seconds(layer) / most : 0);
    gp_report_cell(r->out, gp_bytes_text(bytes, (size_t)r->bytes[i]), 12, true);
    fputs("  ", r->out);
    write_bar(r->out, (double)r->bytes[i] / (double)largest);
    fputs("\n", r->out);
    return GP_OK;
}

static gp_status write_layers(const report *r, gp_error *err) {
    const gp_profile *profile = r->session->profile;
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        double most = 0;
        char text[48];
        for (int i = 0; i < profile->layer_count; i++)
            if (micro_batch_seconds(&device->layers[i]) > most) most = micro_batch_seconds(&device->layers[i]);
        fprintf(r->out, "\nlayers on %s, a micro-batch of %" PRId64,
                gp_device_text(text, device->kind, device->index, device->threads), profile->identity.samples);
        if (profile->identity.samples != gp_session_piece(r->session))
            fprintf(r->out, "; memory of one of %" PRId64, gp_session_piece(r->session));
        fprintf(r->out, "\n  %-*s%10s%10s  %-*s%12s\n", NAME, "layer", "forward", "backward", BAR, "time", "memory");
        for (int i = 0; i < profile->layer_count; i++) GP_RETURN_IF_FAILED(write_layer(r, device, i, most, err));
    }
    return GP_OK;
}

/* The age of a profile that was kept. */
static void write_taking(const report *r) {
    const gp_session *session = r->session;
    char taking[GP_TAKING_TEXT];
    if (session->profile->taken > 0 && session->measured.rounds == 0)
        fprintf(r->out, "             %s\n", gp_profile_taking(taking, session->profile, (int64_t)time(NULL)));
}

static void write_origin(const report *r) {
    const gp_session *session = r->session;
    const gp_profile *profile = session->profile;
    if (session->measured.rounds > 0) {
        char seconds[GP_REPORT_NUMBER], rounds[GP_REPORT_NUMBER];
        fprintf(r->out, "profile      measured in %s, %s, within ±%.1f%%",
                gp_report_seconds(seconds, session->measured.seconds),
                gp_report_count(rounds, session->measured.rounds, "round"), 100 * session->measured.width);
        if (profile->identity.together > 1)
            fprintf(r->out, ", %" PRId64 " devices of the host at work", profile->identity.together);
        fputs("\n", r->out);
        if (profile->path) gp_print(r->out, "             kept in %s\n", profile->path);
    } else {
        gp_print(r->out, "profile      %s\n", profile->path);
        if (session->profile_difference && *session->profile_difference)
            gp_print(r->out, "             taken %s\n", session->profile_difference);
    }
    write_taking(r);
}

/* How much longer rounds took than the medians add up to, where that is not next to nothing. */
static void write_slowdowns(const report *r) {
    const gp_profile *profile = r->session->profile;
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        char text[48];
        if (device->slowdown >= 0.995 && device->slowdown < 1.005) continue;
        fprintf(r->out,
                "             on %s whole rounds took %.2f times as long as the sum of the times below (slowdown)\n",
                gp_device_text(text, device->kind, device->index, device->threads), device->slowdown);
    }
}

static void write_balance(FILE *out, const int64_t *layers, int stages) {
    fputs("[", out);
    for (int s = 0; s < stages; s++) fprintf(out, "%s%" PRId64, s ? ", " : "", layers[s]);
    fputs("]", out);
}

static gp_status write_stages(const report *r, gp_error *err) {
    const gp_plan *plan = r->found.plan;
    double most = 0;
    int64_t first = 0;
    for (int s = 0; s < r->stages; s++)
        if (stage_seconds(&r->found, s) > most) most = stage_seconds(&r->found, s);
    fprintf(r->out, "\nstages\n  %5s  %-16s%7s  %-28s%10s  %-*s%7s\n", "stage", "device", "layers", "from … to", "time",
            BAR, "", "busy");
    for (int s = 0; s < r->stages; s++) {
        const gp_device_spec *spec = &plan->stage[s].spec;
        int64_t last = first + r->found.layers[s] - 1;
        char device[48], *span = NULL;
        fprintf(r->out, "  %5d  ", s);
        gp_report_cell(r->out, gp_device_text(device, spec->kind->name, spec->index, spec->threads), 16, false);
        fprintf(r->out, "%7" PRId64 "  ", r->found.layers[s]);
        GP_RETURN_IF_FAILED(gp_format_text(&span, err, "%s … %s", gp_layer_name(plan->graph, (int)first),
                                           gp_layer_name(plan->graph, (int)last)));
        gp_report_cell(r->out, span, 28, false);
        free(span);
        write_seconds(r->out, stage_seconds(&r->found, s));
        fputs("  ", r->out);
        write_bar(r->out, most > 0 ? stage_seconds(&r->found, s) / most : 0);
        fprintf(r->out, "%6.0f%%\n",
                r->found.expected.seconds > 0
                    ? 100 * r->found.expected.busy[r->found.plan->stage[s].worker] / r->found.expected.seconds
                    : 0);
        first = last + 1;
    }
    return GP_OK;
}

static void write_other(const report *r, const char *what, const cut *other) {
    char seconds[GP_REPORT_NUMBER];
    fprintf(r->out, "             %s ", what);
    write_balance(r->out, other->layers, r->stages);
    fprintf(r->out, ": %s, %.2f times as long\n", gp_report_seconds(seconds, other->expected.seconds),
            r->found.expected.seconds > 0 ? other->expected.seconds / r->found.expected.seconds : 1);
    if (!other->fits) fprintf(r->out, "             it does not fit: %s\n", other->missing.text);
}

/* The order of the devices, where that was found too, and what it is worth. */
static gp_status write_order(const report *r, gp_error *err) {
    const gp_session *session = r->session;
    const gp_device_order *orders = &session->orders;
    char *devices = NULL, count[GP_REPORT_NUMBER];
    if (!session->order) return GP_OK;
    GP_RETURN_IF_FAILED(gp_config_devices_text(&session->config->pipeline, &devices, err));
    gp_report_count(count, orders->count, "order");
    if (orders->least < 0)
        fprintf(r->out, "\norder        no cut fits in any of %s, by the sizes of single layers\n", count);
    else if (gp_ordering_is_as_given(session))
        fprintf(r->out, "\norder        as configured: the best of %s\n", count);
    else
        fprintf(r->out, "\norder        %s\n", devices);
    if (!gp_ordering_is_as_given(session) && orders->given >= 0)
        fprintf(r->out,
                "             the best of %s: in the configured order, the bottleneck stage takes %.2f times as long\n",
                count, orders->least > 0 ? (double)orders->given / (double)orders->least : 1);
    else if (!gp_ordering_is_as_given(session))
        fprintf(r->out, "             the best of %s: in the configured order, no cut fits\n", count);
    free(devices);
    return GP_OK;
}

/* Nothing where --set says what the file does not, so that --write would be refused. */
static gp_status write_balance_command(const report *r, bool moved, gp_error *err) {
    gp_status status = GP_OK;
    if (r->command->override_count > 0) status = gp_balance_check_written(r->session, r->command->config, err);
    if (status == GP_USAGE || status == GP_CONFIG) *err = (gp_error){0};
    if (status != GP_OK) return status == GP_USAGE || status == GP_CONFIG ? GP_OK : status;
    fprintf(r->out, "to write it  gpipe-balance%s --write", moved ? " --orders" : "");
    gp_command_write_profile(r->command, r->out);
    gp_command_write_processors(r->command, r->out);
    gp_command_write_overrides(r->command, (const char *const[]){NULL}, r->out);
    gp_command_write_config(r->command, r->out);
    fputs("\n", r->out);
    return GP_OK;
}

static gp_status write_what_to_type(const report *r, gp_error *err) {
    const gp_session *session = r->session;
    bool moved = session->order && !gp_ordering_is_as_given(session);
    char *devices = NULL, *layers = NULL;
    if (moved) GP_RETURN_IF_FAILED(gp_config_devices_text(&session->config->pipeline, &devices, err));
    gp_status status = gp_balance_text(r->found.layers, r->stages, &layers, err);
    if (status == GP_OK) {
        fprintf(r->out, "             in the configuration, under pipeline:  balance: %s\n", layers);
        if (moved) fprintf(r->out, "             and  devices: %s\n", devices);
        status = write_balance_command(r, moved, err);
    }
    if (status == GP_OK) {
        fputs("to train     gpipe-train", r->out);
        gp_command_write_overrides(
            r->command, (const char *const[]){"pipeline.balance", moved ? "pipeline.devices" : NULL, NULL}, r->out);
        if (moved) gp_command_write_set("pipeline.devices", devices, r->out);
        gp_command_write_set("pipeline.balance", layers, r->out);
        gp_command_write_config(r->command, r->out);
        fputs("\n", r->out);
    }
    free(layers);
    free(devices);
    return status;
}

static void write_expected(const report *r) {
    char samples[GP_REPORT_NUMBER], seconds[GP_REPORT_NUMBER];
    const gp_session *session = r->session;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    fprintf(r->out, "\npredicted    a step of %s: %s, bubble %.0f%%\n",
            gp_report_count(samples, session->config->data.batch, "sample"),
            gp_report_seconds(seconds, r->found.expected.seconds), 100 * r->found.expected.bubble);
    if (r->stages > 1) write_other(r, "the even cut", &r->even);
    if (r->configured.layers) write_other(r, "the configured", &r->configured);
    if (!r->configured.layers && pipeline->layers_count > 0) {
        fputs("             the configured ", r->out);
        write_balance(r->out, pipeline->layers, pipeline->layers_count);
        fprintf(r->out, " is not a cut of %s into %s\n", gp_report_count(samples, session->graph->layer_count, "layer"),
                gp_report_count(seconds, r->stages, "stage"));
    }
    gp_processors_warn(r->found.plan, true, r->out);
    fputs("\nbalance      ", r->out);
    write_balance(r->out, r->found.layers, r->stages);
    fputs("\n", r->out);
}

static gp_status write_report(report *r, gp_error *err) {
    GP_RETURN_IF_FAILED(report_init(r, err));
    write_origin(r);
    write_slowdowns(r);
    GP_RETURN_IF_FAILED(write_layers(r, err));
    GP_RETURN_IF_FAILED(write_stages(r, err));
    GP_RETURN_IF_FAILED(write_order(r, err));
    write_expected(r);
    return write_what_to_type(r, err);
}

static gp_status end_report(report *r, gp_status status, gp_error *err) {
    if (status == GP_OK && (fflush(r->out) != 0 || ferror(r->out)))
        status = gp_fail(err, GP_IO, "the report of the balance could not be written");
    report_fini(r);
    return status;
}

gp_status gp_balance_report(const gp_session *session, const gp_command *command, FILE *out, gp_error *err) {
    report r = {.session = session, .command = command, .out = out};
    return end_report(&r, write_report(&r, err), err);
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

static json_t *pack_cut(const report *r, const cut *c) {
    json_t *layers = json_array();
    for (int s = 0; s < r->stages; s++) json_array_append_new(layers, json_integer(c->layers[s]));
    return json_pack("{s:o, s:f, s:f, s:b}", "balance", layers, "step", c->expected.seconds * 1e3, "bubble",
                     c->expected.bubble, "fits", c->fits);
}

static json_t *pack_times(const gp_layer_times *layer) {
    json_t *times = json_object();
    for (int t = 0; t < GP_PROFILE_TIMES; t++)
        json_object_set_new(times, gp_profile_time_names[t], json_real(layer->time[t] * 1e3));
    return times;
}

static json_t *pack_layers(const report *r) {
    const gp_profile *profile = r->session->profile;
    json_t *layers = json_array();
    for (int i = 0; i < profile->layer_count; i++) {
        json_t *devices = json_object();
        for (int d = 0; d < profile->device_count; d++) {
            const gp_profile_device *device = &profile->devices[d];
            char text[48];
            json_object_set_new(devices, gp_device_text(text, device->kind, device->index, device->threads),
                                pack_times(&device->layers[i]));
        }
        json_array_append_new(layers, json_pack("{s:s, s:I, s:o}", "name", gp_layer_name(r->session->graph, i), "bytes",
                                                (json_int_t)r->bytes[i], "times", devices));
    }
    return layers;
}

static json_t *pack_stages(const report *r) {
    json_t *stages = json_array();
    for (int s = 0; s < r->stages; s++) {
        const gp_device_spec *spec = &r->found.plan->stage[s].spec;
        char text[48];
        json_array_append_new(stages,
                              json_pack("{s:s, s:i, s:I, s:f, s:f}", "device",
                                        gp_device_text(text, spec->kind->name, spec->index, spec->threads), "worker",
                                        r->found.plan->stage[s].worker, "layers", (json_int_t)r->found.layers[s],
                                        "micro_batch", stage_seconds(&r->found, s) * 1e3, "busy",
                                        r->found.expected.busy[r->found.plan->stage[s].worker] * 1e3));
    }
    return stages;
}

static json_t *pack_slowdowns(const report *r) {
    const gp_profile *profile = r->session->profile;
    json_t *slowdowns = json_object();
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        char text[48];
        json_object_set_new(slowdowns, gp_device_text(text, device->kind, device->index, device->threads),
                            json_real(device->slowdown));
    }
    return slowdowns;
}

/* Which of the configured devices stands where. */
static json_t *pack_order(const report *r) {
    json_t *order = json_array();
    for (int w = 0; w < r->session->config->pipeline.device_count; w++)
        json_array_append_new(order, json_integer(r->session->order[w]));
    return order;
}

/* A path that is no UTF-8 cannot be said exactly. */
static json_t *pack_path(const char *path, gp_error *err) {
    json_t *exact = json_string(path);
    if (exact) return exact;
    char *copy = NULL;
    if (gp_copy_text(&copy, path, err) != GP_OK) return NULL;
    json_t *printable = json_string(gp_make_printable(copy));
    free(copy);
    return printable;
}

static gp_status write_json(report *r, gp_error *err) {
    const gp_session *session = r->session;
    GP_RETURN_IF_FAILED(report_init(r, err));
    json_t *root = pack_cut(r, &r->found);
    json_object_set_new(root, "stages", pack_stages(r));
    json_object_set_new(root, "even", pack_cut(r, &r->even));
    if (session->order) json_object_set_new(root, "order", pack_order(r));
    if (r->configured.layers) json_object_set_new(root, "configured", pack_cut(r, &r->configured));
    json_object_set_new(root, "processors", json_integer(r->found.plan->processors));
    json_object_set_new(root, "threads", json_integer(gp_plan_threads(r->found.plan)));
    json_object_set_new(root, "slowdown", pack_slowdowns(r));
    json_object_set_new(root, "layers", pack_layers(r));
    if (session->profile->path) json_object_set_new(root, "profile", pack_path(session->profile->path, err));
    json_object_set_new(root, "measured", json_boolean(session->measured.rounds > 0));
    if (session->profile->taken > 0) {
        char when[GP_WHEN_TEXT];
        json_object_set_new(root, "taken_at", json_string(gp_when_text(when, session->profile->taken)));
    }
    if (session->profile_difference && *session->profile_difference)
        json_object_set_new(root, "taken", json_string(session->profile_difference));
    int failed = json_dumpf(root, r->out, JSON_ENSURE_ASCII | JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(root);
    fputs("\n", r->out);
    return failed ? gp_fail(err, GP_IO, "the report of the balance could not be written") : GP_OK;
}

gp_status gp_balance_report_json(const gp_session *session, FILE *out, gp_error *err) {
    report r = {.session = session, .out = out};
    return end_report(&r, write_json(&r, err), err);
}
