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
#include "report/warnings.h"

enum { BAR = 12, NAME = 26 };

/* A cut of the layers, and what it promises. */
typedef struct cut {
    const int64_t *layers; /* [stage]; borrowed */
    gp_plan *plan;
    gp_expectation expected;
    bool fits;        /* into the memory that the devices may use */
    gp_error missing; /* else: what does not */
} cut;

typedef struct report {
    const gp_session *session;
    const gp_command *command; /* for people only */
    FILE *out;
    int stages;
    int64_t *bytes, *even_layers; /* [layer]; [stage] */
    cut found, even, configured;  /* configured: layers NULL where the configuration names none */
    gp_durations durations;       /* of the mini-batch that trains, the first of the found plan */
} report;

/* ---- what is reported -------------------------------------------------------------------------------------------- */

static void cut_fini(cut *c) {
    free(c->expected.busy);
    gp_plan_destroy(&c->plan);
}

static gp_status look_at(const report *r, const int64_t *layers, cut *out, gp_error *err) {
    int worker;
    out->layers = layers;
    GP_RETURN_IF_FAILED(gp_session_plan_cut(r->session, layers, &out->plan, err));
    out->fits = gp_memory_check(out->plan, &worker, &out->missing) == GP_OK;
    return gp_expect(out->plan, 0, r->session->profile, &out->expected, err);
}

static gp_status report_init(report *r, gp_error *err) {
    const gp_session *session = r->session;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int layers = session->graph->layer_count;
    r->stages = session->plan->stages->numbers;
    GP_RETURN_IF_FAILED(GP_NEW(&r->bytes, layers, err));
    GP_RETURN_IF_FAILED(
        gp_cost_by_size(session->graph, gp_session_share(session), session->update.states, r->bytes, err));
    GP_RETURN_IF_FAILED(look_at(r, session->layers, &r->found, err));
    GP_RETURN_IF_FAILED(gp_durations_init(r->found.plan, 0, session->profile, &r->durations, err));
    /* The same number of layers on each stage, the first ones having one more where that does not come out even. */
    GP_RETURN_IF_FAILED(GP_NEW(&r->even_layers, r->stages, err));
    for (int s = 0; s < r->stages; s++) r->even_layers[s] = layers / r->stages + (s < layers % r->stages);
    GP_RETURN_IF_FAILED(look_at(r, r->even_layers, &r->even, err));
    return pipeline->balance == GP_BALANCE_LAYERS ? look_at(r, pipeline->layers, &r->configured, err) : GP_OK;
}

static void report_fini(report *r) {
    cut_fini(&r->found);
    cut_fini(&r->even);
    cut_fini(&r->configured);
    gp_durations_fini(&r->durations);
    free(r->bytes);
    free(r->even_layers);
}

static double micro_batch_seconds(const gp_layer_times *layer) {
    return layer->time[GP_PROFILE_TIME_FORWARD] + layer->time[GP_PROFILE_TIME_BACKWARD_INPUT] +
           layer->time[GP_PROFILE_TIME_BACKWARD_WEIGHT];
}

/* The first replica of a stage. */
static const gp_stage_plan *found_stage(const report *r, int number) {
    return &r->found.plan->stage[r->found.plan->stages->first[number]];
}

/* What a micro-batch takes of the stage, what is computed again for it included: the mean over all of them. */
static double stage_seconds(const report *r, int s) {
    const gp_mini_plan *mini = r->durations.mini;
    const gp_program *program = &mini->programs->worker[found_stage(r, s)->worker];
    double seconds = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (gp_instr_computes(instr) && gp_instr_has_micro(instr) && instr->stage == found_stage(r, s)->stage)
            seconds += gp_durations_computing(&r->durations, instr);
    }
    return seconds / mini->pieces;
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
    gp_report_cell(out, seconds > 0 ? gp_report_seconds(seconds).text : "0", 10, true);
}

