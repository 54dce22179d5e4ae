/* What a search found, for people, for programs, and for the configuration. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/printable.h"
#include "config/splice.h"
#include "config/tree.h"
#include "profile/when.h"
#include "report/balance_write.h"
#include "report/command_text.h"
#include "report/plan_report_parts.h"
#include "report/warnings.h"
#include "tune/search.h"

enum { FASTEST = 3, MOST_ROWS = 8 };

/* The largest memory of those before it, all of which are faster, is more than its own. */
static bool saves_memory(const gp_search *search, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (search->items[i].memory <= search->items[index].memory) return false;
    return true;
}

/* The time beside that of the first plan, the memory beside that of the plan that needs least. */
static void write_comparison(const gp_search *search, const gp_candidate *it, FILE *out) {
    const gp_candidate *first = &search->items[0];
    size_t least = first->memory;
    double slower = 100 * (it->seconds / first->seconds - 1), off = slower > 0 ? slower : -slower;
    for (size_t i = 0; i < search->count; i++)
        if (search->items[i].memory < least) least = search->items[i].memory;
    bool other = !search->disturbed && (it->seconds > first->seconds || it->seconds < first->seconds);
    bool equal = it->equal && first->equal;
    if (other && equal)
        fputs("equal", out);
    else if (other)
        fprintf(out, "%.*f%% %s", search->spread > 0 ? 0 : 1, search->spread >= 0.1 ? 10 * round(off / 10) : off,
                slower > 0 ? "slower" : "faster");
    if (it->memory > least)
        fprintf(out, "%s%.1f%% more memory", other ? ", " : "", 100 * ((double)it->memory / (double)least - 1));
    if (!other && it->memory <= least) fputs("-", out);
}

/* One mode and nothing else. */
static bool is_uniform(const gp_candidate *it) {
    return it->checkpoint[0] != '[' && it->checkpoint[0] != '{';
}

/* "the first device", "the first 2 devices" */
static gp_report_text first_devices(int count) {
    gp_report_text its = {"the first device"};
    if (count > 1) snprintf(its.text, sizeof its.text, "the first %d devices", count);
    return its;
}

static bool is_on_few(const gp_search *search, const gp_candidate *it) {
    return it->workers < search->config->pipeline.device_count && !it->way->threads;
}

static void write_row(const gp_search *search, const gp_candidate *it, FILE *out) {
    fprintf(out, "  %6d  ", it->micro_batches);
    gp_report_cell(out, it->schedule, 27, false);
    gp_report_cell(out, is_uniform(it) ? it->checkpoint : "by stage", 12, false);
    gp_report_cell(out, gp_report_predicted(it->seconds, search->spread).text, 10, true);
    fprintf(out, "%6.0f%%", 100 * it->bubble);
    gp_report_cell(out, gp_report_bytes(it->memory).text, 12, true);
    fputs("  ", out);
    write_comparison(search, it, out);
    fputs("\n          balance ", out);
    gp_balance_write_layers(out, it->layers, it->stages);
    if (it->way->threads)
        fprintf(out, " on %d device%s of %s", it->workers, it->workers == 1 ? "" : "s",
                gp_report_count(it->way->threads, "thread").text);
    else if (is_on_few(search, it))
        fprintf(out, " on %s", first_devices(it->workers).text);
    if (it->way->replicas > 1)
        fprintf(out, ", %s of %s", gp_report_count(it->way->replicas, "replica").text,
                it->stages == 1 ? "the stage" : "each stage");
    if (it->workers > 1) {
        fputs("; memory of the workers", out);
        for (int w = 0; w < it->workers && w < GP_REPORT_ALL_STAGES; w++)
            fprintf(out, "%s %s", w ? "," : "", gp_report_bytes(it->arena[w]).text);
    }
    if (it->norm.least > 0) fprintf(out, "; batch norm of %s", gp_report_count(it->norm.least, "sample").text);
    if (!is_uniform(it)) fprintf(out, "\n          checkpoint %s", it->checkpoint);
    fputs("\n", out);
}

/* What --set changed of devices and batch is not in the file; and whether it says something of lockstep. */
static gp_status check_file(const gp_search *search, const char *path, bool *lockstep, gp_error *err) {
    gp_config *config = NULL;
    GP_RETURN_IF_FAILED(gp_search_load(path, NULL, 0, &config, err));
    gp_status status = gp_balance_check_file(search->config, NULL, config, path, err);
    int64_t batch = config->data.batch;
    *lockstep = gp_yaml_find(config->document, "pipeline.lockstep") != NULL;
    gp_config_destroy(&config);
    if (status != GP_OK || batch == search->config->data.batch) return status;
    return gp_fail(err, GP_USAGE,
                   "--write: the search was for data.batch %" PRId64 " (--set), but %s has %" PRId64
                   "; change the file first",
                   search->config->data.batch, path, batch);
}

