/* One copy of the weights: masters, gradients and optimizer states lie in the formats of their ops, padded with zeros;
 * the host sees PyTorch's order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "pipeline/harness.h"

enum { BATCH = 8, LARGE = 32, STEPS = 3 };

/* Channels that fill no register, groups (oneDNN's own convolutions, with formats of their own), strides, and a linear
 * layer, whose weights are plain. */
static const char model[] = "input: {shape: [5, 9, 8]}\n"
                            "layers:\n"
                            "  - conv: {out: 16, kernel: 3, pad: 1}\n"
                            "  - conv: {out: 16, kernel: 3, pad: 1, groups: 2}\n"
                            "  - batch_norm\n"
                            "  - conv: {out: 17, kernel: 1, bias: false}\n"
                            "  - conv: {out: 17, kernel: 3, stride: 2, groups: 17}\n"
                            "  - conv: {out: 24, kernel: 3, pad: 1, bias: false}\n"
                            "  - relu\n"
                            "  - flatten\n"
                            "  - linear: 5\n"
                            "loss: cross_entropy\n";
static const int64_t one[] = {9}, two[] = {4, 5};

static gp_error err;

static void must(gp_status status) {
    if (status != GP_OK) fail_msg("%s", err.text);
}

static harness_options options_of(int stages, int micro_batches, int64_t batch) {
    return (harness_options){.model = model,
                             .layers = stages == 1 ? one : two,
                             .stages = stages,
                             .kind = &gp_cpu_kind,
                             .real = GP_F32,
                             .micro_batches = micro_batches,
                             .batch = batch,
                             .norms = true};
}

static void start(harness *h, int stages, int micro_batches) {
    const harness_options options = options_of(stages, micro_batches, BATCH);
    harness_plan(h, &options);
    harness_start(h, NULL);
}

static void train(harness *h, int64_t samples) {
    gp_step_result result;
    for (uint32_t step = 1; step <= STEPS; step++) must(harness_step(h, samples, true, step, &result, &err));
    assert_true(result.finite);
}

typedef void visitor(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, void *context);

static void for_each_param(harness *h, visitor *visit, void *context) {
    for (int s = 0; s < h->plan->stages->count; s++)
        for (int p = 0; p < h->plan->stage[s].param_count; p++)
            visit(h, &h->plan->stage[s], &h->plan->stage[s].params[p], context);
}

/* ---- where they lie ---------------------------------------------------------------------------------------------- */

typedef struct sums {
    size_t memory[GP_MEMORY_KINDS];
    int padded;
} sums;

static void check_forward(const gp_stage_plan *stage, const gp_param_plan *param) {
    const gp_routine *forward = &stage->sized[0].routine[GP_ROUTINE_KEEP];
    int readers = 0;
    for (size_t o = 0; o < forward->count; o++)
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            const gp_exec_op *op = &forward->ops[o];
            if (op->operand[i].area != GP_AREA_FIXED || op->operand[i].offset != param->master) continue;
            assert_int_equal(op->prepared->operand[i].format, param->format);
            assert_int_equal(op->prepared->operand[i].bytes, param->stored);
            readers++;
        }
    assert_true(readers > 0 || !param->trained); /* running statistics are of evaluations */
}

static void add_sizes(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, void *context) {
    sums *its = context;
    check_forward(stage, param);
    assert_true(param->stored >= param->bytes);
    its->padded += param->stored > param->bytes;
    its->memory[GP_MEMORY_PARAMETERS] += gp_align_up(param->stored, GP_ALIGNMENT);
    if (param->copy.bytes) assert_true(param->copy.format != param->format);
    its->memory[GP_MEMORY_WORKING] += gp_align_up(param->copy.bytes, GP_ALIGNMENT);
    if (!param->trained) return;
    its->memory[GP_MEMORY_GRADIENTS] += gp_align_up(param->grad_bytes, GP_ALIGNMENT);
    its->memory[GP_MEMORY_OPTIMIZER] += (size_t)h->plan->update.states * gp_align_up(param->stored, GP_ALIGNMENT);
}

static void a_parameter_is_stored_as_its_forward_pass_reads_it(void **state) {
    (void)state;
    for (int stages = 1; stages <= 2; stages++) {
        harness h;
        sums its = {{0}, 0};
        start(&h, stages, 2);
        for_each_param(&h, add_sizes, &its);
        assert_true(its.padded > 0);
        for (int kind = GP_MEMORY_PARAMETERS; kind <= GP_MEMORY_OPTIMIZER; kind++) {
            size_t planned = 0;
            for (int s = 0; s < stages; s++) planned += h.plan->stage[s].memory[kind];
            assert_int_equal(planned, its.memory[kind]);
        }
        harness_end(&h);
    }
}

/* ---- what lies there --------------------------------------------------------------------------------------------- */

