/* The backward pass makes no gradient that nothing needs: none of the input of the first trained layer, none of what
 * stands before it; on one stage and on several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "pipeline/harness.h"

#define MODEL(layers) "input: {shape: [2, 4, 4]}\nlayers: [" layers ", flatten, linear: 3]\nloss: cross_entropy\n"
#define CONV          "conv: {out: 3, kernel: 1}"
#define FROZEN        "conv: {out: 3, kernel: 1, freeze: true}"

/* Ops that make a convolution's, a relu's, a pool's and a batch norm's gradient of the input, and gradients that cross
 * cuts. */
static const struct {
    const char *model;
    int64_t layers[3];
    int conv, relu, pool, norm, crossing;
} cases[] = {
    {MODEL(CONV ", relu, " CONV), {5}, 1, 1, 0, 0, 0},
    {MODEL(CONV ", relu, " CONV), {2, 3}, 1, 1, 0, 0, 1},
    /* what has no parameters stands before the first layer that has */
    {MODEL("relu, max_pool: 2, " CONV ", relu, " CONV), {7}, 1, 1, 0, 0, 0},
    {MODEL("relu, max_pool: 2, " CONV ", relu, " CONV), {1, 6}, 1, 1, 0, 0, 0},
    {MODEL("relu, max_pool: 2, " CONV ", relu, " CONV), {2, 2, 3}, 1, 1, 0, 0, 1},
    /* frozen layers before the first trained one */
    {MODEL(FROZEN ", batch_norm: {freeze: true}, relu, max_pool: 2, " CONV ", relu, " CONV), {9}, 1, 1, 0, 0, 0},
    {MODEL(FROZEN ", batch_norm: {freeze: true}, relu, max_pool: 2, " CONV ", relu, " CONV), {4, 5}, 1, 1, 0, 0, 0},
    {MODEL(FROZEN ", batch_norm: {freeze: true}, relu, max_pool: 2, " CONV ", relu, " CONV), {2, 4, 3}, 1, 1, 0, 0, 1},
    /* the first trained one is a norm: its gamma's gradient, and not its input's */
    {MODEL(FROZEN ", batch_norm, relu, max_pool: 2, " CONV), {7}, 1, 0, 1, 0, 0},
    {MODEL(FROZEN ", batch_norm, relu, max_pool: 2, " CONV), {1, 6}, 1, 0, 1, 0, 0},
    /* frozen layers after a trained one pass a gradient on */
    {MODEL(CONV ", relu, " FROZEN ", max_pool: 2"), {6}, 1, 1, 1, 0, 0},
    {MODEL(CONV ", relu, " FROZEN ", max_pool: 2"), {2, 4}, 1, 1, 1, 0, 1},
    /* two ways to the input: one through a trained layer */
    {MODEL(FROZEN ", conv: {out: 3, kernel: 1, name: c}, add: [\"0\", c]"), {5}, 0, 0, 0, 0, 0},
};

static int count(const harness *h, gp_op_kind kind) {
    return harness_ops(h, GP_ROUTINE_BACKWARD, kind);
}

static void test_gradients_of_inputs(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        harness h;
        harness_options options = {.model = cases[c].model,
                                   .layers = cases[c].layers,
                                   .kind = &gp_cpu_kind,
                                   .checkpoint = GP_CHECKPOINT_NEVER,
                                   .micro_batches = 2,
                                   .batch = 6};
        while (options.stages < 3 && cases[c].layers[options.stages]) options.stages++;
        harness_plan(&h, &options);
        int crossing = 0;
        for (int s = 0; s < h.plan->stages->count; s++) crossing += (int)h.plan->stages->stage[s].grad_out.count;
        int conv = count(&h, GP_OP_CONV_BACKWARD_DATA), pool = count(&h, GP_OP_MAX_POOL_BACKWARD);
        int norm = count(&h, GP_OP_NORM_BACKWARD_DATA) + count(&h, GP_OP_NORM_RELU_BACKWARD_DATA);
        int relu = count(&h, GP_OP_RELU_BACKWARD);
        if (conv != cases[c].conv || relu != cases[c].relu || pool != cases[c].pool || norm != cases[c].norm ||
            crossing != cases[c].crossing)
            fail_msg("case %zu: %d of conv, %d of relu, %d of pool, %d of norm, %d crossing", c, conv, relu, pool, norm,
                     crossing);
        harness_end(&h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_of_inputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