/* It is for the devices as configured. */
static bool has_replicas_key(const gp_search *search) {
    return gp_yaml_find(search->config->document, "pipeline.replicas") != NULL;
}

static gp_status write_commands(const gp_search *search, FILE *out, gp_error *err) {
    const gp_search_request *request = search->request;
    const gp_candidate *it = &search->items[0];
    const gp_command command = {request->config, request->overrides, request->override_count, request->profile,
                                request->processors};
    char *balance = NULL, number[16];
    bool lockstep, moves = !it->way->configured, replicas = moves && has_replicas_key(search);
    gp_status checked = GP_OK;
    fputs("\n", out);
    if (request->override_count > 0) checked = check_file(search, request->config, &lockstep, err);
    char option[80];
    snprintf(option, sizeof option, " --search%s%s", request->frees ? "=" : "", request->frees ? request->frees : "");
    GP_RETURN_IF_FAILED(gp_command_write_again(&command, option, checked, out, err));
    GP_RETURN_IF_FAILED(gp_balance_text(it->layers, it->stages, &balance, err));
    snprintf(number, sizeof number, "%d", it->micro_batches);
    gp_command_set sets[7];
    int count = 0;
    if (replicas) sets[count++] = (gp_command_set){"pipeline.replicas", "1"};
    if (moves) sets[count++] = (gp_command_set){"pipeline.devices", it->way->devices};
    if (request->frees_micro_batches) sets[count++] = (gp_command_set){"pipeline.micro_batches", number};
    sets[count++] = (gp_command_set){"pipeline.schedule", it->schedule};
    int first = count;
    sets[count++] = (gp_command_set){"pipeline.checkpoint", it->checkpoint};
    sets[count++] = (gp_command_set){"pipeline.lockstep", "auto"};
    sets[count++] = (gp_command_set){"pipeline.balance", balance};
    gp_command_train(&command, sets, count, first, out);
    free(balance);
    return GP_OK;
}

/* How old the profiles are, and how disturbed. */
static void write_profiles(const gp_search *search, FILE *out) {
    char age[GP_WHEN_TEXT];
    if (search->oldest == 0) return;
    fprintf(out, "             profiles: %d measured now, the oldest taken %s, slowdown up to %.2f\n", search->measured,
            gp_when_age(age, search->oldest, (int64_t)time(NULL)), search->slowdown);
}

/* What the search has left as it is. */
static void write_kept(const gp_search *search, FILE *out) {
    const gp_search_request *request = search->request;
    bool micro_batches = !request->frees_micro_batches, replicas = !request->frees_replicas;
    if (micro_batches || replicas)
        fprintf(out, "             %s%s%s as configured; --search=%s tries others too\n",
                micro_batches ? "micro_batches" : "", micro_batches && replicas ? " and " : "",
                replicas ? "replicas" : "",
                micro_batches && replicas ? "micro_batches,replicas"
                : request->frees          ? "micro_batches,replicas"
                : micro_batches           ? "micro_batches"
                                          : "replicas");
    if (search->untimed)
        fprintf(out, "             the profile has no times of %s: no stages of so many were tried\n",
                gp_report_count(search->untimed, "thread").text);
}

/* Why no plan is recommended. */
static void write_disturbed(const gp_search *search, FILE *out) {
    if (!search->disturbed) return;
    fprintf(out,
            "warning      not ranked: other programs disturbed the timing of layers (%s); search again when\n"
            "             they have ended. The plans below are ordered by stages and micro-batches\n",
            search->disturbance);
}

static void write_processors(const gp_search *search, FILE *out) {
    if (search->threads <= search->processors) return;
    fprintf(out, "warning      %s compute on %s, so they take turns; the steps below include this\n             ",
            gp_report_count(search->threads, "thread").text, gp_report_count(search->processors, "processor").text);
    if (!search->few)
        fprintf(out, "give the device%s at most %s%s\n", search->config->pipeline.device_count > 1 ? "s" : "",
                gp_report_count(search->processors, "thread").text,
                search->config->pipeline.device_count > 1 ? " in all" : "");
    else if (is_on_few(search, &search->items[0]))
        fprintf(out, "use only %s: with all of them a step is at most %.0f%% faster\n", first_devices(search->few).text,
                100 * GP_SEARCH_GAIN);
    else
        fprintf(out, "plans on only %s do not fit, or are more than %.0f%% slower\n", first_devices(search->few).text,
                100 * GP_SEARCH_GAIN);
}

