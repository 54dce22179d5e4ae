#include "report/plan_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "balance/expect.h"
#include "base/json_text.h"
#include "base/memory.h"
#include "base/replace.h"
#include "plan/identity.h"
#include "plan/lines.h"
#include "plan/link_use.h"
#include "plan/memory.h"
#include "profile/profile_words.h"
#include "report/plan_report.h"
#include "report/text.h"
#include "plan/program_json.h"
#include "session/session.h"

gp_plan_json gp_plan_json_of(const gp_session *session) {
    return (gp_plan_json){.plan = session->plan, .profile = session->profile, .config = session->whole->path};
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

static const char *times_of(const gp_profile *profile) {
    if (gp_profile_is_counted(profile)) return "counted";
    return profile->scaled ? "scaled" : "profile";
}

static gp_status write_head(const gp_plan_json *its, FILE *out, gp_error *err) {
    const gp_plan *plan = its->plan;
    const char *slash = strrchr(its->config, '/');
    char *source = NULL;
    GP_RETURN_IF_FAILED(gp_profile_source(its->profile, &source, err));
    fputs("{\"format\":\"gpipe-plan\",\"version\":1,\"kind\":\"plan\",\"name\":", out);
    gp_json_text(out, slash ? slash + 1 : its->config);
    fprintf(out, ",\n\"times\":\"%s\",\"source\":", times_of(its->profile));
    gp_json_text(out, source);
    fprintf(out, ",\n\"schedule\":\"%s\",\"lockstep\":%s,\"processors\":%d,\n\"identity\":\"%016" PRIx64 "\"",
            gp_schedule_kind_name(plan->schedule.kind), gp_plan_has_barriers(plan) ? "true" : "false", plan->processors,
            gp_identity_plan(plan));
    gp_norm_samples norm = gp_plan_norm_samples(plan);
    if (norm.least > 0) fprintf(out, ",\n\"batch_norm_samples\":%" PRId64, norm.least);
    free(source);
    return GP_OK;
}

/* ---- layers, stages, workers, copies ----------------------------------------------------------------------------- */

static void write_layers(const gp_plan *plan, FILE *out) {
    fputs(",\n\"layers\":[", out);
    for (int n = 0; n < plan->graph->node_count; n++) {
        const gp_node *node = &plan->graph->nodes[n];
        fputs(n ? ",\n{\"name\":" : "\n{\"name\":", out);
        gp_json_text(out, node->name);
        fprintf(out, ",\"kind\":\"%s\",\"stage\":%d,\"layer\":%d}", node->layer->type->name,
                plan->stages->stage_of_node[n], node->unit);
    }
    fputs("]", out);
}

/* Passes of a stage that touch a value that it takes (`take`) or a gradient that it receives, as bits of routines. */
static unsigned find_users(const gp_stage_plan *its, bool gradient, int at) {
    unsigned users = 0;
    for (int i = 0; i < its->sized_count; i++)
        users |= (gradient ? its->sized[i].grad_users : its->sized[i].take_users)[at];
    return users;
}

/* The same as the ops of instructions. */
static void write_readers(const char *key, unsigned users, FILE *out) {
    static const gp_instr_op op_of[GP_ROUTINES] = {[GP_ROUTINE_KEEP] = GP_INSTR_FORWARD,
                                                   [GP_ROUTINE_DISCARD] = GP_INSTR_FORWARD,
                                                   [GP_ROUTINE_EVALUATE] = GP_INSTR_FORWARD,
                                                   [GP_ROUTINE_RECOMPUTE] = GP_INSTR_RECOMPUTE,
                                                   [GP_ROUTINE_BACKWARD] = GP_INSTR_BACKWARD,
                                                   [GP_ROUTINE_BACKWARD_INPUT] = GP_INSTR_BACKWARD_INPUT,
                                                   [GP_ROUTINE_BACKWARD_WEIGHT] = GP_INSTR_BACKWARD_WEIGHT};
    unsigned written = 0;
    fprintf(out, ",\"%s\":[", key);
    for (int k = 0; k < GP_ROUTINES; k++) {
        if (!(users >> k & 1) || written >> op_of[k] & 1) continue;
        fprintf(out, "%s\"%s\"", written ? "," : "", gp_instr_op_name((int)op_of[k]));
        written |= 1U << op_of[k];
    }
    fputs("]", out);
}

static int most_micro_batches(const gp_plan *plan) {
    int most = 0;
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].pieces > most) most = plan->minis[m].pieces;
    return most;
}

