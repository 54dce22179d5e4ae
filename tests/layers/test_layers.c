/* The table of layers, and what lowerings promise to those who plan with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "layers/layer.h"

typedef struct layer_case {
    const char *layer;
    int input_count;
    gp_shape inputs[4];
    bool loss;
} layer_case;

static const layer_case cases[] = {
    {"conv: {out: 4, kernel: 3, groups: 2}", 1, {{3, {2, 5, 6}}}, false},
    {"conv: {out: 4, kernel: 1, bias: false}", 1, {{3, {3, 5, 6}}}, false},
    {"linear: 4", 1, {{1, {7}}}, false},
    {"linear: {out: 4, bias: false}", 1, {{2, {3, 7}}}, false},
    {"batch_norm", 1, {{3, {3, 5, 6}}}, false},
    {"batch_norm: {affine: false}", 1, {{1, {7}}}, false},
    {"relu", 1, {{2, {3, 7}}}, false},
    {"leaky_relu: 0.2", 1, {{2, {3, 7}}}, false},
    {"gelu", 1, {{1, {7}}}, false},
    {"gelu: {tanh: true}", 1, {{3, {3, 5, 6}}}, false},
    {"silu", 1, {{2, {3, 7}}}, false},
    {"sigmoid", 1, {{1, {7}}}, false},
    {"tanh", 1, {{3, {3, 5, 6}}}, false},
    {"instance_norm", 1, {{3, {3, 5, 6}}}, false},
    {"instance_norm: {affine: true}", 1, {{3, {3, 5, 6}}}, false},
    {"layer_norm", 1, {{1, {7}}}, false},
    {"layer_norm: 1e-6", 1, {{2, {3, 7}}}, false},
    {"group_norm: 3", 1, {{3, {6, 5, 4}}}, false},
    {"group_norm: {groups: 2, affine: false}", 1, {{1, {6}}}, false},
    {"max_pool: {kernel: 3, pad: 1}", 1, {{3, {3, 5, 6}}}, false},
    {"max_pool: {kernel: [17, 18], stride: 1}", 1, {{3, {3, 17, 20}}}, false},
    {"avg_pool: {kernel: 3, stride: 2, pad: 1, ceil: true}", 1, {{3, {3, 6, 4}}}, false},
    {"global_avg_pool", 1, {{3, {3, 5, 6}}}, false},
    {"upsample: [2, 3]", 1, {{3, {3, 2, 2}}}, false},
    {"identity", 1, {{3, {3, 2, 4}}}, false},
    {"identity", 1, {{2, {3, 7}}}, false},
    {"dropout", 1, {{1, {7}}}, false},
    {"dropout: {channels: true}", 1, {{3, {3, 5, 6}}}, false},
    {"dropout: 0", 1, {{1, {7}}}, false},
    {"dropout: 1", 1, {{1, {7}}}, false},
    {"flatten", 1, {{3, {3, 5, 6}}}, false},
    {"flatten", 1, {{2, {3, 5}}}, false},
    {"add: [a, b]", 2, {{1, {7}}, {1, {7}}}, false},
    {"add: [a, b, c, d]", 4, {{1, {7}}, {1, {7}}, {1, {7}}, {1, {7}}}, false},
    {"concat: [a, b, c]", 3, {{3, {2, 4, 4}}, {3, {1, 4, 4}}, {3, {3, 4, 4}}}, false},
    {"cross_entropy", 1, {{1, {7}}}, true},
    {"cross_entropy: 0.1", 1, {{2, {3, 7}}}, true},
    {"cross_entropy: {ignore: 255}", 1, {{3, {5, 3, 4}}}, true},
    {"mse", 1, {{3, {2, 3, 4}}}, true},
    {"bce_logits", 1, {{2, {3, 4}}}, true},
};

static void check(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

static gp_layer *create(const layer_case *it) {
    gp_error err = {0};
    gp_yaml_document *document = NULL;
    gp_choice choice;
    gp_layer *layer = NULL;
    check(gp_yaml_parse(it->layer, strlen(it->layer), "layer", &document, &err), &err);
    check(gp_read_kind(gp_yaml_root(document), "layer", NULL, &choice, &err), &err);
    check(gp_layer_create(gp_layer_type_find(choice.kind, it->loss), &choice, &layer, &err), &err);
    check(gp_layer_infer(layer, it->inputs, it->input_count, &err), &err);
    gp_yaml_destroy(&document);
    return layer;
}

static gp_lowering lower(const gp_layer *layer, gp_dtype real, int64_t samples) {
    gp_error err = {0};
    gp_lowering lowering;
    gp_lowering_init(&lowering, gp_types_of(real), samples, 77);
    lowering.pieces = 3;
    lowering.last = samples - 1;
    check(layer->type->lower(layer, &lowering, &err), &err);
    return lowering;
}

static void test_table(void **state) {
    (void)state;
    for (int loss = 0; loss < 2; loss++) {
        for (const char *const *name = gp_layer_names(loss); *name; name++) {
            const gp_layer_type *type = gp_layer_type_find(*name, loss);
            assert_non_null(type);
            assert_string_equal(type->name, *name);
            assert_int_equal(type->loss, loss);
            assert_null(gp_layer_type_find(*name, !loss));
            assert_non_null(type->lower);
            assert_int_equal(type->classes != NULL, type->target_is_class);
            assert_int_equal(type->ignore != NULL, type->target_is_class);
        }
        for (const char *const *name = gp_layer_names_later(loss); *name; name++)
            assert_null(gp_layer_type_find(*name, loss));
    }
    int layers = 0;
    while (gp_layer_names(false)[layers]) layers++;
    assert_int_equal(layers, 21);
}

/* What may be computed in TF32 says so in every pass, and nothing else does. */
static void test_precision(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int tf32 = 0; tf32 < 2; tf32++) {
            gp_error err = {0};
            gp_layer *layer = create(&cases[c]);
            layer->tf32 = tf32;
            gp_lowering lowering = lower(layer, GP_F32, 4);
            for (size_t i = 0; i < lowering.count; i++) {
                const gp_op_desc *desc = &lowering.ops[i].desc;
                bool product = desc->kind <= GP_OP_LINEAR_BACKWARD_WEIGHTS;
                assert_int_equal(desc->flags, tf32 && product ? GP_OP_TF32 : 0);
                check(gp_op_desc_check(desc, &err), &err);
            }
            gp_lowering_fini(&lowering);
            gp_layer_destroy(&layer);
        }
    }
}