static void write_layer(const report *r, const gp_profile_device *device, int i, double most) {
    const gp_graph *graph = r->session->graph;
    const gp_layer_times *layer = &device->layers[i];
    const gp_node *node = &graph->nodes[i > 0 ? graph->unit_end[i - 1] : 0];
    int64_t largest = 1;
    for (int j = 0; j < graph->layer_count; j++)
        if (r->bytes[j] > largest) largest = r->bytes[j];
    fputs("  ", r->out);
    gp_report_format_cell(r->out, NAME, "%s %s", node->layer->type->name, node->name);
    write_seconds(r->out, layer->time[GP_PROFILE_TIME_FORWARD]);
    write_seconds(r->out, layer->time[GP_PROFILE_TIME_BACKWARD_INPUT] + layer->time[GP_PROFILE_TIME_BACKWARD_WEIGHT]);
    fputs("  ", r->out);
    write_bar(r->out, most > 0 ? micro_batch_seconds(layer) / most : 0);
    gp_report_cell(r->out, gp_report_bytes((size_t)r->bytes[i]).text, 12, true);
    fputs("  ", r->out);
    write_bar(r->out, (double)r->bytes[i] / (double)largest);
    fputs("\n", r->out);
}

static void write_layers(const report *r) {
    const gp_profile *profile = r->session->profile;
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        double most = 0;
        for (int i = 0; i < profile->layer_count; i++)
            if (micro_batch_seconds(&device->layers[i]) > most) most = micro_batch_seconds(&device->layers[i]);
        fprintf(r->out, "\nlayers on %s, a micro-batch of %" PRId64, gp_report_profiled(device).text,
                profile->identity.samples);
        if (profile->identity.samples != gp_session_share(r->session))
            fprintf(r->out, "; memory of one of %" PRId64, gp_session_share(r->session));
        fprintf(r->out, "\n  %-*s%10s%10s  %-*s%12s\n", NAME, "layer", "forward", "backward", BAR, "time", "memory");
        for (int i = 0; i < profile->layer_count; i++) write_layer(r, device, i, most);
    }
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
        fprintf(r->out, "profile      measured in %s, %s, within ±%.1f%%",
                gp_report_seconds(session->measured.seconds).text,
                gp_report_count(session->measured.rounds, "round").text, 100 * session->measured.width);
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
        if (device->slowdown >= 0.995 && device->slowdown < 1.005) continue;
        fprintf(r->out,
                "             on %s whole rounds took %.2f times as long as the sum of the times below (slowdown)\n",
                gp_report_profiled(device).text, device->slowdown);
    }
}

static void write_links(const report *r) {
    const gp_profile *profile = r->session->profile;
    const char *head = "links";
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        const gp_profile_link *link = &profile->links[k];
        if (!link->known) continue;
        fprintf(r->out, "%-13s%s: %s, %s\n", head, gp_link_kind_text((gp_link_kind)k),
                gp_report_seconds(link->latency).text, gp_report_rate(1 / link->per_byte).text);
        head = "";
    }
}

static void write_stages(const report *r) {
    const gp_plan *plan = r->found.plan;
    const gp_expectation *expected = &r->found.expected;
    double most = 0;
    int64_t first = 0;
    for (int s = 0; s < r->stages; s++)
        if (stage_seconds(r, s) > most) most = stage_seconds(r, s);
    fprintf(r->out, "\nstages\n  %5s  %-16s%7s  %-28s%10s  %-*s%7s\n", "stage", "device", "layers", "from … to", "time",
            BAR, "", "busy");
    for (int s = 0; s < r->stages; s++) {
        const gp_device_spec *spec = &found_stage(r, s)->spec;
        int64_t last = first + r->found.layers[s] - 1;
        fprintf(r->out, "  %5d  ", s);
        gp_report_cell(r->out, gp_report_device(spec).text, 16, false);
        fprintf(r->out, "%7" PRId64 "  ", r->found.layers[s]);
        gp_report_format_cell(r->out, 28, "%s … %s", gp_layer_name(plan->graph, (int)first),
                              gp_layer_name(plan->graph, (int)last));
        write_seconds(r->out, stage_seconds(r, s));
        fputs("  ", r->out);
        write_bar(r->out, most > 0 ? stage_seconds(r, s) / most : 0);
        fprintf(r->out, "%6.0f%%\n",
                expected->seconds > 0 ? 100 * expected->busy[found_stage(r, s)->worker] / expected->seconds : 0);
        first = last + 1;
    }
}