static void write_buffer(const gp_plan *plan, int s, const char *name, const char *what, size_t offset, size_t bytes,
                         bool *any, FILE *out) {
    char text[400];
    if (bytes == 0 || offset == GP_NO_OFFSET) return;
    snprintf(text, sizeof text, "%s%s%s", name, *name && *what ? ": " : "", what);
    fputs(*any ? ",{\"name\":" : "{\"name\":", out);
    gp_json_text(out, text);
    fprintf(out, ",\"offset\":%zu,\"bytes\":%zu}", plan->stage[s].base + offset, bytes);
    *any = true;
}

static void write_param_buffers(const gp_plan *plan, int s, const gp_param_plan *param, bool *any, FILE *out) {
    const char *name = plan->graph->params[param->param].name;
    write_buffer(plan, s, name, "", param->master, param->stored, any, out);
    write_buffer(plan, s, name, "working copy", param->copy.offset, param->copy.bytes, any, out);
    if (!param->trained) return;
    write_buffer(plan, s, name, "gradient", param->grad, param->grad_bytes, any, out);
    for (int i = 0; i < plan->update.states; i++)
        write_buffer(plan, s, name, i ? "second state" : "state", param->state[i], (size_t)param->own.count, any, out);
}

/* What outlives the step, and the slots, as bytes from the start of the worker's arena. */
static void write_stage_memory(const gp_plan *plan, int s, FILE *out) {
    const gp_stage_plan *its = &plan->stage[s];
    bool any = false;
    size_t parts = 0;
    fputs(",\n\"buffers\":[", out);
    write_buffer(plan, s, "", "scalars of a step", its->scalars, sizeof(gp_step_scalars), &any, out);
    for (size_t i = 0; i < its->stats_count; i++)
        write_buffer(plan, s, plan->graph->nodes[its->stats[i].node].name, "statistics", its->stats[i].offset,
                     its->stats[i].stride * (size_t)most_micro_batches(plan), &any, out);
    size_t squares = its->square_count + (s == gp_stages_root(plan->stages) ? its->squares_before : 0);
    write_buffer(plan, s, "", "squares of gradients", its->squares, squares * sizeof(double), &any, out);
    for (int i = 0; i < its->param_count; i++) write_param_buffers(plan, s, &its->params[i], &any, out);
    const gp_stage *stage = &plan->stages->stage[s];
    for (int b = 0; b < stage->buckets; b++)
        parts += (size_t)gp_stage_plan_part(its, plan->stages, b, stage->replica).count;
    write_buffer(plan, s, "", "gradients of other replicas", its->parts, parts * (size_t)(stage->replicas - 1), &any,
                 out);
    if (plan->stages->norms)
        write_buffer(plan, s, "", "squares of blocks", its->blocks, its->block_count * sizeof(double), &any, out);
    fputs("],\n\"frames\":{", out);
    for (int f = 0; f < GP_FRAMES; f++)
        fprintf(out, "%s\"%s\":{\"offset\":%zu,\"bytes\":%zu,\"slots\":%d}", f ? "," : "", gp_frame_name((gp_frame)f),
                its->base + its->frame_base[f], its->frame_stride[f], its->slots[f]);
    fputs("}", out);
}

