#include "pipeline/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

void harness_plan(harness *h, const harness_options *options) {
    gp_error err = {0};
    memset(h, 0, sizeof *h);
    h->options = *options;
    must(gp_yaml_parse(options->model, strlen(options->model), "model", &h->document, &err), &err);
    must(gp_graph_build(gp_yaml_root(h->document), &h->graph, &err), &err);
    static gp_device_spec specs[1024];
    int workers = 0, places = gp_schedule_workers(&options->schedule, options->stages);
    for (int p = 0; p < places; p++) workers += options->replicas ? options->replicas[p] : 1;
    assert_true(workers <= (int)(sizeof specs / sizeof *specs));
    for (int i = 0; i < workers; i++) {
        const gp_device_kind *kind = options->odd && i % 2 ? options->odd : options->kind;
        if (options->kinds) kind = options->kinds[i];
        specs[i] = (gp_device_spec){kind, options->devices && !kind->on_host ? i % options->devices : 0,
                                    options->threads ? options->threads : 1, 0};
    }
    bool *keeps = NULL;
    must(gp_new_array((void **)&keeps, (size_t)h->graph->node_count, sizeof *keeps, &err), &err);
    gp_mini_size sizes[3] = {{options->batch, true}};
    int count = 1;
    if (options->last) sizes[count++] = (gp_mini_size){options->last, true};
    if (options->evaluation) sizes[count++] = (gp_mini_size){options->evaluation, false};
    gp_graph_set_types(h->graph, gp_types_of(options->real));
    const gp_update sgd = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9, .decay = 1e-4, .nesterov = 1}};
    gp_plan_request request = {
        .graph = h->graph,
        .layers = options->layers,
        .schedule = options->schedule,
        .stages = options->stages,
        .replicas = options->replicas,
        .shard_optimizer = options->shard_optimizer,
        .bucket = options->bucket,
        .devices = specs,
        .process = options->process,
        .processes = options->processes,
        .rank = options->rank,
        .carrier = options->carrier,
        .update = options->update ? *options->update : sgd,
        .clip_norm = options->clip_norm,
        .norms = options->norms,
        .unshared = options->unshared,
        .unfused = options->unfused,
        .predict = options->predict,
        .pin = options->pin,
        .batch = options->batch,
        .micro_batches = options->micro_batches,
        .checkpoint = options->checkpoint,
        .checkpoints = options->checkpoints,
        .keeps = keeps,
        .lockstep = options->lockstep,
        .sizes = sizes,
        .size_count = count,
    };
    for (int n = 0; n < h->graph->node_count; n++) keeps[n] = options->keeps >> n % 64 & 1;
    gp_status status = gp_plan_create(&request, &h->plan, &err);
    free(keeps);
    if (options->refused) {
        if (status == GP_OK || strncmp(err.text, options->refused, strlen(options->refused)) != 0)
            fail_msg("expected \"%s\", but: %s", options->refused, err.text);
        return;
    }
    must(status, &err);
    assert_true(gp_shape_elements(h->graph->values[GP_VALUE_INPUT].shape, &h->input_elements));
    const gp_layer *loss = h->graph->nodes[h->graph->node_count - 1].layer;
    assert_true(gp_shape_elements(loss->output, &h->target_elements));
    h->classes = loss->type->classes ? loss->type->classes(loss) : 0;
    int64_t most = options->batch > options->evaluation ? options->batch : options->evaluation;
    must(gp_new_array(&h->input, (size_t)(most * h->input_elements), sizeof(double), &err), &err);
    must(gp_new_array(&h->target, (size_t)(most * h->target_elements), sizeof(double), &err), &err);
}

int harness_ops(const harness *h, gp_routine_kind routine, gp_op_kind kind) {
    int count = 0;
    for (int s = 0; s < h->plan->stages->count; s++) {
        const gp_routine *its = &h->plan->stage[s].sized[0].routine[routine];
        for (size_t o = 0; o < its->count; o++) count += its->ops[o].prepared->desc.kind == kind;
    }
    return count;
}

static gp_status write_param(harness *h, int p, gp_error *err) {
    int64_t elements;
    void *values = NULL;
    assert_true(gp_shape_elements(h->graph->params[p].spec.shape, &elements));
    must(gp_new_array(&values, (size_t)elements, sizeof(double), err), err);
    gp_param_initialise(&h->graph->params[p], 7, h->plan->types.master, values);
    gp_status status = gp_run_write(h->run, &(gp_tensor_copy){p, -1, values}, 1, err);
    free(values);
    return status;
}

gp_status harness_try_start(harness *h, const gp_hooks *hooks, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_run_create(h->plan, hooks, &h->run, err));
    gp_run_note(h->run, !h->options.no_notes);
    return harness_fill(h, err);
}