/* How often the ops of a pass write elements of a role, in elements. */
static int64_t written(const gp_lowering *lowering, gp_pass pass, gp_role role, int index) {
    int64_t elements = 0;
    for (size_t i = 0; i < lowering->count; i++) {
        const gp_lowered_op *op = &lowering->ops[i];
        for (uint32_t o = 0; o < op->desc.operands; o++)
            if (op->pass == pass && gp_op_writes(op->desc.kind, (int)o) && op->ref[o].role == role &&
                op->ref[o].index == index)
                elements += gp_tensor_elements(&op->desc.operand[o]);
    }
    return elements;
}

static bool touched(const gp_lowering *lowering, gp_pass pass, gp_role role) {
    for (size_t i = 0; i < lowering->count; i++)
        for (uint32_t o = 0; o < lowering->ops[i].desc.operands; o++)
            if (lowering->ops[i].pass == pass && lowering->ops[i].ref[o].role == role) return true;
    return false;
}

static void check_operands(const gp_lowering *lowering) {
    for (size_t i = 0; i < lowering->count; i++) {
        gp_error err = {0};
        const gp_lowered_op *op = &lowering->ops[i];
        gp_op_desc desc = op->desc;
        assert_int_equal(desc.threads, 0);
        desc.threads = 1;
        check(gp_op_desc_check(&desc, &err), &err);
        for (uint32_t o = 0; o < desc.operands; o++)
            assert_int_equal(op->ref[o].role != GP_ROLE_NONE, desc.operand[o].present);
    }
}

