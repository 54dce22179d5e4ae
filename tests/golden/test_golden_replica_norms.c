/* Batch norm over the shares of several replicas against what PyTorch computed (make_replica_norms.py), and, where
 * replicas have empty shares, against make_replica_norms_empty.py: 20 steps in f64 on ref, and in f32 on cpu. Uneven
 * shares, several micro-batches, groups; gradients, running statistics, weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/safetensors.h"
#include "device/cpu/cpu.h"
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

/* Of other tensors, in a file of their own. A stage with fewer replicas has no empty share. */
static const golden_case empty_cases[] = {
    {"empty", MODEL("true"), 1, {4}, {10}, 23, 4},          {"empty", MODEL("4"), 2, {4, 4}, {2, 8}, 23, 4},
    {"empty", MODEL("true"), 2, {4, 3}, {5, 5}, 23, 4},     {"empty_groups", MODEL("2"), 1, {4}, {10}, 17, 2},
    {"empty_groups", MODEL("2"), 2, {4, 4}, {4, 6}, 17, 2}, {"empty_once", MODEL("true"), 1, {4}, {10}, 9, 1},
    {"empty_once", MODEL("true"), 2, {2, 4}, {7, 3}, 9, 1},
};

typedef struct precision {
    const gp_device_kind *kind;
    gp_dtype real;
    double bound; /* of differences, in units of a tensor's largest value */
} precision;
static const precision in_f64 = {&gp_ref_kind, GP_F64, 1e-10}, in_f32 = {&gp_cpu_kind, GP_F32, 1e-4};

typedef struct trial {
    const golden_case *its;
    const precision *in;
    gp_safetensors *file, *data; /* the data and initial weights are in one file for all cases */
    harness h;
} trial;

/* Numbers as the plan has them: f64, or made f32 in place. */
static void *narrow(const trial *t, double *values, size_t count) {
    for (size_t i = 0; i < count && t->in->real == GP_F32; i++) {
        float value = (float)values[i];
        memcpy((char *)values + i * sizeof value, &value, sizeof value);
    }
    return values;
}

static void widen(const trial *t, double *values, size_t count) {
    for (size_t i = count; i-- > 0 && t->in->real == GP_F32;) {
        float value;
        memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
        values[i] = (double)value;
    }
}

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* The caller frees them. */
static double *read_from(gp_safetensors *file, const char *prefix, const char *name, const char *suffix,
                         size_t *count) {
    char key[128];
    gp_error err = {0};
    snprintf(key, sizeof key, "%s%s%s", prefix, name, suffix);
    const gp_safetensor *tensor = gp_safetensors_find(file, key);
    if (!tensor) fail_msg("no tensor %s", key);
    size_t bytes = (size_t)(tensor->end - tensor->begin);
    double *values = malloc(bytes);
    assert_non_null(values);
    must(gp_safetensors_read(file, tensor, 0, bytes, values, &err), &err);
    if (count) *count = bytes / sizeof *values;
    return values;
}

/* In units of the largest value. */
static void compare(const trial *t, const char *when, const char *what, const double *found, const double *wanted,
                    size_t count) {
    double largest = 1e-3, worst = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(wanted[i]));
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs(found[i] - wanted[i]));
    if (!(worst <= t->in->bound * largest))
        fail_msg("%s on %d stages, %s, %s: %s differs by %g of %g", t->its->name, t->its->stages, t->in->kind->name,
                 when, what, worst, largest);
}

static void check_tensor(trial *t, const char *when, int param, int state) {
    const char *name = t->h.graph->params[param].name;
    char prefix[32];
    gp_error err = {0};
    size_t count;
    snprintf(prefix, sizeof prefix, "%s.%s.", t->its->name, when);
    double *wanted = read_from(t->file, prefix, name, state < 0 ? "" : ".momentum", &count);
    double *found = malloc(count * sizeof *found);
    assert_non_null(found);
    must(gp_run_read(t->h.run, &(gp_tensor_copy){param, state, found}, 1, &err), &err);
    widen(t, found, count);
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
        size_t count;
        double *values = read_from(t->data, "initial.", t->h.graph->params[p].name, "", &count);
        must(gp_run_write(t->h.run, &(gp_tensor_copy){p, -1, narrow(t, values, count)}, 1, &err), &err);
        free(values);
    }
    must(gp_run_refresh(t->h.run, &err), &err);
}

static void run_steps(trial *t) {
    size_t count, real = gp_dtype_size(t->in->real);
    double *losses = read_from(t->file, t->its->name, ".losses", "", NULL), *y = read_from(t->data, "", "y", "", NULL);
    double *from = read_from(t->data, "", "x", "", &count);
    const char *x = narrow(t, from, count);
    gp_error err = {0};
    gp_step_result result;
    for (size_t s = 0; s < STEPS; s++) {
        memcpy(t->h.input, x + s * MOST * SAMPLE * real, (size_t)t->its->samples * SAMPLE * real);
        memcpy(t->h.target, y + s * MOST, (size_t)t->its->samples * sizeof *y);
        must(harness_run(&t->h, t->its->samples, true, (uint32_t)s + 1, &result, &err), &err);
        compare(t, "losses", "the loss", &result.loss_sum, &losses[s], 1);
        if (s == 0) check_state(t, "first", false);
    }
    check_state(t, "last", true);
    free(from);
    free(y);
    free(losses);
}

static gp_safetensors *open_file(const char *name) {
    char path[PATH];
    gp_error err = {0};
    gp_safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/golden/%s", GP_TEST_SOURCE_DIR, name);
    must(gp_safetensors_open(path, &file, &err), &err);
    return file;
}

static void run_case(const golden_case *its, const precision *in, const char *name, int mode) {
    trial t = {.its = its, .in = in, .file = open_file(name), .data = open_file("replica_norms.safetensors")};
    const harness_options options = {.model = its->model,
                                     .layers = its->layers,
                                     .stages = its->stages,
                                     .replicas = its->replicas,
                                     .kind = in->kind,
                                     .real = in->real,
                                     .checkpoint = (gp_checkpoint_mode)mode,
                                     .micro_batches = its->micro_batches,
                                     .batch = its->samples};
    harness_plan(&t.h, &options);
    harness_start(&t.h, NULL);
    write_initial(&t);
    run_steps(&t);
    harness_end(&t.h);
    gp_safetensors_close(&t.file);
    gp_safetensors_close(&t.data);
}

static void run_cases(const golden_case *its, size_t count, const char *name) {
    for (size_t c = 0; c < count; c++)
        for (int mode = 0; mode < 3; mode++) {
            run_case(&its[c], &in_f64, name, mode);
            run_case(&its[c], &in_f32, name, mode);
        }
}

static void pytorch_finds_the_same(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, "replica_norms.safetensors");
}

static void empty_shares_take_no_part(void **state) {
    (void)state;
    run_cases(empty_cases, sizeof empty_cases / sizeof *empty_cases, "replica_norms_empty.safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pytorch_finds_the_same),
        cmocka_unit_test(empty_shares_take_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
