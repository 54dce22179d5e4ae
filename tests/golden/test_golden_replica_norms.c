/* Batch norm over the shares of several replicas against what PyTorch computed (make_replica_norms.py): 20 steps in
 * f64, on ref. Uneven shares, several micro-batches, groups; gradients, running statistics, weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/safetensors.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"

enum { STEPS = 20, MOST = 23, SAMPLE = 2 * 5 * 4, PATH = 512 };

/* Names are PyTorch's: the place in the list. */
#define MODEL(sync)                                                                                                    \
    "input: {shape: [2, 5, 4]}\n"                                                                                      \
    "layers: [{conv: {out: 4, kernel: 3, pad: 1}}, batch_norm, relu, {conv: {out: 3, kernel: 3}}, "                    \
    "{batch_norm: {eps: 1e-2, momentum: 0.3}}, relu, flatten, linear: 5, batch_norm, linear: 4]\n"                     \
    "loss: cross_entropy\n"                                                                                            \
    "rules: {batch_norm: {sync: " sync "}}\n"

typedef struct golden_case {
    const char *name, *model;
    int stages, replicas[2];
    int64_t layers[2];
    int64_t samples;
    int micro_batches;
} golden_case;

static const golden_case cases[] = {
    {"whole", MODEL("true"), 1, {3}, {10}, 7, 1},       {"whole", MODEL("3"), 2, {3, 3}, {4, 6}, 7, 1},
    {"micro", MODEL("true"), 1, {3}, {10}, 15, 2},      {"micro", MODEL("true"), 2, {3, 3}, {4, 6}, 15, 2},
    {"micro", MODEL("true"), 2, {2, 3}, {4, 6}, 15, 2}, {"groups", MODEL("2"), 1, {4}, {10}, 23, 3},
    {"groups", MODEL("2"), 2, {4, 4}, {1, 9}, 23, 3},
};

typedef struct trial {
    const golden_case *its;
    gp_safetensors *file;
    harness h;
} trial;

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* The caller frees them. */
static double *read_values(const trial *t, const char *prefix, const char *name, const char *suffix, size_t *count) {
    char key[128];
    gp_error err = {0};
    snprintf(key, sizeof key, "%s%s%s", prefix, name, suffix);
    const gp_safetensor *tensor = gp_safetensors_find(t->file, key);
    if (!tensor) fail_msg("no tensor %s", key);
    size_t bytes = (size_t)(tensor->end - tensor->begin);
    double *values = malloc(bytes);
    assert_non_null(values);
    must(gp_safetensors_read(t->file, tensor, 0, bytes, values, &err), &err);
    if (count) *count = bytes / sizeof *values;
    return values;
}

/* In units of the largest value. */
static void compare(const trial *t, const char *when, const char *what, const double *found, const double *wanted,
                    size_t count) {
    double largest = 1e-3, worst = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(wanted[i]));
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs(found[i] - wanted[i]));
    if (!(worst <= 1e-10 * largest))
        fail_msg("%s on %d stages, %s: %s differs by %g of %g", t->its->name, t->its->stages, when, what, worst,
                 largest);
}

static void check_tensor(trial *t, const char *when, int param, int state) {
    const char *name = t->h.graph->params[param].name;
    char prefix[32];
    gp_error err = {0};
    size_t count;
    snprintf(prefix, sizeof prefix, "%s.%s.", t->its->name, when);
    double *wanted = read_values(t, prefix, name, state < 0 ? "" : ".momentum", &count);
    double *found = malloc(count * sizeof *found);
    assert_non_null(found);
    must(gp_run_read(t->h.run, &(gp_tensor_copy){param, state, found}, 1, &err), &err);
    compare(t, when, name, found, wanted, count);
    free(found);
    free(wanted);
}

/* After the first step gradients (in the optimizer's states) and running statistics; at the end the weights too. */
static void check_state(trial *t, const char *when, bool weights) {
    for (int p = 0; p < t->h.graph->param_count; p++) {
        bool trained = t->h.graph->params[p].trained;
        if (weights || !trained) check_tensor(t, when, p, -1);
        if (trained) check_tensor(t, when, p, 0);
    }
}

static void write_initial(trial *t) {
    gp_error err = {0};
    for (int p = 0; p < t->h.graph->param_count; p++) {
        double *values = read_values(t, "initial.", t->h.graph->params[p].name, "", NULL);
        must(gp_run_write(t->h.run, &(gp_tensor_copy){p, -1, values}, 1, &err), &err);
        free(values);
    }
    must(gp_run_refresh(t->h.run, &err), &err);
}

static void run_steps(trial *t) {
    double *x = read_values(t, "", "x", "", NULL), *losses = read_values(t, t->its->name, ".losses", "", NULL);
    double *y = read_values(t, "", "y", "", NULL);
    gp_error err = {0};
    gp_step_result result;
    for (size_t s = 0; s < STEPS; s++) {
        memcpy(t->h.input, x + s * MOST * SAMPLE, (size_t)t->its->samples * SAMPLE * sizeof *x);
        memcpy(t->h.target, y + s * MOST, (size_t)t->its->samples * sizeof *y);
        must(harness_run(&t->h, t->its->samples, true, (uint32_t)s + 1, &result, &err), &err);
        compare(t, "losses", "the loss", &result.loss_sum, &losses[s], 1);
        if (s == 0) check_state(t, "first", false);
    }
    check_state(t, "last", true);
    free(x);
    free(y);
    free(losses);
}

static void pytorch_finds_the_same(void **state) {
    (void)state;
    char path[PATH];
    gp_error err = {0};
    snprintf(path, sizeof path, "%s/golden/replica_norms.safetensors", GP_TEST_SOURCE_DIR);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int mode = 0; mode < 3; mode++) {
            trial t = {.its = &cases[c]};
            const harness_options options = {.model = t.its->model,
                                             .layers = t.its->layers,
                                             .stages = t.its->stages,
                                             .replicas = t.its->replicas,
                                             .kind = &gp_ref_kind,
                                             .real = GP_F64,
                                             .checkpoint = (gp_checkpoint_mode)mode,
                                             .micro_batches = t.its->micro_batches,
                                             .batch = t.its->samples};
            must(gp_safetensors_open(path, &t.file, &err), &err);
            harness_plan(&t.h, &options);
            harness_start(&t.h, NULL);
            write_initial(&t);
            run_steps(&t);
            harness_end(&t.h);
            gp_safetensors_close(&t.file);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pytorch_finds_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
