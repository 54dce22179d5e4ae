/* The typed configuration: what is read, defaults, overrides, and the resolved file that repeats the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "settings/config.h"

static gp_error err;
static char folder[] = "/tmp/gp-test-config-XXXXXX";

#define MODEL "model:\n  input: {shape: [1, 28, 28]}\n  layers: [flatten, {linear: {out: 10}}]\n  loss: cross_entropy\n"
#define DATA  "data: {train: {tensors: a.safetensors}, batch: 64}\n"
#define SMALL MODEL DATA "optimizer: {sgd: {lr: 0.02}}\ntrain: {epochs: 2}\n"

static const char *in_folder(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static gp_config *load(const char *text, const char *const *overrides, int count) {
    gp_config *config = NULL;
    write_file("c.yaml", text);
    if (gp_config_load(GP_TO_RUN, in_folder("c.yaml"), overrides, count, &config, &err) != GP_OK)
        fail_msg("%s", err.text);
    return config;
}

static void assert_path(const char *path, const char *name) {
    assert_string_equal(path, in_folder(name));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void transforms_have_torchvisions_defaults(void **state) {
    (void)state;
    static const char *const set[] = {
        "data.train={tensors: a, transform: [random_crop: 32, pad: [1, 2], random_horizontal_flip, random_erasing]}"};
    gp_config *c = load(SMALL, set, 1);
    const gp_transform_config *it = c->data.train.transforms;
    assert_int_equal(c->data.train.transform_count, 4);
    assert_int_equal(it[0].kind, GP_TRANSFORM_RANDOM_CROP);
    assert_true(it[0].size[0] == 32 && it[0].size[1] == 32 && it[0].pad[0] == 0 && it[0].fill.value[0] == 0);
    assert_int_equal(it[1].kind, GP_TRANSFORM_PAD);
    assert_true(it[1].pad[0] == 1 && it[1].pad[1] == 2 && it[1].pad[2] == 1 && it[1].pad[3] == 2);
    assert_int_equal(it[2].kind, GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP);
    assert_true(it[2].p == 0.5);
    assert_int_equal(it[3].kind, GP_TRANSFORM_RANDOM_ERASING);
    assert_true(it[3].p == 0.5 && it[3].scale[0] == 0.02 && it[3].scale[1] == 0.33 && it[3].ratio[0] == 0.3 &&
                it[3].ratio[1] == 3.3 && it[3].fill.count == 1 && it[3].fill.value[0] == 0);
    gp_config_destroy(&c);
}

static void has_the_defaults_of_the_manual(void **state) {
    (void)state;
    gp_config *c = load(SMALL, NULL, 0);
    assert_path(c->path, "c.yaml");
    assert_string_equal(c->folder, folder);
    assert_ptr_equal(c->model, gp_yaml_find(c->document, "model"));
    assert_int_equal(c->data.train.kind, GP_SOURCE_TENSORS);
    assert_path(c->data.train.file, "a.safetensors");
    assert_false(c->data.train.take);
    assert_int_equal(c->data.eval.kind, GP_SOURCE_NONE);
    assert_int_equal(c->data.batch, 64);
    assert_int_equal(c->data.batch_place.line, 5);
    assert_true(c->data.shuffle);
    assert_false(c->data.drop_last);
    assert_int_equal(c->data.threads, 1);
    assert_int_equal(c->data.train.transform_count, 0);
    assert_int_equal(c->pipeline.device_count, 1);
    assert_string_equal(c->pipeline.devices[0].kind, "cpu");
    assert_int_equal(c->pipeline.devices[0].threads, 1);
    assert_int_equal(c->pipeline.devices[0].memory, 0);
    assert_int_equal(c->pipeline.balance, GP_BALANCE_AUTO);
    assert_int_equal(c->pipeline.micro_batches, 1);
    assert_int_equal(c->pipeline.schedule.kind, GP_SCHEDULE_GPIPE);
    assert_int_equal(c->pipeline.stages, 1);
    assert_int_equal(c->pipeline.checkpoint, GP_CHECKPOINT_EXCEPT_LAST);
    assert_false(c->pipeline.lockstep);
    assert_int_equal(c->optimizer.kind, GP_OPTIMIZER_SGD);
    assert_true(c->optimizer.lr == 0.02 && c->optimizer.momentum == 0 && c->optimizer.decay == 0);
    assert_false(c->optimizer.nesterov);
    assert_int_equal(c->optimizer.lr_schedule, GP_LR_CONSTANT);
    assert_true(c->optimizer.warmup.count == 0 && c->optimizer.warmup_from == 0);
    assert_true(c->train.epochs.count == 2 && c->train.epochs.epochs);
    assert_int_equal(c->train.steps, -1);
    assert_int_equal(c->train.seed, 1);
    assert_true(c->train.eval_every.count == 1 && c->train.eval_every.epochs);
    assert_true(c->optimizer.clip_norm == 0 && !c->optimizer.no_decay);
    assert_null(c->train.init);
    assert_true(c->train.save_every.minutes == 10 && c->train.save_every.about);
    assert_int_equal(c->train.keep, 2);
    assert_int_equal(c->train.precision, GP_PRECISION_F32);
    gp_config_destroy(&c);
    assert_null(c);
    gp_config_destroy(&c);
}

static const char full[] =
    MODEL "data:\n"
          "  train: {idx: {images: ../x/i.gz, labels: /abs/l.gz, mean: 0.1307, std: 0.3081}, take: [0, 5000]}\n"
          "  eval: {tensors: {file: \"odd 'name' é\\t.st\"}, take: [5000, 6000]}\n"
          "  batch: 60\n  shuffle: false\n  drop_last: true\n"
          "pipeline:\n"
          "  devices: [cpu, {cpu: {threads: 2, memory: 1.5GiB}}, {cpu: 3}, cuda:1, {cuda: {memory: 4GiB}}, ref]\n"
          "  balance: [1, 2, 3, 4, 5, 6]\n  micro_batches: 7\n  schedule: gpipe\n"
          "  checkpoint: always\n  lockstep: false\n"
          "optimizer:\n"
          "  sgd: {lr: 1e-3, momentum: 0.9, nesterov: true, weight_decay: 5e-4}\n"
          "  lr_schedule: constant\n  warmup: {length: 3 epochs, from: 0.1}\n"
          "train: {epochs: 3, steps: 500, seed: 9223372036854775807, eval_every: 100, init: w.safetensors}\n";

static void reads_every_option(void **state) {
    (void)state;
    gp_config *c = load(full, NULL, 0);
    assert_int_equal(c->data.train.kind, GP_SOURCE_IDX);
    assert_path(c->data.train.images, "../x/i.gz");
    assert_string_equal(c->data.train.labels, "/abs/l.gz");
    assert_true(c->data.train.normalise && c->data.train.mean == 0.1307 && c->data.train.std == 0.3081);
    assert_true(c->data.train.take && c->data.train.take_from == 0 && c->data.train.take_to == 5000);
    assert_path(c->data.eval.file, "odd 'name' é\t.st");
    assert_true(c->data.eval.take_from == 5000 && c->data.eval.take_to == 6000);
    assert_true(c->data.batch == 60 && !c->data.shuffle && c->data.drop_last);
    assert_int_equal(c->pipeline.device_count, 6);
    assert_int_equal(c->pipeline.devices[1].threads, 2);
    assert_true(c->pipeline.devices[1].memory == (size_t)3 << 29);
    assert_int_equal(c->pipeline.devices[1].place.line, 12);
    assert_int_equal(c->pipeline.devices[2].threads, 3);
    assert_string_equal(c->pipeline.devices[3].kind, "cuda");
    assert_int_equal(c->pipeline.devices[3].index, 1);
    assert_int_equal(c->pipeline.devices[4].index, 0);
    assert_true(c->pipeline.devices[4].memory == (size_t)4 << 30);
    assert_string_equal(c->pipeline.devices[5].kind, "ref");
    assert_int_equal(c->pipeline.balance, GP_BALANCE_LAYERS);
    assert_int_equal(c->pipeline.layers_count, 6);
    assert_int_equal(c->pipeline.layers[5], 6);
    assert_int_equal(c->pipeline.micro_batches, 7);
    assert_int_equal(c->pipeline.micro_batches_place.line, 14);
    assert_int_equal(c->pipeline.checkpoint, GP_CHECKPOINT_ALWAYS);
    assert_false(c->pipeline.lockstep);
    assert_true(c->optimizer.lr == 1e-3 && c->optimizer.momentum == 0.9 && c->optimizer.decay == 5e-4);
    assert_true(c->optimizer.nesterov);
    assert_true(c->optimizer.warmup.count == 3 && c->optimizer.warmup.epochs && c->optimizer.warmup_from == 0.1);
    assert_true(c->train.epochs.count == 3 && c->train.steps == 500 && c->train.seed == INT64_MAX);
    assert_true(c->train.eval_every.count == 100 && !c->train.eval_every.epochs);
    assert_path(c->train.init, "w.safetensors");
    gp_config_destroy(&c);
}

static void assert_adam(const char *text, gp_optimizer_kind kind, double lr, double decay) {
    char set[100];
    const char *const sets[] = {set};
    snprintf(set, sizeof set, "optimizer=%s", text);
    gp_config *c = load(SMALL, sets, 1);
    const gp_optimizer_config *optimizer = &c->optimizer;
    assert_int_equal(optimizer->kind, kind);
    assert_true(optimizer->lr == lr && optimizer->beta1 == 0.9 && optimizer->beta2 == 0.999 && optimizer->eps == 1e-8);
    assert_true(optimizer->decay == decay && optimizer->momentum == 0);
    gp_config_destroy(&c);
}

static void adam_has_the_defaults_of_pytorch(void **state) {
    (void)state;
    assert_adam("adam", GP_OPTIMIZER_ADAM, 1e-3, 0);
    assert_adam("{adam: 0.25}", GP_OPTIMIZER_ADAM, 0.25, 0);
    assert_adam("{adam: {}}", GP_OPTIMIZER_ADAM, 1e-3, 0);
    assert_adam("adamw", GP_OPTIMIZER_ADAMW, 1e-3, 0.01);
    assert_adam("{adamw: 0.25}", GP_OPTIMIZER_ADAMW, 0.25, 0.01);
    assert_adam("{adamw: {weight_decay: 0}}", GP_OPTIMIZER_ADAMW, 1e-3, 0);
}

static const char adamw[] = MODEL DATA "optimizer:\n"
                                       "  adamw: {lr: 0.125, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.3}\n"
                                       "  lr_schedule: {multistep: {milestones: [3 epochs, 5 epochs], gamma: 0.3}}\n"
                                       "  clip_norm: 0.5\n  no_decay: norms_and_biases\n"
                                       "train: {epochs: 6, init: {file: w.st, skip: [fc, layer4.1, 3]}, save_every: "
                                       "0.5 minutes, keep: 7, precision: tf32}\n";

static void reads_adamw_beside_all_that_may_stand_there(void **state) {
    (void)state;
    gp_config *c = load(adamw, NULL, 0);
    const gp_optimizer_config *optimizer = &c->optimizer;
    assert_int_equal(optimizer->kind, GP_OPTIMIZER_ADAMW);
    assert_true(optimizer->lr == 0.125 && optimizer->beta1 == 0.8 && optimizer->beta2 == 0.95);
    assert_true(optimizer->eps == 1e-6 && optimizer->decay == 0.3);
    assert_int_equal(optimizer->lr_schedule, GP_LR_MULTISTEP);
    assert_int_equal(optimizer->lr_milestone_count, 2);
    assert_true(optimizer->lr_milestones[1].count == 5 && optimizer->lr_milestones[1].epochs);
    assert_true(optimizer->lr_gamma == 0.3 && optimizer->clip_norm == 0.5 && optimizer->no_decay);
    assert_path(c->train.init, "w.st");
    assert_int_equal(c->train.init_skip_count, 3);
    assert_string_equal(c->train.init_skip[1].text, "layer4.1");
    assert_string_equal(c->train.init_skip[2].text, "3");
    assert_int_equal(c->train.init_skip[1].place.column, 50);
    assert_true(c->train.save_every.minutes == 0.5 && c->train.save_every.time.count == 0);
    assert_int_equal(c->train.keep, 7);
    assert_int_equal(c->train.precision, GP_PRECISION_TF32);
    gp_config_destroy(&c);
}

static gp_config *load_schedule(const char *text) {
    char set[100];
    const char *const sets[] = {set};
    snprintf(set, sizeof set, "optimizer.lr_schedule=%s", text);
    return load(SMALL, sets, 1);
}

static void reads_schedules_by_their_main_options(void **state) {
    (void)state;
    gp_config *c = load_schedule("{step: 30 epochs}");
    assert_int_equal(c->optimizer.lr_schedule, GP_LR_STEP);
    assert_true(c->optimizer.lr_every.count == 30 && c->optimizer.lr_every.epochs && c->optimizer.lr_gamma == 0.1);
    gp_config_destroy(&c);
    c = load_schedule("{step: {every: 7, gamma: 0.5}}");
    assert_true(c->optimizer.lr_every.count == 7 && !c->optimizer.lr_every.epochs && c->optimizer.lr_gamma == 0.5);
    gp_config_destroy(&c);
    c = load_schedule("{multistep: [5, 9]}");
    assert_int_equal(c->optimizer.lr_milestone_count, 2);
    assert_true(c->optimizer.lr_milestones[0].count == 5 && c->optimizer.lr_gamma == 0.1);
    gp_config_destroy(&c);
    c = load_schedule("{multistep: {gamma: [0.1, 0.5], milestones: [11 epochs, 17 epochs]}}"); /* in any order */
    assert_int_equal(c->optimizer.lr_gamma_count, 2);
    assert_true(c->optimizer.lr_gammas[0] == 0.1 && c->optimizer.lr_gammas[1] == 0.5);
    gp_config_destroy(&c);
    c = load_schedule("{cosine: 0.25}");
    assert_int_equal(c->optimizer.lr_schedule, GP_LR_COSINE);
    assert_true(c->optimizer.lr_min == 0.25);
    gp_config_destroy(&c);
    c = load_schedule("cosine");
    assert_true(c->optimizer.lr_schedule == GP_LR_COSINE && c->optimizer.lr_min == 0);
    gp_config_destroy(&c);
}