gp_status gp_search_report(const gp_search *search, FILE *out, gp_error *err) {
    int devices = search->config->pipeline.device_count;
    fprintf(out, "search       %d plans for a batch of %" PRId64 " on %d device%s: %zu fit", search->tried,
            search->config->data.batch, devices, devices == 1 ? "" : "s", search->count);
    if (search->too_large) fprintf(out, ", %d need too much memory", search->too_large);
    if (search->refused) fprintf(out, ", %d are not possible", search->refused);
    fputs("\n", out);
    write_profiles(search, out);
    if (search->why[0]) gp_print(out, "             the first plan left out, %s\n", search->why);
    write_kept(search, out);
    write_processors(search, out);
    write_disturbed(search, out);
    gp_norm_warn_of(search->items[0].norm, search->config->data.batch, search->items[0].micro_batches, true, out);
    fputs("\n  micro-\n  batches schedule                   checkpoint        step  bubble      memory  compared\n",
          out);
    int rows = 0;
    for (size_t i = 0; i < search->count && rows < MOST_ROWS; i++) {
        if (i >= FASTEST && !saves_memory(search, i)) continue;
        write_row(search, &search->items[i], out);
        rows++;
    }
    if (rows > 1)
        fprintf(out, "  compared: %smemory (of the largest worker) with the plan that needs least\n",
                search->disturbed ? "" : "time with the first plan, ");
    if (search->spread > 0 && !search->disturbed)
        fprintf(out, "  times are known to ±%.*f%%; of plans that differ by less (equal), the simplest is first\n",
                search->spread < 0.01, 100 * search->spread);
    if (!search->disturbed) GP_RETURN_IF_FAILED(write_commands(search, out, err));
    return gp_report_end(out, "the result of the search", err);
}

static json_t *pack(const gp_candidate *it) {
    json_t *balance = json_array(), *memory = json_array();
    for (int s = 0; s < it->stages; s++) json_array_append_new(balance, json_integer(it->layers[s]));
    for (int w = 0; w < it->workers; w++) json_array_append_new(memory, json_integer((json_int_t)it->arena[w]));
    return json_pack("{s:s, s:i, s:s, s:s, s:i, s:o, s:f, s:f, s:o, s:b, s:o*}", "devices", it->way->devices,
                     "micro_batches", it->micro_batches, "schedule", it->schedule, "checkpoint", it->checkpoint,
                     "workers", it->workers, "balance", balance, "step", it->seconds * 1e3, "bubble", it->bubble,
                     "memory", memory, "equal", it->equal, "batch_norm_samples",
                     it->norm.least > 0 ? json_integer((json_int_t)it->norm.least) : NULL);
}

gp_status gp_search_report_json(const gp_search *search, FILE *out, gp_error *err) {
    json_t *plans = json_array();
    for (size_t i = 0; i < search->count; i++) json_array_append_new(plans, pack(&search->items[i]));
    json_t *root = json_pack("{s:I, s:i, s:i, s:i, s:f, s:f, s:b, s:i, s:i, s:i, s:o}", "batch",
                             (json_int_t)search->config->data.batch, "processors", search->processors, "threads",
                             search->threads, "measured", search->measured, "slowdown", search->slowdown, "spread",
                             search->spread, "ranked", !search->disturbed, "tried", search->tried, "too_large",
                             search->too_large, "refused", search->refused, "plans", plans);
    return gp_report_json(root, out, "the result of the search", err);
}

/* ---- into the configuration -------------------------------------------------------------------------------------- */

gp_status gp_search_write(const gp_search *search, const char *path, gp_error *err) {
    const gp_candidate *it = &search->items[0];
    char number[16], *balance = NULL;
    bool lockstep = false;
    if (search->disturbed)
        return gp_fail(err, GP_DATA,
                       "--write: other programs disturbed the timing of layers (%s), so that no plan is "
                       "recommended; search again when they have ended",
                       search->disturbance);
    GP_RETURN_IF_FAILED(check_file(search, path, &lockstep, err));
    GP_RETURN_IF_FAILED(gp_balance_text(it->layers, it->stages, &balance, err));
    snprintf(number, sizeof number, "%d", it->micro_batches);
    gp_yaml_setting settings[7] = {{"schedule", it->schedule}, {"checkpoint", it->checkpoint}, {"balance", balance}};
    int count = 3;
    if (search->request->frees_micro_batches) settings[count++] = (gp_yaml_setting){"micro_batches", number};
    if (lockstep) settings[count++] = (gp_yaml_setting){"lockstep", "auto"};
    if (!it->way->configured) settings[count++] = (gp_yaml_setting){"devices", it->way->devices};
    if (!it->way->configured && has_replicas_key(search)) settings[count++] = (gp_yaml_setting){"replicas", "1"};
    gp_status status = gp_yaml_splice_file(path, "pipeline", settings, count, err);
    free(balance);
    return status;
}