/* The loss has the number of the last layer: it is no layer that a balance counts. */
static void write_stage(const gp_plan *plan, int s, FILE *out) {
    const gp_stage *stage = &plan->stages->stage[s];
    const gp_node *nodes = plan->graph->nodes;
    int first = nodes[stage->first_node].unit, last = nodes[stage->first_node + stage->node_count - 1].unit;
    fprintf(out, "%s\n{\"worker\":%d,\"first_layer\":%d,\"layers\":%d,\"parameters\":%" PRId64 ",\"checkpoint\":\"%s\"",
            s ? "," : "", plan->stage[s].worker, first, last - first + 1, gp_plan_stage_parameters(plan, s),
            gp_plan_has_programs(plan) ? "file" : gp_checkpoint_mode_name(plan->checkpoints[stage->number]));
    fprintf(out, ",\"number\":%d", stage->number);
    if (stage->replicas > 1)
        fprintf(out, ",\"replica\":%d,\"replicas\":%d,\"group\":%d", stage->replica, stage->replicas, stage->group);
    unsigned users = 0;
    for (int value = GP_VALUE_INPUT; value <= GP_VALUE_TARGET; value++)
        if (gp_indices_find(&stage->takes, value) >= 0)
            users |= find_users(&plan->stage[s], false, gp_indices_find(&stage->takes, value));
    if (stage->loads_input || stage->loads_target) write_readers("loads_read_by", users, out);
    write_stage_memory(plan, s, out);
    fputs("}", out);
}

/* Several workers on the host are numbered, since all their devices have index 0. Several on one GPU have a number
 * after it. */
static void write_worker_name(const gp_plan *plan, int worker, FILE *out) {
    const gp_device_spec *device = &plan->devices[worker];
    int before = 0;
    for (int w = 0; w < worker; w++)
        before +=
            plan->devices[w].kind == device->kind && (device->kind->on_host || plan->devices[w].index == device->index);
    if (device->kind->on_host)
        fprintf(out, "\"%s:%d\"", device->kind->name, before);
    else if (before == 0)
        fprintf(out, "\"%s:%d\"", device->kind->name, device->index);
    else
        fprintf(out, "\"%s:%d #%d\"", device->kind->name, device->index, before + 1);
}

static void write_worker(const gp_plan *plan, int worker, FILE *out) {
    const gp_device_spec *device = &plan->devices[worker];
    size_t kinds[GP_MEMORY_KINDS] = {0}, alive = 0;
    bool any = false;
    fputs(worker ? ",\n{\"name\":" : "\n{\"name\":", out);
    write_worker_name(plan, worker, out);
    fprintf(out, ",\"device\":\"%s\",\"threads\":%d", device->kind->name, device->threads);
    if (gp_plan_processes(plan) > 1) fprintf(out, ",\"process\":%d", gp_plan_process_of(plan, worker));
    fputs(",\"stages\":[", out);
    for (int s = 0; s < plan->stages->count; s++) {
        if (plan->stage[s].worker != worker) continue;
        fprintf(out, "%s%d", any ? "," : "", s);
        any = true;
        if (plan->stage[s].alive > alive) alive = plan->stage[s].alive;
        for (int k = 0; k < GP_MEMORY_KINDS; k++) kinds[k] += plan->stage[s].memory[k];
    }
    size_t transient = plan->arena[worker] - plan->transient_base[worker];
    size_t evaluation = plan->arena[worker] - plan->evaluation_base[worker];
    fprintf(out, "],\"transient\":{\"offset\":%zu,\"bytes\":%zu},\"evaluation\":{\"offset\":%zu,\"bytes\":%zu}",
            plan->transient_base[worker], transient, plan->evaluation_base[worker], evaluation);
    fprintf(out, ",\"arena_bytes\":%zu,\"largest_transient_bytes\":%zu,\"memory\":{", plan->arena[worker], alive);
    for (int k = 0; k < GP_MEMORY_KINDS; k++)
        fprintf(out, "%s\"%s\":%zu", k ? "," : "", gp_memory_kind_name((gp_memory_kind)k), kinds[k]);
    fputs("}}", out);
}

