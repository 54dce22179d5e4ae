/* Routines on a device: bound op after bound op is enqueued. */
#include <stdio.h>

#include "pipeline/channel.h"
#include "pipeline/notes.h"
#include "pipeline/places.h"
#include "pipeline/run_internal.h"
#include "pipeline/spans.h"
#include "plan/layer_ticks.h"

/* What a routine is run with. */
typedef struct run_site {
    gp_worker *worker;
    const gp_stage_plan *stage;
    const gp_routine *routine;
    const gp_instr *instr;
    gp_bases bases;
    gp_op_args args;
    bool marks;       /* the device is told which layer each op is for */
    size_t exchanges; /* that it has been through */
} run_site;

/* Part after part, so that what each makes can be looked at. */
static gp_status watch_parts(const run_site *site, const gp_exec_op *op, const gp_device_op *bound, gp_error *err) {
    gp_worker *worker = site->worker;
    for (int p = 0; p < op->part_count; p++) {
        const gp_part *part = &op->part[p];
        gp_exec_op its = {.prepared = part->prepared, .node = part->node};
        void *operands[GP_MAX_OPERANDS] = {NULL};
        for (uint32_t i = 0; i < part->prepared->desc.operands; i++) {
            if (part->operand[i] >= 0) operands[i] = bound->operands[part->operand[i]];
            if (gp_op_writes(part->prepared->desc.kind, (int)i)) its.role[i] = part->role;
        }
        GP_RETURN_IF_FAILED(gp_device_run(site->stage->spec.kind, worker->queue[GP_QUEUE_COMPUTE], part->prepared,
                                          operands, bound->workspace, &site->args, err));
        GP_RETURN_IF_FAILED(gp_watch_op(worker, &its, operands, site->instr, err));
    }
    return GP_OK;
}

static gp_status run_whole(const run_site *site, const gp_exec_op *op, const gp_device_op *bound, gp_error *err) {
    gp_worker *worker = site->worker;
    GP_RETURN_IF_FAILED(site->stage->spec.kind->run(worker->queue[GP_QUEUE_COMPUTE], bound, &site->args, err));
    return worker->run->watches ? gp_watch_op(worker, op, bound->operands, site->instr, err) : GP_OK;
}

static gp_status run_op(run_site *site, const gp_exec_op *op, gp_error *err) {
    gp_worker *worker = site->worker;
    gp_device_op bound;
    gp_bind_op(&worker->bindings, &site->bases, op, &bound);
    bool parts = worker->run->watches && op->part_count > 0;
    gp_status status = GP_OK;
    if (op->exchange.count > 0)
        status = gp_channel_exchange(worker, site->stage, &op->exchange, site->instr->micro, site->exchanges++, err);
    if (status == GP_OK) status = parts ? watch_parts(site, op, &bound, err) : run_whole(site, op, &bound, err);
    if (status == GP_OK) return GP_OK;
    if (op->node < 0) return gp_error_context(err, "%s: ", gp_op_name(op->prepared->desc.kind));
    return gp_error_context(err, "layer \"%s\": ", worker->run->plan->graph->nodes[op->node].name);
}

/* Updates of parameters touch nothing of one another: how many stand here together. */
static int count_updates(const run_site *site, size_t first) {
    const gp_exec_op *ops = site->routine->ops;
    gp_op_kind kind = ops[first].prepared->desc.kind;
    int count = 0;
    if (!site->stage->spec.kind->run_many || kind != site->worker->run->plan->update.op) return 1;
    while (first + (size_t)count < site->routine->count && count < GP_RUN_MANY &&
           ops[first + (size_t)count].prepared->desc.kind == kind)
        count++;
    return count;
}

static gp_status run_updates(const run_site *site, size_t first, int count, gp_error *err) {
    gp_device_op bound[GP_RUN_MANY];
    for (int i = 0; i < count; i++)
        gp_bind_op(&site->worker->bindings, &site->bases, &site->routine->ops[first + (size_t)i], &bound[i]);
    if (site->stage->spec.kind->run_many(site->worker->queue[GP_QUEUE_COMPUTE], bound, count, &site->args, err) ==
        GP_OK)
        return GP_OK;
    return gp_error_context(err, "%s: ", gp_op_name(bound[0].prepared->desc.kind));
}

/* What happens after ops that ran, or were skipped: notes for failures, and the time for a timeline of layers. */
typedef struct follower {
    bool notes;
    double since;    /* gp_note_behind's */
    gp_ticks *ticks; /* NULL: none are recorded */
} follower;

static follower follow(const run_site *site) {
    follower its = {.notes = site->worker->run->notes && site->stage->spec.kind->stream_note != NULL,
                    .ticks = gp_spans_ticks(site->worker)};
    if (its.ticks) gp_ticks_add(its.ticks, gp_clock());
    return its;
}

static gp_status pass_ops(follower *its, const run_site *site, size_t first, size_t end, gp_error *err) {
    gp_when skipped = gp_instr_skips(site->instr);
    for (size_t o = first; o < end; o++) {
        if (its->ticks && site->routine->ops[o].when != skipped) gp_ticks_add(its->ticks, gp_clock());
        if (its->notes && gp_note_behind(site->routine, o, skipped, &its->since))
            GP_RETURN_IF_FAILED(gp_places_pass(site->worker, site->instr, err));
    }
    return GP_OK;
}