static void write_other(const report *r, const char *what, const cut *other) {
    fprintf(r->out, "             %s ", what);
    gp_balance_write_layers(r->out, other->layers, r->stages);
    double spread = gp_profile_spread(r->session->profile);
    double factor = r->found.expected.seconds > 0 ? other->expected.seconds / r->found.expected.seconds : 1;
    fprintf(r->out, ": %s", gp_report_predicted(other->expected.seconds, spread).text);
    if (spread > 0 && factor < 1 + spread && factor > 1 - spread)
        fprintf(r->out, ", equal: times are known to ±%.0f%%\n", 100 * spread);
    else
        fprintf(r->out, ", %.*f times as long\n", spread >= 0.1 ? 1 : 2, factor);
    if (!other->fits) fprintf(r->out, "             it does not fit: %s\n", other->missing.text);
}

/* The order of the devices, where that was found too, and what it is worth. */
static gp_status write_order(const report *r, gp_error *err) {
    const gp_session *session = r->session;
    const gp_device_order *orders = &session->orders;
    char *devices = NULL;
    if (!session->order) return GP_OK;
    GP_RETURN_IF_FAILED(gp_config_devices_text(&session->config->pipeline, &devices, err));
    const gp_report_text count = gp_report_count(orders->count, "order");
    if (orders->least < 0)
        fprintf(r->out, "\norder        no cut fits in any of %s, by the sizes of single layers\n", count.text);
    else if (!session->moved)
        fprintf(r->out, "\norder        as configured: the best of %s\n", count.text);
    else
        fprintf(r->out, "\norder        %s\n", devices);
    if (session->moved && orders->given >= 0)
        fprintf(r->out,
                "             the best of %s: in the configured order, the bottleneck stage takes %.2f times as long\n",
                count.text, orders->least > 0 ? (double)orders->given / (double)orders->least : 1);
    else if (session->moved)
        fprintf(r->out, "             the best of %s: in the configured order, no cut fits\n", count.text);
    free(devices);
    return GP_OK;
}

static gp_status write_what_to_type(const report *r, gp_error *err) {
    const gp_session *session = r->session;
    const char *option = session->moved ? " --orders" : "";
    char *devices = NULL, *layers = NULL;
    gp_status status = gp_balance_text(r->found.layers, r->stages, &layers, err), checked = GP_OK;
    if (status == GP_OK) status = gp_config_devices_text(&session->config->pipeline, &devices, err);
    if (status == GP_OK) {
        const gp_command_set sets[] = {{"pipeline.devices", devices}, {"pipeline.balance", layers}};
        fprintf(r->out, "             in the configuration, under pipeline:  balance: %s\n", layers);
        if (session->moved) fprintf(r->out, "             and  devices: %s\n", devices);
        if (r->command->override_count > 0) checked = gp_balance_check_written(session, r->command->config, err);
        status = gp_command_write_again(r->command, option, checked, r->out, err);
        if (status == GP_OK) gp_command_train(r->command, sets + !session->moved, 1 + session->moved, 0, r->out);
    }
    free(layers);
    free(devices);
    return status;
}

static void write_expected(const report *r) {
    const gp_session *session = r->session;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    fprintf(r->out, "\npredicted    a step of %s: %s, bubble %.0f%%\n",
            gp_report_count(session->config->data.batch, "sample").text,
            gp_report_predicted(r->found.expected.seconds, gp_profile_spread(session->profile)).text,
            100 * r->found.expected.bubble);
    char how[GP_DISTURBANCE_TEXT];
    if (gp_profile_is_disturbed(session->profile))
        fprintf(r->out,
                "warning      other programs disturbed the timing of layers (%s), so another balance may be "
                "better;\n"
                "             run gpipe-balance --again when they have ended\n",
                gp_profile_disturbance(how, session->profile));
    if (r->stages > 1) write_other(r, "the even cut", &r->even);
    if (r->configured.layers) write_other(r, "the configured", &r->configured);
    if (!r->configured.layers && pipeline->layers_count > 0) {
        fputs("             the configured ", r->out);
        gp_balance_write_layers(r->out, pipeline->layers, pipeline->layers_count);
        fprintf(r->out, " is not a cut of %s into %s\n", gp_report_count(session->graph->layer_count, "layer").text,
                gp_report_count(r->stages, "stage").text);
    }
    gp_processors_warn(r->found.plan, true, r->out);
    gp_norm_warn(r->found.plan, true, r->out);
    fputs("\nbalance      ", r->out);
    gp_balance_write_layers(r->out, r->found.layers, r->stages);
    fputs("\n", r->out);
}