static void test_operands_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int real = 0; real < 2; real++) {
            gp_error err = {0};
            gp_layer *layer = create(&cases[i]);
            gp_lowering lowering = lower(layer, real ? GP_F64 : GP_F32, 3), mini;
            check_operands(&lowering);
            gp_lowering_init(&mini, gp_types_of(real ? GP_F64 : GP_F32), 3, 77);
            mini.pieces = 4;
            mini.last = 2;
            if (layer->type->lower_mini_batch) {
                check(layer->type->lower_mini_batch(layer, &mini, &err), &err);
                check_operands(&mini);
                assert_int_equal(mini.stats.count, lowering.stats.count);
            }
            gp_lowering_fini(&mini);
            gp_lowering_fini(&lowering);
            gp_layer_destroy(&layer);
        }
}

/* Everything that a pass owes is written whole and once; evaluation leaves no trace. */
static void test_each_result_is_written_once(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_layer *layer = create(&cases[i]);
        gp_lowering lowering = lower(layer, GP_F32, 3);
        gp_param_spec specs[GP_LAYER_MAX_PARAMS];
        int params = layer->type->params ? layer->type->params(layer, specs) : 0;
        int64_t elements;
        for (int n = 0; n < layer->input_count; n++) {
            assert_true(gp_shape_elements(layer->inputs[n], &elements));
            assert_int_equal(written(&lowering, GP_PASS_BACKWARD, GP_ROLE_GRAD_INPUT, n), 3 * elements);
        }
        for (int p = 0; p < params; p++) {
            assert_true(gp_shape_elements(specs[p].shape, &elements));
            assert_int_equal(written(&lowering, GP_PASS_BACKWARD, GP_ROLE_GRAD_PARAM, p),
                             specs[p].buffer ? 0 : elements);
        }
        assert_true(gp_shape_elements(layer->output, &elements));
        if (cases[i].loss) elements = 0;
        assert_int_equal(written(&lowering, GP_PASS_FORWARD, GP_ROLE_OUTPUT, 0), 3 * elements);
        assert_int_equal(written(&lowering, GP_PASS_EVALUATE, GP_ROLE_OUTPUT, 0), 3 * elements);
        assert_false(touched(&lowering, GP_PASS_EVALUATE, GP_ROLE_SIDE));
        assert_int_equal(touched(&lowering, GP_PASS_EVALUATE, GP_ROLE_STATS), cases[i].loss);
        gp_lowering_fini(&lowering);
        gp_layer_destroy(&layer);
    }
}

/* A recompute repeats no side effect: what writes STATS runs once, and nothing else does. */
static void test_statistics_run_once(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_layer *layer = create(&cases[i]);
        gp_lowering lowering = lower(layer, GP_F32, 3);
        for (size_t n = 0; n < lowering.count; n++) {
            const gp_lowered_op *op = &lowering.ops[n];
            bool statistics = false;
            for (uint32_t o = 0; o < op->desc.operands; o++)
                if (op->ref[o].role == GP_ROLE_STATS && gp_op_writes(op->desc.kind, (int)o)) statistics = true;
            bool once = op->flags & GP_LOWERED_ONCE;
            assert_int_equal(once, statistics && op->pass == GP_PASS_FORWARD);
        }
        gp_lowering_fini(&lowering);
        gp_layer_destroy(&layer);
    }
}

/* Ops for weights write no gradient of an input; those that read the gradient of the output come before the one that
 * may overwrite it. */