/* Within the instruction's mark: a profiler shows the layers in it. */
static void mark_ops(const run_site *site, size_t first, int count) {
    char text[GP_LAYER_TEXT];
    const gp_exec_op *op = &site->routine->ops[first];
    if (count > 1)
        snprintf(text, sizeof text, "%s of %d parameters", gp_op_name(op->prepared->desc.kind), count);
    else
        gp_layer_text(text, site->worker->run->plan->graph, op);
    site->stage->spec.kind->mark_begin(text);
}

static gp_status run_ops(run_site *site, size_t first, int count, gp_error *err) {
    const gp_exec_op *op = &site->routine->ops[first];
    if (op->when == gp_instr_skips(site->instr)) return GP_OK;
    if (site->marks) mark_ops(site, first, count);
    gp_status status = count > 1 ? run_updates(site, first, count, err) : run_op(site, op, err);
    if (site->marks) site->stage->spec.kind->mark_end();
    return status;
}

/* What a routine posts while it runs. */
typedef struct poster {
    const gp_mini_plan *mini;
    const gp_early_post *next, *end;
} poster;

static poster find_posts(const run_site *site, const gp_mini_plan *mini) {
    poster its = {.mini = mini};
    if (!mini || !mini->early || !gp_instr_ends_backward(site->instr)) return its;
    const gp_worker_posts *posts = &mini->early[site->worker->index];
    const gp_instr *first = mini->programs->worker[site->worker->index].instrs;
    its.next = gp_early_posts_find(posts, (size_t)(site->instr - first));
    its.end = its.next ? posts->items + posts->count : NULL;
    return its;
}

/* Buckets that are complete after so many ops. */
static gp_status post_buckets(poster *its, const run_site *site, size_t ops, gp_error *err) {
    if (its->next == its->end) return GP_OK;
    const gp_instr *instrs = its->mini->programs->worker[site->worker->index].instrs;
    for (; its->next < its->end && &instrs[its->next->pc] == site->instr && its->next->ops <= ops; its->next++) {
        gp_spans_post_early(site->worker, its->next->post);
        GP_RETURN_IF_FAILED(gp_channel_post(site->worker, its->mini, &instrs[its->next->post], err));
    }
    return GP_OK;
}

/* Without ticks and notes, which are the backward's. */
static gp_status add_up(const run_site *site, const gp_mini_plan *mini, const gp_instr *reduce, gp_error *err) {
    const gp_plan *plan = site->worker->run->plan;
    const gp_stage_plan *stage = &plan->stage[reduce->stage];
    const gp_slot_choice slots = gp_instr_slots(plan->stages, reduce);
    run_site its = {.worker = site->worker,
                    .stage = stage,
                    .routine = gp_instr_routine(mini, stage, reduce),
                    .instr = reduce,
                    .bases = gp_bases_of(plan, stage, &slots, 0, site->worker->arena)};
    for (size_t o = 0; o < its.routine->count; o++) GP_RETURN_IF_FAILED(run_op(&its, &its.routine->ops[o], err));
    return GP_OK;
}

/* Buckets of which all parts have arrived by now; of no more than that, so that the backward goes on. */
static gp_status find_sums(const run_site *site, const gp_mini_plan *mini, gp_error *err) {
    gp_worker *worker = site->worker;
    const gp_worker_posts *posts = &mini->early[worker->index];
    const gp_instr *instrs = mini->programs->worker[worker->index].instrs;
    for (; worker->sums < posts->sum_count; worker->sums++) {
        const gp_early_sum *its = &posts->sums[worker->sums];
        if (!gp_channel_is_there(worker, mini, &instrs[its->collect])) return GP_OK;
        GP_RETURN_IF_FAILED(gp_channel_collect(worker, mini, &instrs[its->collect], err));
        GP_RETURN_IF_FAILED(add_up(site, mini, &instrs[its->reduce], err));
        if (its->post == 0) continue;
        gp_spans_post_early(worker, its->post);
        GP_RETURN_IF_FAILED(gp_channel_post(worker, mini, &instrs[its->post], err));
    }
    return GP_OK;
}

gp_status gp_worker_routine(gp_worker *worker, const gp_stage_plan *stage, const gp_routine *routine,
                            const gp_mini_plan *mini, const gp_instr *instr, int64_t first_sample, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_slot_choice slots = gp_instr_slots(plan->stages, instr);
    run_site site = {.worker = worker,
                     .stage = stage,
                     .routine = routine,
                     .instr = instr,
                     .bases = gp_bases_of(plan, stage, &slots, instr->micro, worker->arena),
                     .args = {.first_sample = first_sample},
                     .marks = gp_spans_marks(worker)};
    follower its = follow(&site);
    bool follows = its.notes || its.ticks;
    poster posts = find_posts(&site, mini);
    bool sums = mini && mini->early && gp_early_sums_fit(plan->stages, instr);
    GP_RETURN_IF_FAILED(post_buckets(&posts, &site, 0, err));
    for (size_t o = 0; o < routine->count;) {
        int count = count_updates(&site, o);
        size_t next = o + (size_t)count;
        GP_RETURN_IF_FAILED(run_ops(&site, o, count, err));
        if (follows) GP_RETURN_IF_FAILED(pass_ops(&its, &site, o, next, err));
        GP_RETURN_IF_FAILED(post_buckets(&posts, &site, next, err));
        if (sums) GP_RETURN_IF_FAILED(find_sums(&site, mini, err));
        o = next;
    }
    return GP_OK;
}
