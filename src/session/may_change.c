/* Whether models and schedules allow a change within a run. */
#include "session/session_internal.h"

#include <stdlib.h>
#include <string.h>

#include "model/graph.h"
#include "schedule/schedule_file.h"

/* ---- the model --------------------------------------------------------------------------------------------------- */

static gp_status compare_nodes(const gp_node *before, const gp_node *now, gp_error *err) {
    static const char rule[] = "the layers of the model cannot change within a run";
    if (strcmp(before->name, now->name) != 0 || before->layer->type != now->layer->type)
        return gp_fail(err, GP_CONFIG, "%s: %s \"%.100s\" was %s \"%.100s\"", rule, now->layer->type->name, now->name,
                       before->layer->type->name, before->name);
    bool same = before->input_count == now->input_count;
    for (int i = 0; i < now->input_count && same; i++) same = before->inputs[i] == now->inputs[i];
    if (same) return GP_OK;
    return gp_fail(err, GP_CONFIG, "%s: %s \"%.100s\" takes other inputs", rule, now->layer->type->name, now->name);
}

static gp_status compare_params(const gp_param *before, const gp_param *now, gp_error *err) {
    char then[GP_SHAPE_TEXT], after[GP_SHAPE_TEXT];
    if (strcmp(before->name, now->name) == 0 && gp_shape_equal(before->spec.shape, now->spec.shape)) return GP_OK;
    return gp_fail(err, GP_CONFIG, "the shapes of the model cannot change within a run: %.100s %s was %.100s %s",
                   now->name, gp_shape_text(after, now->spec.shape), before->name,
                   gp_shape_text(then, before->spec.shape));
}

static gp_status compare_graphs(const gp_graph *before, const gp_graph *now, gp_error *err) {
    int nodes = before->node_count < now->node_count ? before->node_count : now->node_count;
    for (int n = 0; n < nodes; n++) GP_RETURN_IF_FAILED(compare_nodes(&before->nodes[n], &now->nodes[n], err));
    if (before->node_count != now->node_count)
        return gp_fail(err, GP_CONFIG, "the layers of the model cannot change within a run: it has %d, but had %d",
                       now->layer_count, before->layer_count);
    int params = before->param_count < now->param_count ? before->param_count : now->param_count;
    for (int p = 0; p < params; p++) GP_RETURN_IF_FAILED(compare_params(&before->params[p], &now->params[p], err));
    if (before->param_count != now->param_count)
        return gp_fail(err, GP_CONFIG,
                       "the shapes of the model cannot change within a run: it has %d tensors, but had %d",
                       now->param_count, before->param_count);
    for (int v = 0; v < now->value_count; v++)
        if (!gp_shape_equal(before->values[v].shape, now->values[v].shape))
            return gp_fail(
                err, GP_CONFIG,
                "the shapes of the model cannot change within a run: the output of \"%.100s\" has another one",
                now->values[v].name);
    return GP_OK;
}

static gp_status check_model(const gp_config *before, const gp_config *now, gp_error *err) {
    gp_graph *then = NULL, *after = NULL;
    if (!gp_yaml_differ("model", before->model, now->model)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_graph_build(before->model, &then, err));
    gp_status status = gp_graph_build(now->model, &after, err);
    if (status == GP_OK) status = compare_graphs(then, after, err);
    gp_graph_destroy(&after);
    gp_graph_destroy(&then);
    return status;
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static gp_status is_descending(const gp_pipeline_config *pipeline, bool *out, gp_error *err) {
    gp_schedule_file *file = NULL;
    *out = pipeline->schedule.kind == GP_SCHEDULE_GPIPE;
    if (pipeline->schedule.kind != GP_SCHEDULE_FILE) return GP_OK;
    const gp_replicas replicas = {pipeline->replicas, pipeline->entry_count};
    GP_RETURN_IF_FAILED(
        gp_schedule_file_read(pipeline->schedule.file, pipeline->schedule.place, &replicas, &file, err));
    *out = file->order->descending;
    gp_schedule_file_destroy(&file);
    return GP_OK;
}

static bool same_schedule(const gp_schedule_config *a, const gp_schedule_config *b) {
    if (a->kind != b->kind) return false;
    return a->kind != GP_SCHEDULE_FILE || strcmp(a->file, b->file) == 0;
}

/* With one micro-batch there is nothing to add up. */
static gp_status check_schedule(const gp_config *before, const gp_config *now, gp_error *err) {
    const gp_pipeline_config *then = &before->pipeline, *after = &now->pipeline;
    bool first, second;
    if (same_schedule(&then->schedule, &after->schedule)) return GP_OK;
    if (then->micro_batches == 1 && after->micro_batches == 1) return GP_OK;
    GP_RETURN_IF_FAILED(is_descending(then, &first, err));
    GP_RETURN_IF_FAILED(is_descending(after, &second, err));
    if (first == second) return GP_OK;
    return gp_fail(err, GP_CONFIG,
                   "pipeline.schedule cannot change from %s to %s within a run: %s adds up gradients from the last "
                   "micro-batch to the first, and %s from the first to the last",
                   gp_schedule_kind_name(then->schedule.kind), gp_schedule_kind_name(after->schedule.kind),
                   first ? gp_schedule_kind_name(then->schedule.kind) : gp_schedule_kind_name(after->schedule.kind),
                   first ? gp_schedule_kind_name(after->schedule.kind) : gp_schedule_kind_name(then->schedule.kind));
}

gp_status gp_may_change(const gp_config *before, const gp_config *now, gp_error *err) {
    GP_RETURN_IF_FAILED(check_model(before, now, err));
    return check_schedule(before, now, err);
}