/* Bytes are those of a micro-batch that is whole in the largest mini-batch. */
static void write_edges(const gp_plan *plan, FILE *out) {
    const gp_mini_plan *mini = &plan->minis[gp_plan_largest_mini(plan)];
    fputs(",\n\"edges\":[", out);
    for (size_t e = 0; e < plan->stages->edge_count; e++) {
        const gp_edge *edge = &plan->stages->edges[e];
        fprintf(out, "%s\n{\"from\":%d,\"to\":%d,\"carries\":\"%s\",\"bytes\":%zu", e ? "," : "", edge->from, edge->to,
                gp_edge_kind_name(edge->kind), gp_value_bytes(plan->graph, edge->value, mini->piece));
        const gp_stage *stage = &plan->stages->stage[edge->to];
        bool gradient = edge->kind == GP_EDGE_GRADIENT;
        int at = gradient ? gp_indices_find(&stage->grad_in, (int)e) : gp_indices_find(&stage->takes, edge->value);
        write_readers("read_by", find_users(&plan->stage[edge->to], gradient, at), out);
        fputs("}", out);
    }
    fputs("],", out);
    gp_collectives_json_write(plan->stages, out);
}

/* Of the largest mini-batch. */
static gp_status write_links(const gp_plan *plan, FILE *out, gp_error *err) {
    const gp_links *links = plan->links;
    gp_link_use use[GP_LINK_KINDS];
    if (!links) return GP_OK;
    GP_RETURN_IF_FAILED(gp_plan_link_use(plan, gp_plan_largest_mini(plan), use, err));
    const char *gpus = gp_plan_gpu_messages(plan);
    fprintf(out, ",\n\"processes\":%d,\"hosts\":%d,", links->processes, links->hosts);
    if (gpus) fprintf(out, "\"gpu_messages\":\"%s\",", gpus);
    fputs("\"links\":[", out);
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        fprintf(out, "%s\n{\"link\":\"%s\",", k ? "," : "", gp_link_kind_name((gp_link_kind)k));
        if (links->of[k].given)
            fprintf(out, "\"latency_us\":%.12g,\"bytes_per_s\":%.12g,\"shared\":%s,\"from\":\"%s\",",
                    1e6 * links->of[k].latency, links->of[k].bandwidth, links->of[k].shared ? "true" : "false",
                    links->of[k].measured ? "profile" : "by hand");
        fprintf(out, "\"copies\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"busiest_bytes\":%" PRIu64 "}", use[k].copies,
                use[k].bytes, use[k].busiest_bytes);
    }
    fputs("]", out);
    return GP_OK;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef struct source {
    const gp_plan *plan;
    int mini;
} source;

static size_t instr_bytes(const void *context, const gp_instr *instr) {
    const source *from = context;
    return gp_instr_bytes(from->plan, &from->plan->minis[from->mini], instr);
}

static gp_status follow_memory(const void *context, int worker, size_t *bytes, gp_error *err) {
    const source *from = context;
    return gp_memory_follow(from->plan, from->mini, worker, bytes, err);
}

static void write_program_head(const gp_mini_plan *mini, const gp_play *play, FILE *out) {
    fprintf(out,
            "{\"pass\":\"%s\",\"samples\":%" PRId64 ",\"micro_batch_samples\":%" PRId64 ",\"last_samples\":%" PRId64
            ",",
            mini->training ? "training" : "evaluation", mini->samples, mini->piece, mini->last);
    if (mini->programs->descending) fputs("\"descending\":true,", out);
    fprintf(out, "\"micro_batches\":%d,\"step_ms\":%.12g,\"bubble\":%.12g,", mini->pieces, 1000 * play->length,
            gp_play_bubble(play));
}

static gp_status write_program(const gp_plan_json *its, int m, bool instructions, FILE *out, gp_error *err) {
    const gp_plan *plan = its->plan;
    const gp_mini_plan *mini = &plan->minis[m];
    const source from = {plan, m};
    gp_play_copies *copies = NULL;
    gp_play *play = NULL;
    gp_status status = GP_NEW(&copies, plan->workers, err);
    if (status == GP_OK) status = gp_expect_play(plan, m, its->profile, &play, err);
    if (status == GP_OK) {
        for (int w = 0; w < plan->workers; w++)
            copies[w] = plan->devices[w].kind->on_host ? GP_PLAY_PULLED : GP_PLAY_QUEUED;
        const gp_play_request played = {.stages = plan->stages,
                                        .programs = mini->programs,
                                        .waits = mini->waits,
                                        .meets = mini->meets,
                                        .queues = mini->queues,
                                        .copies = copies};
        const gp_program_json program = {.played = &played,
                                         .play = play,
                                         .milliseconds = 1000,
                                         .bytes = instr_bytes,
                                         .follow = follow_memory,
                                         .context = &from,
                                         .instructions = instructions,
                                         .slots = true,
                                         .lines = true};
        fputs(m ? ",\n" : "\n", out);
        write_program_head(mini, play, out);
        status = gp_program_json_write(&program, out, err);
        fputs("}", out);
    }
    gp_play_destroy(&play);
    free(copies);
    return status;
}