static gp_status write_report(report *r, gp_error *err) {
    GP_RETURN_IF_FAILED(report_init(r, err));
    write_origin(r);
    write_slowdowns(r);
    write_links(r);
    write_layers(r);
    write_stages(r);
    GP_RETURN_IF_FAILED(write_order(r, err));
    write_expected(r);
    return write_what_to_type(r, err);
}

static const char whole[] = "the report of the balance";

gp_status gp_balance_report(const gp_session *session, const gp_command *command, FILE *out, gp_error *err) {
    report r = {.session = session, .command = command, .out = out};
    gp_status status = write_report(&r, err);
    report_fini(&r);
    return status == GP_OK ? gp_report_end(out, whole, err) : status;
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
            json_object_set_new(devices, gp_report_profiled(device).text, pack_times(&device->layers[i]));
        }
        json_array_append_new(layers, json_pack("{s:s, s:I, s:o}", "name", gp_layer_name(r->session->graph, i), "bytes",
                                                (json_int_t)r->bytes[i], "times", devices));
    }
    return layers;
}

static json_t *pack_stages(const report *r) {
    json_t *stages = json_array();
    for (int s = 0; s < r->stages; s++) {
        const gp_device_spec *spec = &found_stage(r, s)->spec;
        json_array_append_new(stages,
                              json_pack("{s:s, s:i, s:I, s:f, s:f}", "device", gp_report_device(spec).text, "worker",
                                        found_stage(r, s)->worker, "layers", (json_int_t)r->found.layers[s],
                                        "micro_batch", stage_seconds(r, s) * 1e3, "busy",
                                        r->found.expected.busy[found_stage(r, s)->worker] * 1e3));
    }
    return stages;
}

static json_t *pack_slowdowns(const report *r) {
    const gp_profile *profile = r->session->profile;
    json_t *slowdowns = json_object();
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        json_object_set_new(slowdowns, gp_report_profiled(device).text, json_real(device->slowdown));
    }
    return slowdowns;
}

/* NULL: there are none. */
static json_t *pack_links(const report *r) {
    const gp_profile *profile = r->session->profile;
    json_t *links = gp_profile_has_links(profile) ? json_object() : NULL;
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        const gp_profile_link *link = &profile->links[k];
        if (link->known)
            json_object_set_new(
                links, gp_link_kind_name((gp_link_kind)k),
                json_pack("{s:f, s:f}", "latency_us", 1e6 * link->latency, "bytes_per_s", 1 / link->per_byte));
    }
    return links;
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

/* A member is left out if its value is NULL. */
static json_t *pack_report(report *r, gp_error *err) {
    const gp_session *session = r->session;
    const gp_profile *profile = session->profile;
    const char *difference = session->profile_difference;
    char when[GP_WHEN_TEXT];
    json_t *root = pack_cut(r, &r->found);
    json_t *rest = json_pack(
        "{s:o, s:o, s:o*, s:o*, s:i, s:i, s:o, s:o*, s:o, s:o*, s:b, s:s*, s:o*}", "stages", pack_stages(r), "even",
        pack_cut(r, &r->even), "order", session->order ? pack_order(r) : NULL, "configured",
        r->configured.layers ? pack_cut(r, &r->configured) : NULL, "processors", r->found.plan->processors, "threads",
        gp_plan_threads(r->found.plan), "slowdown", pack_slowdowns(r), "links", pack_links(r), "layers", pack_layers(r),
        "profile", profile->path ? pack_path(profile->path, err) : NULL, "measured", session->measured.rounds > 0,
        "taken_at", profile->taken > 0 ? gp_when_text(when, profile->taken) : NULL, "taken",
        difference && *difference ? json_string(difference) : NULL);
    bool whole_report = rest && json_object_update(root, rest) == 0;
    json_decref(rest);
    if (whole_report) return root;
    json_decref(root);
    return NULL;
}

gp_status gp_balance_report_json(const gp_session *session, FILE *out, gp_error *err) {
    report r = {.session = session, .out = out};
    gp_status status = report_init(&r, err);
    if (status == GP_OK) status = gp_report_json(pack_report(&r, err), out, whole, err);
    report_fini(&r);
    return status;
}