static void reads_one_name_to_skip_without_a_list(void **state) {
    (void)state;
    static const char *const sets[] = {"train.init={file: w, skip: fc}", "train.save_every=3 epochs"};
    gp_config *c = load(SMALL, sets, 2);
    assert_int_equal(c->train.init_skip_count, 1);
    assert_string_equal(c->train.init_skip[0].text, "fc");
    assert_true(c->train.save_every.time.count == 3 && c->train.save_every.time.epochs);
    gp_config_destroy(&c);
}

/* On where all devices copy beside computing: GPUs. Who says true or false gets it. */
static void lockstep_is_auto(void **state) {
    (void)state;
    static const struct {
        const char *devices, *more;
        bool on;
    } cases[] = {{"[cpu]", "", false},
                 {"[cpu, cpu]", ", lockstep: auto", false},
                 {"[ref]", ", lockstep: auto", false},
                 {"[cpu, cpu]", ", lockstep: true", true},
                 {"[cuda:0]", "", true},
                 {"[cuda:0, {cuda:1: {memory: 1GiB}}]", ", lockstep: auto", true},
                 {"[cuda:0, cuda:1]", ", lockstep: false", false},
                 {"[cuda:0, cpu]", ", lockstep: auto", false},
                 {"[cuda:0, cpu]", ", lockstep: true", true},
                 {"[cuda:0, cuda:1]", ", schedule: 1f1b", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 MODEL "data: {train: {tensors: a}, batch: 1}\noptimizer: {sgd: 0.5}\ntrain: {steps: 5}\n"
                       "pipeline: {devices: %s%s}\n",
                 cases[i].devices, cases[i].more);
        gp_config *c = load(text, NULL, 0);
        if (c->pipeline.lockstep != cases[i].on) fail_msg("%s%s", cases[i].devices, cases[i].more);
        gp_config_destroy(&c);
    }
}