static void reorder(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, gp_format from, gp_format to,
                    const void *x, void *y) {
    gp_op_desc desc;
    const gp_prepared *prepared;
    gp_stream *stream;
    gp_device *device;
    void *workspace = NULL;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    desc.threads = 1;
    for (int i = 0; i < 2; i++) desc.operand[i] = gp_tensor_param(GP_F32, h->graph->params[param->param].spec.shape);
    desc.operand[GP_REORDER_X].format = from;
    desc.operand[GP_REORDER_Y].format = to;
    must(gp_op_prepare(h->plan->cache, &gp_cpu_kind, &desc, &prepared, &err));
    must(gp_cpu_kind.open(&stage->spec, &device, &err));
    must(gp_cpu_kind.stream_create(device, false, &stream, &err));
    must(gp_cpu_kind.reserve(device, prepared->workspace, &workspace, &err));
    void *operands[GP_MAX_OPERANDS] = {[GP_REORDER_X] = (void *)(uintptr_t)x, [GP_REORDER_Y] = y};
    must(gp_device_run(&gp_cpu_kind, stream, prepared, operands, workspace, &(gp_op_args){0}, &err));
    gp_cpu_kind.unreserve(device, workspace);
    gp_cpu_kind.stream_destroy(stream);
    gp_cpu_kind.close(device);
}

/* To PyTorch's order and back: what differs then is padding that is not zero. *plain is the caller's. */
static void check_padding(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, gp_format format,
                          size_t bytes, const char *at, float **plain) {
    void *again = NULL;
    *plain = NULL;
    must(gp_new_array((void **)plain, 1, param->bytes, &err));
    must(gp_new_array(&again, 1, bytes, &err));
    memset(again, 0xff, bytes);
    if (format == GP_FORMAT_PLAIN) {
        assert_int_equal(bytes, param->bytes);
        memcpy(*plain, at, bytes);
        memcpy(again, at, bytes);
    } else {
        reorder(h, stage, param, format, GP_FORMAT_PLAIN, at, *plain);
        reorder(h, stage, param, GP_FORMAT_PLAIN, format, *plain, again);
    }
    assert_memory_equal(at, again, bytes);
    free(again);
}

static void check_tensors(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, void *context) {
    const char *arena = (char *)gp_run_arena(h->run, stage->worker) + stage->base;
    double *square = context;
    float *values = NULL, *plain = NULL;
    must(gp_new_array((void **)&values, 1, param->bytes, &err));
    for (int s = -1; s < (param->trained ? h->plan->update.states : 0); s++) {
        check_padding(h, stage, param, param->format, param->stored, arena + (s < 0 ? param->master : param->state[s]),
                      &plain);
        must(gp_run_read(h->run, &(gp_tensor_copy){param->param, s, values}, 1, &err));
        assert_memory_equal(plain, values, param->bytes);
        free(plain);
    }
    free(values);
    if (!param->trained) return;
    check_padding(h, stage, param, param->grad_format, param->grad_bytes, arena + param->grad, &plain);
    for (size_t i = 0; i < param->bytes / sizeof *plain; i++) *square += (double)plain[i] * (double)plain[i];
    free(plain);
}

static void padding_stays_zero_and_adds_nothing_to_norms(void **state) {
    (void)state;
    for (int stages = 1; stages <= 2; stages++)
        for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
            harness h;
            double square = 0, sum = 0, *squares = NULL;
            start(&h, stages, micro_batches);
            train(&h, BATCH);
            for_each_param(&h, check_tensors, &square);
            must(GP_NEW(&squares, h.graph->param_count, &err));
            must(gp_run_squares(h.run, squares, &err));
            for (int p = 0; p < h.graph->param_count; p++) sum += squares[p]; /* of trained ones, then zeros */
            assert_true(square > 0);
            assert_true(fabs(sum - square) <= 1e-12 * square);
            free(squares);
            harness_end(&h);
        }
}

static void write_and_read(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, void *context) {
    (void)stage;
    uint32_t *draw = context;
    float *out = NULL, *in = NULL;
    must(gp_new_array((void **)&out, 1, param->bytes, &err));
    must(gp_new_array((void **)&in, 1, param->bytes, &err));
    for (int s = -1; s < (param->trained ? h->plan->update.states : 0); s++) {
        for (size_t i = 0; i < param->bytes / sizeof *out; i++)
            out[i] = (float)(*draw = *draw * 1664525U + 1013904223U) * 0x1p-35F;
        must(gp_run_write(h->run, &(gp_tensor_copy){param->param, s, out}, 1, &err));
        must(gp_run_read(h->run, &(gp_tensor_copy){param->param, s, in}, 1, &err));
        assert_memory_equal(out, in, param->bytes);
    }
    free(out);
    free(in);
}

static void the_host_reads_what_it_wrote(void **state) {
    (void)state;
    harness h;
    uint32_t draw = 1;
    double square = 0;
    start(&h, 2, 2);
    for_each_param(&h, write_and_read, &draw);
    must(gp_run_refresh(h.run, &err));
    train(&h, BATCH);
    for_each_param(&h, check_tensors, &square);
    harness_end(&h);
}

/* ---- second formats ---------------------------------------------------------------------------------------------- */