static void test_weights_come_first(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_layer *layer = create(&cases[i]);
        gp_lowering lowering = lower(layer, GP_F32, 3);
        bool inputs_done = false;
        for (size_t n = 0; n < lowering.count; n++) {
            const gp_lowered_op *op = &lowering.ops[n];
            bool weights = false;
            for (uint32_t o = 0; o < op->desc.operands; o++)
                if (op->ref[o].role == GP_ROLE_GRAD_PARAM) weights = true;
            if (op->pass != GP_PASS_BACKWARD) assert_false(weights);
            for (uint32_t o = 0; o < op->desc.operands; o++) {
                gp_role role = op->ref[o].role;
                if (role == GP_ROLE_GRAD_INPUT) assert_false(weights);
                if (role == GP_ROLE_GRAD_OUTPUT && weights) assert_false(inputs_done);
            }
            for (uint32_t o = 0; o < op->desc.operands; o++)
                if (op->ref[o].role == GP_ROLE_GRAD_INPUT) inputs_done = true;
        }
        gp_lowering_fini(&lowering);
        gp_layer_destroy(&layer);
    }
}

/* Where it is asked for, evaluation keeps the loss's prediction, whole, and training does not. */
static void test_prediction_is_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        gp_layer *layer = create(&cases[i]);
        gp_lowering lowering, mini;
        gp_lowering_init(&lowering, gp_types_of(GP_F64), 3, 77);
        gp_lowering_init(&mini, gp_types_of(GP_F64), 3, 77);
        lowering.predict = mini.predict = true;
        int64_t elements = 0, whole = 0;
        check(layer->type->lower(layer, &lowering, &err), &err);
        check_operands(&lowering);
        assert_true(gp_shape_elements(layer->inputs[0], &elements));
        for (size_t s = GP_LOSS_STATS_PREDICTION; cases[i].loss && s < lowering.stats.count; s++)
            whole += gp_tensor_elements(&lowering.stats.items[s]);
        if (cases[i].loss) {
            assert_int_equal(lowering.stats.items[GP_LOSS_STATS_PREDICTION].dtype, GP_F64);
            assert_int_equal(whole, 3 * elements);
            assert_int_equal(written(&lowering, GP_PASS_EVALUATE, GP_ROLE_STATS, GP_LOSS_STATS_PREDICTION), whole);
            assert_int_equal(written(&lowering, GP_PASS_FORWARD, GP_ROLE_STATS, GP_LOSS_STATS_PREDICTION), 0);
            check(layer->type->lower_mini_batch(layer, &mini, &err), &err);
            assert_int_equal(mini.stats.count, lowering.stats.count);
        } else {
            assert_false(touched(&lowering, GP_PASS_EVALUATE, GP_ROLE_STATS));
        }
        gp_lowering_fini(&lowering);
        gp_lowering_fini(&mini);
        gp_layer_destroy(&layer);
    }
}

static const gp_lowered_op *op_of(const gp_lowering *lowering, gp_op_kind kind) {
    for (size_t i = 0; i < lowering->count; i++)
        if (lowering->ops[i].desc.kind == kind) return &lowering->ops[i];
    fail_msg("no %s", gp_op_name(kind));
    return NULL;
}

static void test_formats(void **state) {
    (void)state;
    gp_layer *layer = create(&cases[0]);
    gp_lowering lowering = lower(layer, GP_F32, 3);
    assert_int_equal(op_of(&lowering, GP_OP_CONV_FORWARD)->desc.operand[GP_CONV_FORWARD_W].format, GP_FORMAT_ANY);
    assert_int_equal(op_of(&lowering, GP_OP_CONV_BACKWARD_DATA)->desc.operand[GP_CONV_BACKWARD_DATA_W].format,
                     GP_FORMAT_ANY);
    assert_int_equal(op_of(&lowering, GP_OP_CONV_BACKWARD_WEIGHTS)->desc.operand[GP_CONV_BACKWARD_WEIGHTS_DW].format,
                     GP_FORMAT_ANY);
    assert_int_equal(op_of(&lowering, GP_OP_CONV_FORWARD)->desc.operand[GP_CONV_FORWARD_X].format, GP_FORMAT_PLAIN);
    gp_lowering_fini(&lowering);
    gp_layer_destroy(&layer);
}