gp_status harness_fill(harness *h, gp_error *err) {
    for (int p = 0; p < h->graph->param_count; p++) GP_RETURN_IF_FAILED(write_param(h, p, err));
    return gp_run_refresh(h->run, err);
}

void harness_start(harness *h, const gp_hooks *hooks) {
    gp_error err = {0};
    must(harness_try_start(h, hooks, &err), &err);
}

static void put_real(const harness *h, void *to, int64_t i, uint32_t word) {
    double value = 2 * gp_philox_uniform(word) - 1;
    if (h->plan->types.master == GP_F64)
        ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

void harness_make_data(harness *h, int64_t samples, uint32_t step) {
    int64_t inputs = samples * h->input_elements, targets = samples * h->target_elements;
    for (int64_t i = 0; i < inputs || i < targets; i++) {
        gp_philox draw = gp_philox_draw(99, (gp_philox){{(uint32_t)i, step, 0, 0}});
        if (i < inputs) put_real(h, h->input, i, draw.word[0]);
        if (i >= targets) continue;
        if (h->classes)
            ((int64_t *)h->target)[i] = draw.word[1] % (uint32_t)h->classes;
        else
            put_real(h, h->target, i, draw.word[1]);
    }
}

gp_status harness_step(harness *h, int64_t samples, bool training, uint32_t step, gp_step_result *result,
                       gp_error *err) {
    harness_make_data(h, samples, step);
    return harness_run(h, samples, training, step, result, err);
}

static gp_step_input input_of(const harness *h, int64_t samples, bool training, uint32_t step, int *mini) {
    *mini = gp_plan_find(h->plan, training, samples);
    assert_true(*mini >= 0);
    return (gp_step_input){h->input, h->target, 7, step, 0.05, (double)(samples * h->target_elements), 0, step};
}

gp_status harness_run(harness *h, int64_t samples, bool training, uint32_t step, gp_step_result *result,
                      gp_error *err) {
    int mini;
    gp_step_input input = input_of(h, samples, training, step, &mini);
    return gp_run_step(h->run, mini, &input, result, err);
}

gp_status harness_begin(harness *h, int64_t samples, bool training, uint32_t step, gp_error *err) {
    int mini;
    harness_make_data(h, samples, step);
    gp_step_input input = input_of(h, samples, training, step, &mini);
    return gp_run_begin(h->run, mini, &input, err);
}

uint64_t harness_hash(harness *h) {
    gp_error err = {0};
    uint64_t hash = 0;
    for (int p = 0; p < h->graph->param_count; p++) {
        int64_t elements;
        void *values = NULL;
        assert_true(gp_shape_elements(h->graph->params[p].spec.shape, &elements));
        must(gp_new_array(&values, (size_t)elements, sizeof(double), &err), &err);
        int states = h->graph->params[p].trained ? h->plan->update.states : 0;
        for (int s = -1; s < states; s++) {
            must(gp_run_read(h->run, &(gp_tensor_copy){p, s, values}, 1, &err), &err);
            hash = gp_hash_bytes(hash, values, (uint64_t)elements * gp_dtype_size(h->plan->types.master));
        }
        free(values);
    }
    return hash;
}

void harness_end(harness *h) {
    gp_run_destroy(&h->run);
    gp_plan_destroy(&h->plan);
    gp_graph_destroy(&h->graph);
    gp_yaml_destroy(&h->document);
    free(h->input);
    free(h->target);
}

uint64_t harness_steps(harness *h, int steps) {
    const harness_options *options = &h->options;
    gp_error err = {0};
    gp_step_result result;
    uint64_t losses = 0;
    for (int s = 1; s <= steps; s++) {
        int64_t samples = options->last && s % 3 == 0 ? options->last : options->batch;
        must(harness_step(h, samples, true, (uint32_t)s, &result, &err), &err);
        assert_true(result.finite);
        losses = gp_hash_bytes(losses, &result.loss_sum, sizeof result.loss_sum);
    }
    if (options->evaluation) {
        must(harness_step(h, options->evaluation, false, 1, &result, &err), &err);
        losses = gp_hash_bytes(losses, &result.loss_sum, sizeof result.loss_sum);
    }
    return gp_hash_bytes(losses, &(uint64_t){harness_hash(h)}, sizeof(uint64_t));
}

uint64_t harness_train(const harness_options *options, const gp_hooks *hooks, int steps) {
    harness h;
    harness_plan(&h, options);
    harness_start(&h, hooks);
    uint64_t found = harness_steps(&h, steps);
    harness_end(&h);
    return found;
}