/* Main options alone, aliases, kinds alone, and what one line of --set may change. */
static void reads_short_forms(void **state) {
    (void)state;
    static const char *const overrides[] = {"pipeline.devices=[cpu, cpu]", "pipeline.balance=size", "data.batch=10",
                                            "train.eval_every=3 epochs",   "optimizer.warmup=5",    "data.batch=12"};
    gp_config *c = load(MODEL "data: {train: &d {tensors: a}, eval: *d, batch: 1}\noptimizer: {sgd: 0.5}\n"
                              "train: {steps: 5}\npipeline: {lockstep: auto, balance: auto}\n",
                        overrides, 6);
    assert_int_equal(c->data.eval.kind, GP_SOURCE_TENSORS);
    assert_true(c->optimizer.lr == 0.5);
    assert_int_equal(c->pipeline.device_count, 2);
    assert_int_equal(c->pipeline.balance, GP_BALANCE_SIZE);
    assert_int_equal(c->data.batch, 12);
    assert_string_equal(c->data.batch_place.path, "--set data.batch=12");
    assert_true(c->train.eval_every.count == 3 && c->train.eval_every.epochs);
    assert_true(c->optimizer.warmup.count == 5 && !c->optimizer.warmup.epochs);
    assert_true(!c->pipeline.lockstep && c->train.steps == 5 && c->train.epochs.count == 0);
    gp_config_destroy(&c);
}