static int count_copies(const harness *h, bool *all_are_renewed) {
    const gp_stage_plan *stage = &h->plan->stage[0];
    int copies = 0;
    for (int p = 0; p < stage->param_count; p++) copies += stage->params[p].copy.bytes > 0;
    *all_are_renewed = stage->refresh.count == (size_t)copies;
    return copies;
}

/* All in groups: oneDNN's own convolutions, whatever the batch. The last has little work for each weight. */
static const char grouped[] = "input: {shape: [16, 9, 8]}\n"
                              "layers:\n"
                              "  - conv: {out: 16, kernel: 3, pad: 1, groups: 2}\n"
                              "  - conv: {out: 16, kernel: 3, pad: 1, groups: 2}\n"
                              "  - conv: {out: 16, kernel: 3, stride: 3, pad: 1, groups: 2}\n"
                              "  - flatten\n"
                              "  - linear: 5\n"
                              "loss: cross_entropy\n";

/* One micro-batch: a reorder before each op. Several: stored, where the op has little work for each weight. */
static void a_second_format_is_stored_where_that_pays(void **state) {
    (void)state;
    static const struct {
        int micro_batches;
        int64_t batch;
    } runs[] = {{1, BATCH}, {2, BATCH}, {2, LARGE}};
    int copies[3], reorders[3];
    for (int r = 0; r < 3; r++) {
        harness h;
        bool all;
        harness_options options = options_of(1, runs[r].micro_batches, runs[r].batch);
        options.model = grouped;
        options.layers = (const int64_t[]){5};
        harness_plan(&h, &options);
        copies[r] = count_copies(&h, &all);
        assert_true(all);
        reorders[r] = harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_REORDER);
        harness_end(&h);
    }
    assert_int_equal(copies[0], 0);
    assert_true(reorders[0] > 0);
    assert_int_equal(copies[1], reorders[0]);
    assert_int_equal(reorders[1], 0);
    assert_true(copies[2] > 0);
    assert_true(reorders[2] > 0);
    assert_int_equal(copies[2] + reorders[2], copies[1]);
}

/* No step changes it: it is renewed when parameters are loaded, never again. */
static void a_second_format_of_a_frozen_layer_is_stored(void **state) {
    (void)state;
    static const char frozen[] = "input: {shape: [5, 9, 8]}\n"
                                 "layers:\n"
                                 "  - conv: {out: 24, kernel: 3, pad: 1}\n"
                                 "  - conv: {out: 24, kernel: 3, pad: 1, freeze: true}\n"
                                 "  - flatten\n"
                                 "  - linear: 5\n"
                                 "loss: cross_entropy\n";
    harness h;
    bool all;
    harness_options options = options_of(1, 1, 4);
    options.model = frozen;
    options.layers = (const int64_t[]){4};
    harness_plan(&h, &options);
    assert_int_equal(count_copies(&h, &all), 1);
    assert_int_equal(harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_REORDER), 0);
    for (size_t o = 0; o < h.plan->minis[0].step[0].count; o++)
        assert_int_not_equal(h.plan->minis[0].step[0].ops[o].owner - 1, h.plan->stage[0].params[2].param);
    harness_end(&h);
}

/* Mini-batches of one sample: in a plan that has mini-batches of two as well, and in one that has not. */
static void a_second_format_changes_no_bit(void **state) {
    (void)state;
    uint64_t hash[2];
    for (int stored = 0; stored < 2; stored++) {
        harness h;
        bool all;
        harness_options options = options_of(1, 1 + stored, 1 + stored);
        options.last = stored;
        harness_plan(&h, &options);
        assert_int_equal(count_copies(&h, &all) > 0, stored);
        harness_start(&h, NULL);
        train(&h, 1);
        hash[stored] = harness_hash(&h);
        harness_end(&h);
    }
    assert_true(hash[0] == hash[1]);
}

/* Adam without eps divides 0 by 0 where a parameter has padding. */
static void check_unpadded(harness *h, const gp_stage_plan *stage, const gp_param_plan *param, void *context) {
    (void)h;
    (void)stage;
    (void)context;
    assert_int_equal(param->stored, param->bytes);
}

static void adam_without_eps_meets_no_padding(void **state) {
    (void)state;
    const gp_update adam = {.op = GP_OP_ADAM, .states = 2, .adam = {.beta1 = 0.9, .beta2 = 0.999}};
    for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
        harness h;
        harness_options options = options_of(1, micro_batches, BATCH);
        options.update = &adam;
        harness_plan(&h, &options);
        for_each_param(&h, check_unpadded, NULL);
        harness_end(&h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_is_stored_as_its_forward_pass_reads_it),
        cmocka_unit_test(padding_stays_zero_and_adds_nothing_to_norms),
        cmocka_unit_test(adam_without_eps_meets_no_padding),
        cmocka_unit_test(the_host_reads_what_it_wrote),
        cmocka_unit_test(a_second_format_is_stored_where_that_pays),
        cmocka_unit_test(a_second_format_of_a_frozen_layer_is_stored),
        cmocka_unit_test(a_second_format_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