static void test_dropout_counter(void **state) {
    static const layer_case dropout = {"dropout: 0.25", 1, {{1, {7}}}, false};
    (void)state;
    gp_layer *layer = create(&dropout);
    gp_lowering lowering = lower(layer, GP_F32, 3);
    int seen = 0;
    for (size_t i = 0; i < lowering.count; i++) {
        const gp_lowered_op *op = &lowering.ops[i];
        if (op->desc.kind != GP_OP_DROPOUT) continue;
        assert_true(op->desc.attributes.dropout.p == 0.25);
        assert_int_equal(op->desc.attributes.dropout.node, 77);
        assert_int_equal(op->desc.attributes.dropout.purpose, GP_RANDOM_DROPOUT);
        seen++;
    }
    assert_int_equal(seen, 2);
    gp_lowering_fini(&lowering);
    gp_layer_destroy(&layer);
}

static void test_commit_counts_rows(void **state) {
    static const layer_case norm = {"batch_norm: {momentum: 0.3, eps: 0.5}", 1, {{3, {2, 3, 4}}}, false};
    gp_error err = {0};
    gp_lowering mini;
    (void)state;
    gp_layer *layer = create(&norm);
    gp_lowering_init(&mini, gp_types_of(GP_F32), 5, 0);
    mini.pieces = 4;
    mini.last = 2;
    check(layer->type->lower_mini_batch(layer, &mini, &err), &err);
    const gp_lowered_op *op = op_of(&mini, GP_OP_NORM_COMMIT);
    assert_int_equal(op->pass, GP_PASS_COMMIT);
    assert_int_equal(op->desc.attributes.norm.rows_full, 60);
    assert_int_equal(op->desc.attributes.norm.rows_last, 24);
    assert_true(op->desc.attributes.norm.momentum == 0.3);
    assert_int_equal(op->desc.operand[GP_NORM_COMMIT_STATS].dim[0], 4);
    gp_lowering_fini(&mini);
    gp_layer_destroy(&layer);
}

static gp_status lower_norm(const gp_shape *shape, int64_t samples, bool evaluate_only, gp_error *err) {
    layer_case norm = {"batch_norm", 1, {*shape}, false};
    gp_lowering lowering;
    gp_layer *layer = create(&norm);
    gp_lowering_init(&lowering, gp_types_of(GP_F32), samples, 0);
    lowering.evaluate_only = evaluate_only;
    gp_status status = layer->type->lower(layer, &lowering, err);
    gp_lowering_fini(&lowering);
    gp_layer_destroy(&layer);
    return status;
}

static void test_one_value_per_channel(void **state) {
    static const gp_shape row = {1, {4}}, point = {3, {4, 1, 1}}, pair = {3, {4, 1, 2}};
    gp_error err = {0};
    (void)state;
    assert_int_equal(lower_norm(&row, 1, false, &err), GP_CONFIG);
    assert_string_equal(err.text,
                        "a micro-batch of 1 sample has one value per channel, whose variance is 0: take a larger batch "
                        "or fewer micro_batches, so that every micro-batch has 2 samples or more (data.drop_last "
                        "leaves out a last mini-batch that is too small)");
    assert_int_equal(lower_norm(&point, 1, false, &err), GP_CONFIG);
    assert_int_equal(lower_norm(&pair, 1, false, &err), GP_OK);
    assert_int_equal(lower_norm(&row, 2, false, &err), GP_OK);
    assert_int_equal(lower_norm(&row, 1, true, &err), GP_OK);
}