static void needs_no_training_data_to_evaluate(void **state) {
    (void)state;
    gp_config *c =
        load(MODEL "data: {eval: {tensors: a}, batch: 1}\noptimizer: {sgd: 0.5}\ntrain: {steps: 0}\n", NULL, 0);
    assert_int_equal(c->data.train.kind, GP_SOURCE_NONE);
    assert_int_equal(c->train.steps, 0);
    gp_config_destroy(&c);
}

static void counts_equal_devices(void **state) {
    (void)state;
    static const char *const set[] = {"pipeline.devices=[cpu, {cpu: {count: 4095, threads: 2}}]"};
    gp_config *c = load(SMALL, set, 1);
    assert_int_equal(c->pipeline.device_count, GP_MAX_STAGES);
    assert_int_equal(c->pipeline.devices[0].threads, 1);
    assert_int_equal(c->pipeline.devices[1].threads, 2);
    assert_int_equal(c->pipeline.devices[4095].threads, 2);
    gp_config_destroy(&c);
}

/* Relative paths start where the configuration lies, however it was named. */
static void finds_its_folder(void **state) {
    (void)state;
    char before[512];
    gp_config *c = NULL;
    write_file("c.yaml", SMALL);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(gp_config_load(GP_TO_RUN, "c.yaml", NULL, 0, &c, &err), GP_OK);
    assert_path(c->data.train.file, "a.safetensors");
    gp_config_destroy(&c);
    assert_int_equal(gp_config_load(GP_TO_RUN, "./../.././tmp/../tmp/gp-nothing.yaml", NULL, 0, &c, &err), GP_CONFIG);
    assert_string_equal(err.text, "./../.././tmp/../tmp/gp-nothing.yaml: cannot be opened: No such file or directory");
    assert_null(c);
    assert_int_equal(chdir(before), 0);
}

/* ---- resolving --------------------------------------------------------------------------------------------------- */

static bool texts_equal(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool values_equal(const gp_channel_values *a, const gp_channel_values *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->value, b->value, (size_t)a->count * sizeof *a->value) == 0);
}

static bool transforms_equal(const gp_transform_config *a, const gp_transform_config *b) {
    return a->kind == b->kind && memcmp(a->size, b->size, sizeof a->size) == 0 &&
           memcmp(a->pad, b->pad, sizeof a->pad) == 0 && a->p == b->p &&
           memcmp(a->scale, b->scale, sizeof a->scale) == 0 && memcmp(a->ratio, b->ratio, sizeof a->ratio) == 0 &&
           values_equal(&a->fill, &b->fill) && values_equal(&a->mean, &b->mean) && values_equal(&a->std, &b->std);
}

static bool sources_equal(const gp_source_config *a, const gp_source_config *b) {
    if (a->transform_count != b->transform_count) return false;
    for (int i = 0; i < a->transform_count; i++)
        if (!transforms_equal(&a->transforms[i], &b->transforms[i])) return false;
    return a->kind == b->kind && texts_equal(a->images, b->images) && texts_equal(a->labels, b->labels) &&
           texts_equal(a->file, b->file) && a->normalise == b->normalise && a->mean == b->mean && a->std == b->std &&
           a->samples == b->samples && a->seed == b->seed && a->take == b->take && a->take_from == b->take_from &&
           a->take_to == b->take_to;
}

static bool checkpoints_equal(const gp_pipeline_config *a, const gp_pipeline_config *b) {
    if (a->checkpoint_count != b->checkpoint_count || a->keep_count != b->keep_count) return false;
    for (int s = 0; s < a->stages; s++)
        if (gp_pipeline_checkpoint(a, s) != gp_pipeline_checkpoint(b, s)) return false;
    for (int i = 0; i < a->keep_count; i++)
        if (strcmp(a->keep[i].text, b->keep[i].text) != 0) return false;
    return true;
}

static bool links_equal(const gp_pipeline_config *a, const gp_pipeline_config *b) {
    if (a->links_given != b->links_given || a->links.processes != b->links.processes ||
        a->links.per_host != b->links.per_host)
        return false;
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        const gp_link_config *x = &a->links.of[k], *y = &b->links.of[k];
        if (x->given != y->given || x->shared != y->shared || x->latency != y->latency || x->bandwidth != y->bandwidth)
            return false;
    }
    return true;
}

static bool pipelines_equal(const gp_pipeline_config *a, const gp_pipeline_config *b) {
    if (a->device_count != b->device_count || a->layers_count != b->layers_count) return false;
    for (int i = 0; i < a->device_count; i++) {
        const gp_device_config *x = &a->devices[i], *y = &b->devices[i];
        if (strcmp(x->kind, y->kind) != 0 || x->index != y->index || x->threads != y->threads || x->memory != y->memory)
            return false;
    }
    for (int i = 0; i < a->layers_count; i++)
        if (a->layers[i] != b->layers[i]) return false;
    return a->balance == b->balance && a->micro_batches == b->micro_batches && a->schedule.kind == b->schedule.kind &&
           a->schedule.chunks == b->schedule.chunks && texts_equal(a->schedule.file, b->schedule.file) &&
           a->stages == b->stages && checkpoints_equal(a, b) && a->lockstep == b->lockstep && links_equal(a, b);
}