/* Says what is left out, if so. */
static bool has_instructions(const gp_plan_json *its, FILE *out) {
    size_t size = 0, count = 0;
    for (int m = 0; m < its->plan->mini_count; m++) {
        const gp_programs *programs = its->plan->minis[m].programs;
        size = gp_size_plus(size, gp_program_json_size(programs, its->plan->minis[m].meets));
        for (int w = 0; w < programs->workers; w++) count += programs->worker[w].count;
    }
    if (its->all || size <= GP_PROGRAM_JSON_MOST) return true;
    fprintf(out, ",\n\"left_out\":\"%zu instructions; gpipe-train --plan --json prints them\"", count);
    return false;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

gp_status gp_plan_json_write(const gp_plan_json *its, FILE *out, gp_error *err) {
    const gp_plan *plan = its->plan;
    GP_RETURN_IF_FAILED(write_head(its, out, err));
    write_layers(plan, out);
    fputs(",\n\"stages\":[", out);
    for (int s = 0; s < plan->stages->count; s++) write_stage(plan, s, out);
    fputs("],\n\"workers\":[", out);
    for (int w = 0; w < plan->workers; w++) write_worker(plan, w, out);
    fputs("]", out);
    write_edges(plan, out);
    GP_RETURN_IF_FAILED(write_links(plan, out, err));
    bool instructions = has_instructions(its, out);
    fputs(",\n\"programs\":[", out);
    for (int m = 0; m < plan->mini_count; m++) GP_RETURN_IF_FAILED(write_program(its, m, instructions, out, err));
    fputs("]}", out);
    return GP_OK;
}

gp_status gp_plan_json_print(const gp_plan_json *its, FILE *out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_plan_json_write(its, out, err));
    fputs("\n", out);
    return gp_report_end(out, "the plan", err);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* What the stream writes goes into a file, or is only counted. */
typedef struct target {
    gp_replacing *file; /* NULL: none */
    uint64_t bytes;
    gp_error failed; /* of the file */
} target;

static ssize_t take_bytes(void *cookie, const char *data, size_t bytes) {
    target *to = cookie;
    to->bytes += bytes;
    if (!to->file || to->failed.status != GP_OK) return (ssize_t)bytes;
    to->failed.status = gp_file_add(to->file, data, bytes, &to->failed);
    return (ssize_t)bytes;
}

static gp_status write_to(const gp_plan_json *its, target *to, gp_error *err) {
    FILE *out = fopencookie(to, "w", (cookie_io_functions_t){.write = take_bytes});
    if (!out) return gp_fail(err, GP_MEMORY, "no memory for the plan as JSON");
    gp_status status = gp_plan_json_write(its, out, err);
    fputs("\n", out);
    fclose(out);
    if (status != GP_OK || to->failed.status == GP_OK) return status;
    if (err) *err = to->failed;
    return to->failed.status;
}

gp_status gp_plan_json_replace(const gp_plan_json *its, const char *path, gp_error *err) {
    target to = {0};
    GP_RETURN_IF_FAILED(gp_file_begin(path, &to.file, err));
    gp_status status = write_to(its, &to, err);
    return gp_file_end(&to.file, status, err);
}

gp_status gp_plan_json_bytes(const gp_plan_json *its, uint64_t *out, gp_error *err) {
    target to = {0};
    GP_RETURN_IF_FAILED(write_to(its, &to, err));
    *out = to.bytes;
    return GP_OK;
}