/* What replica `replica` of 4 does for its share of `shared` samples, in groups of 2. */
static gp_status lower_part(const layer_case *norm, int replica, int64_t shared, gp_lowering *lowering, gp_error *err) {
    gp_layer *layer = create(norm);
    gp_lowering_init(lowering, gp_types_of(GP_F32), gp_share_of(shared, 4, replica).count, 0);
    lowering->replicas = 4;
    lowering->replica = replica;
    lowering->shared = shared;
    gp_status status = layer->type->lower(layer, lowering, err);
    gp_layer_destroy(&layer);
    return status;
}

/* 11 samples of 6 rows are shared out as 3, 3, 3 and 2. */
static void test_groups_of_replicas(void **state) {
    static const layer_case pairs = {"batch_norm: {sync: 2}", 1, {{3, {4, 2, 3}}}, false},
                            points = {"batch_norm: {sync: 2}", 1, {{1, {4}}}, false},
                            frozen = {"batch_norm: {sync: true, freeze: true}", 1, {{1, {4}}}, false};
    gp_error err = {0};
    gp_lowering lowering;
    (void)state;
    for (int replica = 0; replica < 4; replica++) {
        check(lower_part(&pairs, replica, 11, &lowering, &err), &err);
        const gp_lowered_op *merge = op_of(&lowering, GP_OP_NORM_MERGE);
        assert_int_equal(merge->exchange.first, replica < 2 ? 0 : 2);
        assert_int_equal(merge->exchange.count, 2);
        assert_int_equal(merge->flags, GP_LOWERED_ONCE);
        assert_int_equal(merge->desc.attributes.norm.rows_full, 18);
        assert_int_equal(merge->desc.attributes.norm.rows_last, replica < 2 ? 18 : 12);
        const gp_lowered_op *data = op_of(&lowering, GP_OP_NORM_BACKWARD_DATA);
        assert_int_equal(data->desc.attributes.norm.rows_summed, replica < 2 ? 36 : 30);
        assert_int_equal(op_of(&lowering, GP_OP_NORM_MERGE_SUMS)->desc.operand[GP_NORM_MERGE_SUMS_PARTS].dim[0], 2);
        gp_lowering_fini(&lowering);
    }
    /* 1, 1, 1 and none: the third has no other one to share with, and one value. */
    assert_int_equal(lower_part(&points, 0, 3, &lowering, &err), GP_OK);
    gp_lowering_fini(&lowering);
    assert_int_equal(lower_part(&points, 2, 3, &lowering, &err), GP_CONFIG);
    assert_string_equal(err.text, "a micro-batch of 3 samples leaves one value per channel to a group of replicas that "
                                  "synchronise, and its variance is 0: take a larger batch, fewer micro_batches or "
                                  "larger groups (data.drop_last leaves out a small last mini-batch)");
    gp_lowering_fini(&lowering);
    check(lower_part(&frozen, 0, 4, &lowering, &err), &err);
    assert_int_equal(lowering.stats.count, 0);
    gp_lowering_fini(&lowering);
}

static void test_too_many_samples(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        gp_lowering lowering;
        gp_layer *layer = create(&cases[i]);
        gp_lowering_init(&lowering, gp_types_of(GP_F32), INT64_MAX / 16, 0);
        assert_int_equal(layer->type->lower(layer, &lowering, &err), GP_CONFIG);
        assert_non_null(strstr(err.text, "is larger than any memory"));
        gp_lowering_fini(&lowering);
        gp_layer_destroy(&layer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_operands_fit),
        cmocka_unit_test(test_each_result_is_written_once),
        cmocka_unit_test(test_statistics_run_once),
        cmocka_unit_test(test_weights_come_first),
        cmocka_unit_test(test_prediction_is_kept),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_dropout_counter),
        cmocka_unit_test(test_commit_counts_rows),
        cmocka_unit_test(test_one_value_per_channel),
        cmocka_unit_test(test_groups_of_replicas),
        cmocka_unit_test(test_too_many_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