static bool times_equal(gp_time a, gp_time b) {
    return a.count == b.count && a.epochs == b.epochs;
}

static bool optimizers_equal(const gp_optimizer_config *a, const gp_optimizer_config *b) {
    if (a->lr_milestone_count != b->lr_milestone_count) return false;
    for (int i = 0; i < a->lr_milestone_count; i++)
        if (!times_equal(a->lr_milestones[i], b->lr_milestones[i])) return false;
    return a->kind == b->kind && a->lr == b->lr && a->decay == b->decay && a->momentum == b->momentum &&
           a->nesterov == b->nesterov && a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps &&
           a->no_decay == b->no_decay && a->clip_norm == b->clip_norm && a->lr_schedule == b->lr_schedule &&
           times_equal(a->lr_every, b->lr_every) && a->lr_gamma == b->lr_gamma && a->lr_min == b->lr_min &&
           times_equal(a->warmup, b->warmup) && a->warmup_from == b->warmup_from;
}

static bool trains_equal(const gp_train_config *a, const gp_train_config *b) {
    if (a->init_skip_count != b->init_skip_count) return false;
    for (int i = 0; i < a->init_skip_count; i++)
        if (!texts_equal(a->init_skip[i].text, b->init_skip[i].text)) return false;
    return times_equal(a->epochs, b->epochs) && a->steps == b->steps && a->seed == b->seed &&
           times_equal(a->eval_every, b->eval_every) && texts_equal(a->init, b->init) &&
           times_equal(a->save_every.time, b->save_every.time) && a->save_every.minutes == b->save_every.minutes &&
           a->save_every.about == b->save_every.about && a->keep == b->keep && a->precision == b->precision;
}

/* But for places and for where the file lies. */
static bool configs_equal(const gp_config *a, const gp_config *b) {
    return sources_equal(&a->data.train, &b->data.train) && sources_equal(&a->data.eval, &b->data.eval) &&
           a->data.batch == b->data.batch && a->data.shuffle == b->data.shuffle &&
           a->data.drop_last == b->data.drop_last && a->data.threads == b->data.threads &&
           pipelines_equal(&a->pipeline, &b->pipeline) && optimizers_equal(&a->optimizer, &b->optimizer) &&
           trains_equal(&a->train, &b->train);
}

static char *read_file(const char *path) {
    char *text = calloc(1, 1 << 18);
    assert_non_null(text);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, (1 << 18) - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Resolves with layers 1, 2, 3, … per stage and writes. */
static void resolve_into(gp_config *c, const char *path) {
    int64_t balance[GP_MAX_STAGES];
    for (int i = 0; i < c->pipeline.device_count; i++) balance[i] = i + 1;
    if (gp_config_resolve(c, balance, c->pipeline.device_count, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(c->pipeline.balance, GP_BALANCE_LAYERS);
    assert_int_equal(c->pipeline.layers_count, c->pipeline.device_count);
    if (gp_config_write(c, path, &err) != GP_OK) fail_msg("%s", err.text);
}

/* The written file, in another folder, gives an equal configuration, which is written as the same bytes. */
static void assert_repeats(const char *text, const char *const *overrides, int count) {
    gp_config *c = load(text, overrides, count), *again = NULL;
    resolve_into(c, in_folder("run/config.yaml"));
    char *first = read_file(in_folder("run/config.yaml"));
    if (gp_config_load(GP_TO_RUN, in_folder("run/config.yaml"), NULL, 0, &again, &err) != GP_OK)
        fail_msg("%s\n%s", err.text, first);
    if (!configs_equal(c, again)) fail_msg("not the same configuration:\n%s", first);
    resolve_into(again, in_folder("run/config.yaml"));
    char *second = read_file(in_folder("run/config.yaml"));
    assert_string_equal(first, second);
    free(first);
    free(second);
    gp_config_destroy(&c);
    gp_config_destroy(&again);
}

static void repeats_what_it_resolved(void **state) {
    (void)state;
    static const char *const sets[] = {"train.seed=7",
                                       "pipeline.devices.0={cpu: {threads: 4, memory: 100MiB}}",
                                       "optimizer.sgd.momentum=0.1",
                                       "optimizer.warmup={length: 1 epoch, from: 0.30000000000000004}",
                                       "data.train={tensors: \"/x \\\"y\\\"\\n: #\", take: [3, 4]}",
                                       "data.eval={idx: {images: 'no', labels: '12', std: 3}}",
                                       "train.init=null",
                                       "pipeline.checkpoint=never"};
    static const char *const generated[] = {"data.train={synthetic: {samples: 9, seed: 5}, take: [2, 4]}",
                                            "data.eval={synthetic: 12}", "data.threads=3"};
    static const char *const transformed[] = {
        "data.train={tensors: a, transform: [random_crop: {size: 5, pad: [1, 2], fill: 0.1}, center_crop: [3, 4], "
        "pad: {pad: [1, 2, 3, 4], fill: [1, 2, 3]}, random_horizontal_flip, random_vertical_flip: 0.3, normalize: "
        "{mean: [1, 2], std: 0.30000000000000004}, random_erasing, random_erasing: {p: 1, scale: [0, 0.1], ratio: [1, "
        "2], value: [3, 4]}]}"};
    static const char *const modes[] = {"pipeline.devices=[cpu, cpu]", "pipeline.checkpoint=[always, never]"};
    static const char *const kept[] = {"pipeline.devices=[cpu, cpu]",
                                       "pipeline.checkpoint={mode: [never, except_last], keep: [3, \"a 'b'\"]}"};
    static const char *const many[] = {"pipeline.devices=[cpu, {cpu: {count: 1022}}, cpu]"};
    static const char *const mixed[] = {"pipeline.devices=[{cpu: {count: 20, memory: 1KiB}}, {cpu: {count: 3}}, {ref: "
                                        "{count: 17}}, {cuda:3: {count: 30}}]"};
    static const char *const step[] = {
        "optimizer={adam: {eps: 1e-300}, lr_schedule: {step: {every: 1 epoch, gamma: 0}}}",
        "train.save_every=1.0 minute", "train.init={file: a, skip: \"a 'b' \\\"\"}"};
    static const char *const cosine[] = {"optimizer={sgd: 1, lr_schedule: {cosine: 1e-5}, no_decay: norms_and_biases}",
                                         "train.save_every=1e-20 minutes"};
    static const char *const never[] = {"train.save_every=never"};
    static const char *const multistep[] = {"optimizer={adamw: 3, lr_schedule: {multistep: [1, 2, 30]}, clip_norm: .1}",
                                            "train.save_every=5 epochs", "train.keep=1", "train.precision=tf32"};
    static const char *const gammas[] = {
        "optimizer={sgd: 1, lr_schedule: {multistep: {milestones: [1, 2, 30], gamma: [0.1, 0, 7.25e-3]}}}"};
    static const char *const linked[] = {
        "pipeline.links={processes: 12, processes_per_host: 4, process: {latency: 0.3 us, bandwidth: 1.1GiB/s, shared: "
        "true}, host: {latency: 2.5ms, bandwidth: 3 KB/s}, network: {latency: 1 s, bandwidth: 1.7 Gbit/s, shared: "
        "false}}"};
    static const char *const network[] = {"pipeline.links={network: {latency: 1e-3 us, bandwidth: 5 B/s}}"};
    assert_repeats(SMALL, linked, 1);
    assert_repeats(SMALL, network, 1);
    assert_repeats(SMALL, never, 1);
    assert_repeats(SMALL, NULL, 0);
    assert_repeats(full, NULL, 0);
    assert_repeats(adamw, NULL, 0);
    assert_repeats(SMALL, modes, 2);
    assert_repeats(SMALL, kept, 2);
    assert_repeats(SMALL, step, 3);
    assert_repeats(SMALL, cosine, 2);
    assert_repeats(SMALL, multistep, 4);
    assert_repeats(SMALL, gammas, 1);
    assert_repeats(SMALL, sets, 1);
    assert_repeats(SMALL "pipeline: {devices: [ref, cpu]}\n", sets, 8);
    assert_repeats(SMALL, generated, 3);
    assert_repeats(SMALL, transformed, 1);
    assert_repeats(SMALL, many, 1);
    assert_repeats(SMALL, mixed, 1);
    assert_repeats(MODEL "data: {eval: {tensors: a}, batch: 1}\noptimizer: {sgd: 0}\ntrain: {steps: 0}\n", NULL, 0);
}

static void writes_numbers_without_an_exponent(void **state) {
    (void)state;
    static const char *const sets[] = {"pipeline.timeout=30", "optimizer.sgd=100"};
    gp_config *c = load(SMALL, sets, 2);
    char *text = NULL;
    resolve_into(c, in_folder("run/config.yaml"));
    text = read_file(in_folder("run/config.yaml"));
    assert_non_null(strstr(text, "  timeout: 30\n"));
    assert_non_null(strstr(text, "lr: 100\n"));
    free(text);
    gp_config_destroy(&c);
}

static void expect_link(const gp_link_config *its, double latency, double bandwidth, bool shared) {
    assert_true(its->given && its->shared == shared);
    assert_true(its->latency == latency && its->bandwidth == bandwidth);
}

static void reads_links_with_their_units(void **state) {
    (void)state;
    static const char *const sets[] = {"pipeline.links={process: {latency: 0 us, bandwidth: 2 GiB/s}, host: {latency: "
                                       "1.5ms, bandwidth: 3MB/s, shared: true}, network: {latency: 2 s, bandwidth: 1 "
                                       "Gbit/s}}"};
    gp_config *c = load(SMALL, NULL, 0);
    assert_false(c->pipeline.links_given);
    gp_config_destroy(&c);
    c = load(SMALL, sets, 1);
    assert_true(c->pipeline.links_given);
    assert_int_equal(c->pipeline.links.processes, 1);
    assert_int_equal(c->pipeline.links.per_host, 1);
    expect_link(&c->pipeline.links.of[GP_LINK_PROCESS], 0, 0x1p31, false);
    expect_link(&c->pipeline.links.of[GP_LINK_HOST], 1500, 3e6, true);
    expect_link(&c->pipeline.links.of[GP_LINK_NETWORK], 2e6, 1.25e8, true);
    gp_config_destroy(&c);
}

static void writes_the_resolved_configuration(void **state) {
    (void)state;
    char expected[2000];
    gp_config *c = load(SMALL, NULL, 0);
    resolve_into(c, in_folder("run/config.yaml"));
    char *text = read_file(in_folder("run/config.yaml"));
    snprintf(expected, sizeof expected,
             "# gpipe-train " GP_VERSION ": the configuration as it ran\n"
             "model:\n"
             "  input:\n"
             "    shape: [1, 28, 28]\n"
             "  layers:\n"
             "    - flatten\n"
             "    - linear:\n"
             "        out: 10\n"
             "  loss: cross_entropy\n"
             "data:\n"
             "  train:\n"
             "    tensors: \"%s/a.safetensors\"\n"
             "  batch: 64\n"
             "  shuffle: true\n"
             "  drop_last: false\n"
             "  threads: 1\n"
             "optimizer:\n"
             "  sgd:\n"
             "    lr: 0.02\n"
             "    momentum: 0\n"
             "    nesterov: false\n"
             "    weight_decay: 0\n"
             "  lr_schedule: constant\n"
             "  warmup:\n"
             "    length: 0\n"
             "    from: 0\n"
             "train:\n"
             "  epochs: 2\n"
             "  seed: 1\n"
             "  eval_every: 1 epoch\n"
             "  save_every: about 10 minutes\n"
             "  keep: 2\n"
             "  precision: f32\n"
             "pipeline:\n"
             "  devices:\n"
             "    - cpu:\n"
             "        threads: 1\n"
             "  shard_optimizer: false\n"
             "  balance: [1]\n"
             "  micro_batches: 1\n"
             "  schedule: gpipe\n"
             "  checkpoint: except_last\n"
             "  lockstep: false\n",
             folder);
    assert_string_equal(text, expected);
    free(text);
    gp_config_destroy(&c);
}

static void writes_a_thousand_devices_as_one_entry(void **state) {
    (void)state;
    static const char *const set[] = {"pipeline.devices=[cpu, {cpu: {count: 1022}}, cpu]"};
    gp_config *c = load(SMALL, set, 1);
    resolve_into(c, in_folder("run/config.yaml"));
    assert_int_equal(gp_yaml_find(c->document, "pipeline.devices")->count, 1);
    assert_string_equal(gp_yaml_find(c->document, "pipeline.devices.0.cpu.count")->text, "1024");
    gp_config_destroy(&c);
}

static void refuses_a_balance_for_other_stages(void **state) {
    (void)state;
    static const int64_t balance[] = {1, 1};
    gp_config *c = load(SMALL, NULL, 0);
    assert_int_equal(gp_config_resolve(c, balance, 2, &err), GP_INTERNAL);
    assert_int_equal(c->pipeline.balance, GP_BALANCE_AUTO);
    gp_config_destroy(&c);
}

/* A folder's name may be no UTF-8, which YAML cannot hold. */
static void refuses_to_write_a_path_that_is_no_text(void **state) {
    (void)state;
    static const int64_t balance[] = {1};
    char path[256];
    gp_config *c = NULL;
    snprintf(path, sizeof path, "%s/\xFF", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    write_file("\xFF/c.yaml", SMALL);
    assert_int_equal(gp_config_load(GP_TO_RUN, in_folder("\xFF/c.yaml"), NULL, 0, &c, &err), GP_OK);
    assert_int_equal(gp_config_resolve(c, balance, 1, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, "byte 0xFF is not valid UTF-8"));
    gp_config_destroy(&c);
    assert_int_equal(unlink(in_folder("\xFF/c.yaml")), 0);
    assert_int_equal(rmdir(path), 0);
}

static void names_checkpoint_modes(void **state) {
    (void)state;
    assert_string_equal(gp_checkpoint_mode_name(GP_CHECKPOINT_NEVER), "never");
    assert_string_equal(gp_checkpoint_mode_name(GP_CHECKPOINT_EXCEPT_LAST), "except_last");
    assert_string_equal(gp_checkpoint_mode_name(GP_CHECKPOINT_ALWAYS), "always");
}

static void shows_checkpoint_modes(void **state) {
    (void)state;
    gp_checkpoint_mode modes[17] = {GP_CHECKPOINT_NEVER, GP_CHECKPOINT_NEVER};
    char text[GP_CHECKPOINT_TEXT];
    assert_string_equal(gp_checkpoint_text(text, modes, 2), "never");
    modes[1] = GP_CHECKPOINT_ALWAYS;
    assert_string_equal(gp_checkpoint_text(text, modes, 2), "[never, always]");
    for (int s = 1; s < 17; s++) modes[s] = GP_CHECKPOINT_EXCEPT_LAST;
    assert_non_null(strstr(gp_checkpoint_text(text, modes, 17), "except_last, except_last, …]"));
}

static void reads_a_mode_for_each_stage(void **state) {
    (void)state;
    static const char *const set[] = {"pipeline.devices=[cpu, cpu]",
                                      "pipeline.checkpoint={mode: [always, never], keep: [a, 2]}"};
    gp_config *c = load(SMALL, set, 2);
    assert_int_equal(gp_pipeline_checkpoint(&c->pipeline, 0), GP_CHECKPOINT_ALWAYS);
    assert_int_equal(gp_pipeline_checkpoint(&c->pipeline, 1), GP_CHECKPOINT_NEVER);
    assert_int_equal(c->pipeline.keep_count, 2);
    assert_string_equal(c->pipeline.keep[0].text, "a");
    assert_string_equal(c->pipeline.keep[1].text, "2");
    gp_config_destroy(&c);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) && mkdir(in_folder("run"), 0700) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(in_folder("c.yaml"));
    unlink(in_folder("run/config.yaml"));
    rmdir(in_folder("run"));
    return rmdir(folder);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

#define CHANGED                                                                                                        \
    "model: {input: {shape: [4]}, layers: [{linear: {out: 3}}, {dropout: 0.1}], loss: cross_entropy}\n"                \
    "data: {train: {tensors: d.safetensors}, batch: 64}\n"                                                             \
    "optimizer: {sgd: {lr: 0.1, momentum: 0.9}, clip_norm: 1}\n"                                                       \
    "train: {epochs: 2}\n"

static void expect_setting(const gp_change *change, int index, const char *path, const char *value) {
    assert_true(index < change->settings.count);
    assert_string_equal(change->settings.item[index].path, path);
    assert_string_equal(change->settings.item[index].value, value);
}

static void reads_changes_by_step(void **state) {
    (void)state;
    gp_config *c =
        load(CHANGED "changes:\n"
                     "  801: {optimizer.clip_norm: 2, pipeline.devices: [cpu, cpu]}\n"
                     "  501: {optimizer.sgd.lr: 0.010, data.batch: 32, train.seed: 1, model.layers.1.dropout: 0.5}\n"
                     "  900: {optimizer: {sgd: 0.01}}\n",
             NULL, 0);
    assert_int_equal(c->change_count, 3);
    const gp_change *first = &c->changes[0], *second = &c->changes[1], *third = &c->changes[2];
    assert_int_equal(first->step, 501);
    assert_int_equal(first->place.line, 7);
    assert_int_equal(second->step, 801);
    assert_true(c->optimizer.lr == 0.1 && c->data.batch == 64);
    assert_true(first->config->optimizer.lr == 0.01 && first->config->data.batch == 32);
    assert_true(first->config->optimizer.momentum == 0.9 && first->config->optimizer.clip_norm == 1);
    assert_int_equal(second->config->data.batch, 32);
    assert_true(second->config->optimizer.clip_norm == 2 && second->config->optimizer.lr == 0.01);
    assert_int_equal(second->config->pipeline.device_count, 2);
    assert_int_equal(first->settings.count, 3); /* the seed is what it was */
    expect_setting(first, 0, "model.layers.1.dropout", "0.5");
    expect_setting(first, 1, "data.batch", "32");
    expect_setting(first, 2, "optimizer.sgd.lr", "0.01");
    expect_setting(second, 0, "optimizer.clip_norm", "2");
    assert_string_equal(second->settings.item[1].path, "pipeline.devices");
    expect_setting(second, 2, "pipeline.balance", "auto");
    /* A key that is gone: the section says what is left. */
    assert_int_equal(third->settings.count, 1);
    assert_string_equal(third->settings.item[0].path, "optimizer");
    assert_true(third->config->optimizer.momentum == 0 && third->config->optimizer.clip_norm == 0);
    assert_int_equal(gp_config_changes_until(c, 500), 0);
    assert_int_equal(gp_config_changes_until(c, 501), 1);
    assert_int_equal(gp_config_changes_until(c, 5000), 3);
    assert_ptr_equal(gp_config_phase(c, 0), c);
    assert_ptr_equal(gp_config_phase(c, 2), second->config);
    gp_config_destroy(&c);
    assert_repeats(
        CHANGED "changes: {9: {data: {train: {tensors: d.safetensors}, batch: 3}}, 5: {optimizer.warmup: 3 epochs}}\n",
        NULL, 0);
}

static void overrides_come_before_changes(void **state) {
    (void)state;
    const char *const overrides[] = {"optimizer.sgd.lr=0.5", "changes.7={data.batch: 8}"};
    gp_config *c = load(CHANGED "changes: {5: {optimizer.sgd.lr: 0.01}}\n", overrides, 2);
    assert_int_equal(c->change_count, 2);
    assert_true(c->optimizer.lr == 0.5 && c->changes[0].config->optimizer.lr == 0.01);
    assert_int_equal(c->changes[1].config->data.batch, 8);
    assert_null(strstr(c->file_text, "0.5"));
    assert_int_equal(c->override_count, 2);
    assert_string_equal(c->override[1], overrides[1]);
    gp_config_destroy(&c);
}

static void knows_what_never_changes(void **state) {
    (void)state;
    static const char *const may[] = {"optimizer.sgd.lr",       "optimizer.clip_norm", "data.batch",
                                      "data.train.transform.0", "train.epochs",        "train.eval_every",
                                      "train.precision",        "data.drop_last",      "pipeline.schedule",
                                      "model.layers.1",         "train.seedling",      "optimizer.lr_schedule"};
    static const char *const never[] = {"optimizer.sgd",   "optimizer.adamw",   "train.seed",
                                        "train.init.file", "data.shuffle",      "data.train",
                                        "data.train.take", "data.eval.tensors", "model.input.shape"};
    for (size_t i = 0; i < sizeof may / sizeof *may; i++) assert_null(gp_change_refusal(may[i]));
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) assert_non_null(gp_change_refusal(never[i]));
    assert_true(gp_paths_meet("a.b", "a") && gp_paths_meet("a", "a.b") && gp_paths_meet("a", "a"));
    assert_false(gp_paths_meet("a.bc", "a.b") || gp_paths_meet("a.b", "a.c"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_defaults_of_the_manual),
        cmocka_unit_test(transforms_have_torchvisions_defaults),
        cmocka_unit_test(reads_every_option),
        cmocka_unit_test(adam_has_the_defaults_of_pytorch),
        cmocka_unit_test(reads_adamw_beside_all_that_may_stand_there),
        cmocka_unit_test(reads_schedules_by_their_main_options),
        cmocka_unit_test(reads_one_name_to_skip_without_a_list),
        cmocka_unit_test(lockstep_is_auto),
        cmocka_unit_test(reads_short_forms),
        cmocka_unit_test(needs_no_training_data_to_evaluate),
        cmocka_unit_test(counts_equal_devices),
        cmocka_unit_test(finds_its_folder),
        cmocka_unit_test(repeats_what_it_resolved),
        cmocka_unit_test(reads_links_with_their_units),
        cmocka_unit_test(writes_the_resolved_configuration),
        cmocka_unit_test(writes_a_thousand_devices_as_one_entry),
        cmocka_unit_test(refuses_a_balance_for_other_stages),
        cmocka_unit_test(refuses_to_write_a_path_that_is_no_text),
        cmocka_unit_test(names_checkpoint_modes),
        cmocka_unit_test(shows_checkpoint_modes),
        cmocka_unit_test(reads_a_mode_for_each_stage),
        cmocka_unit_test(writes_numbers_without_an_exponent),
        cmocka_unit_test(reads_changes_by_step),
        cmocka_unit_test(overrides_come_before_changes),
        cmocka_unit_test(knows_what_never_changes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
