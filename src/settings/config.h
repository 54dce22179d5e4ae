/* The typed configuration: everything of config.yaml but the model, whose subtree the rooms above read.
 *
 * gp_config_load reads the file, applies the overrides in order, reads and checks what needs no layer. All texts are
 * borrowed from the document that the configuration owns. Built by one thread, then read-only, but for
 * gp_config_resolve.
 */
#ifndef GP_SETTINGS_CONFIG_H
#define GP_SETTINGS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "balance/rules.h"
#include "base/status.h"
#include "checkpoint/policy.h"
#include "config/keys.h"
#include "config/read.h"
#include "config/tree.h"
#include "data/options.h"
#include "schedule/links.h"
#include "schedule/schedules.h"

enum { GP_MAX_LOADER_THREADS = 256, GP_MAX_MILESTONES = 4096, GP_MAX_TIMEOUT = 86400 /* seconds */ };

typedef struct gp_data_config {
    gp_source_config train; /* GP_SOURCE_NONE where absent */
    gp_source_config eval;
    int64_t batch; /* samples per mini-batch */
    bool shuffle;
    bool drop_last;
    int threads; /* that read and transform samples, ≥ 1 */
    gp_place batch_place;
} gp_data_config;

/* One device of pipeline.devices. */
typedef struct gp_device_config {
    const char *kind; /* "cpu", "cuda", or "ref" (the oracle of the tests; not in the manual) */
    int index;        /* cuda:1 → 1 */
    bool numbered;    /* cuda: the index was said */
    int threads;      /* cpu: 1 unless said */
    size_t memory;    /* bytes; 0: not said */
    int rank;         /* of the process that has its worker; −1: not said */
    gp_place place;
} gp_device_config;

typedef enum gp_balance_mode { GP_BALANCE_AUTO, GP_BALANCE_SIZE, GP_BALANCE_LAYERS } gp_balance_mode;
typedef struct gp_schedule_config {
    gp_schedule_kind kind;
    int chunks;     /* stages per device: interleaved what it was told, zb_v 2, the others 1 */
    char *file;     /* FILE: absolute path; owned */
    gp_place place; /* of the file's name, or of the kind */
} gp_schedule_config;

/* What carries data between processes. */
typedef enum gp_transport_choice {
    GP_TRANSPORT_CHOICE_AUTO,
    GP_TRANSPORT_CHOICE_THREADS,
    GP_TRANSPORT_CHOICE_MPI,
    GP_TRANSPORT_CHOICE_NCCL
} gp_transport_choice;
/* What a kind of link takes. */
typedef struct gp_link_config {
    double latency;   /* microseconds */
    double bandwidth; /* bytes per second */
    bool given, shared;
} gp_link_config;

typedef struct gp_links_config {
    int processes, per_host; /* that plans are made for; processes on a host */
    bool processes_given, per_host_given;
    gp_place place; /* of processes */
    gp_link_config of[GP_LINK_KINDS];
} gp_links_config;

typedef struct gp_pipeline_config {
    gp_device_config
        *devices; /* of each worker: those of the first entry, each replica, then those of the next; owned */
    int device_count;
    int *replicas; /* of each entry, entry_count of them; owned */
    int entry_count;
    bool replicated;      /* some entry has several */
    bool shard_optimizer; /* replicas share out the optimizer state and the updates */
    gp_balance_mode balance;
    int64_t *layers; /* layers per stage, layers_count of them; owned. Of GP_BALANCE_LAYERS, or left aside */
    int layers_count;
    bool finds_balance; /* who reads this looks for one: layers per stage that do not suit are left aside */
    gp_place balance_place;
    gp_placed_name *first; /* GP_BALANCE_AUTO: layers that begin a later stage, first_count of them; owned */
    int first_count;
    gp_bound_layers *together; /* owned */
    int together_count;
    int micro_batches;
    gp_place micro_batches_place;
    gp_schedule_config schedule;
    int stages; /* as the schedule places them on the devices; 0: a file says it, and who reads it sets this */
    gp_checkpoint_mode checkpoint;   /* of every stage, where `checkpoints` is NULL */
    gp_checkpoint_mode *checkpoints; /* by stage, checkpoint_count of them; owned */
    int checkpoint_count;
    gp_placed_name *keep; /* layers, or all below a name, whose outputs recomputing finds; keep_count of them; owned */
    int keep_count;
    gp_place checkpoint_place;
    bool pin, pin_given;
    gp_transport_choice transport;
    bool transport_given, timeout_given;
    gp_place transport_place;
    double timeout; /* seconds without a sign of life after which a process counts as lost; see pipeline/lookout.h */
    bool lockstep;  /* auto resolved: on for gpipe on GPUs alone, which copy beside computing. Only gpipe has it */
    gp_links_config links;
    bool links_given;
} gp_pipeline_config;

typedef enum gp_optimizer_kind { GP_OPTIMIZER_SGD, GP_OPTIMIZER_ADAM, GP_OPTIMIZER_ADAMW } gp_optimizer_kind;
typedef enum gp_lr_schedule { GP_LR_CONSTANT, GP_LR_STEP, GP_LR_MULTISTEP, GP_LR_COSINE } gp_lr_schedule;

typedef struct gp_optimizer_config {
    gp_optimizer_kind kind;
    double lr, decay;         /* decay: written weight_decay; PyTorch's defaults by kind */
    double momentum;          /* sgd */
    bool nesterov;            /* sgd */
    double beta1, beta2, eps; /* adam, adamw */
    bool no_decay;            /* the decay leaves alone what `left_alone` says */
    int left_alone;           /* 0: norms and biases, the only choice */
    double clip_norm;         /* of all gradients together; 0: not clipped */
    gp_lr_schedule lr_schedule;
    gp_time lr_every;       /* step */
    double lr_gamma;        /* step, multistep */
    gp_time *lr_milestones; /* multistep; ascending, all steps or all epochs; owned */
    int lr_milestone_count;
    double *lr_gammas;  /* multistep; one for each milestone, in place of lr_gamma; NULL: none; owned */
    int lr_gamma_count; /* as many as milestones; 0 */
    double lr_min;      /* cosine: the rate at the end */
    gp_time warmup;     /* length; 0: none */
    double warmup_from; /* share of lr in step 0 */
} gp_optimizer_config;

/* What convolutions and products compute in. tf32: GPUs may round their factors to 10 bits of mantissa, and add in f32;
 * elsewhere it is f32. */
typedef enum gp_precision { GP_PRECISION_F32, GP_PRECISION_TF32 } gp_precision;

typedef struct gp_train_config {
    gp_time epochs; /* count 0: not said */
    int64_t steps;  /* −1: not said */
    uint64_t seed;
    gp_time eval_every;
    char *init; /* absolute path of a safetensors file, owned; NULL: from the seed */
    gp_place init_place;
    gp_placed_name *init_skip; /* layers, and all below, whose parameters keep their initial values; owned */
    int init_skip_count;
    gp_every save_every; /* snapshots */
    int64_t keep;        /* newest snapshots that are kept, ≥ 1 */
    gp_precision precision;
    bool precision_given; /* the configuration says it; else it is the default */
} gp_train_config;

typedef struct gp_config gp_config;

/* A key path and its value as YAML on one line; both owned. */
typedef struct gp_setting {
    char *path, *value;
} gp_setting;
typedef struct gp_settings {
    gp_setting *item;
    int count;
    size_t capacity;
} gp_settings;

/* An entry of `changes`: from `step` on another configuration holds. */
typedef struct gp_change {
    int64_t step; /* ≥ 2 */
    gp_place place;
    const gp_yaml *entry; /* as it was said; borrowed from the document */
    gp_config *config;    /* the whole configuration from here on; owned; has no changes of its own */
    gp_settings settings; /* what differs from the configuration before it, defaults written out */
} gp_change;

struct gp_config {
    gp_yaml_document *document; /* owned */
    char *path;                 /* of the file, owned */
    char *folder;               /* absolute folder that relative paths start from, owned */
    const gp_yaml *model;       /* model: borrowed from document */
    gp_data_config data;
    gp_pipeline_config pipeline;
    gp_optimizer_config optimizer;
    gp_train_config train;
    gp_change *changes; /* by step; owned, and its configurations borrow from `document` */
    int change_count;
    char *file_text; /* the file without the overrides, as YAML; owned */
    char **override; /* the arguments of --set, override_count of them; owned */
    int override_count;
    bool apart; /* the overrides are not applied: they do not suit the file (GP_TO_RESUME) */
};

gp_layer_rules gp_pipeline_rules(const gp_pipeline_config *pipeline);
gp_checkpoint_mode gp_pipeline_checkpoint(const gp_pipeline_config *pipeline, int stage);
/* As config.yaml has pipeline.checkpoint, on one line. */
void gp_write_checkpoint(FILE *file, const gp_pipeline_config *pipeline);
/* What stands at `pipeline.schedule`, paths from `folder`; the caller frees out->file, on failure too. */
GP_MUST_USE gp_status gp_read_schedule(const gp_yaml *node, const char *folder, gp_schedule_config *out, gp_error *err);

/* What a configuration is loaded for. TO_BALANCE: layers per stage that do not suit are left aside. TO_RESUME, for a
 * run that goes on: overrides that do not suit the file may suit the run's own configuration, and are kept apart then;
 * the error is that of the overrides if the file alone is no configuration either. */
typedef enum gp_config_use { GP_TO_RUN, GP_TO_BALANCE, GP_TO_RESUME } gp_config_use;
/* `overrides`: the arguments of --set, in order. GP_CONFIG or GP_USAGE with a place. */
GP_MUST_USE gp_status gp_config_load(gp_config_use use, const char *path, const char *const *overrides,
                                     int override_count, gp_config **out, gp_error *err);
void gp_config_destroy(gp_config **config);
/* Writes what was left to choose into the document: paths absolute, every default and `auto` by its value, thread
 * counts. `balance`: layers per stage; NULL: it stays as it is chosen. What gp_config_write then writes repeats the
 * run. */
GP_MUST_USE gp_status gp_config_resolve(gp_config *config, const int64_t *balance, int stages, gp_error *err);
GP_MUST_USE gp_status gp_config_write(const gp_config *config, const char *path, gp_error *err);
/* A copy of the document with the same written into it, but for the balance. It borrows from the configuration. */
GP_MUST_USE gp_status gp_config_resolved(const gp_config *config, gp_yaml_document **out, gp_error *err);

/* How many changes hold in a step; the configuration after so many of them. */
int gp_config_changes_until(const gp_config *config, int64_t step);
gp_config *gp_config_phase(gp_config *config, int changes);
/* What a run that goes on may do with the key. */
gp_key_change gp_change_rule(const char *path);
/* Why the key may not change within a run; NULL: it may, if the model keeps its shapes and sums their order
 * (session/may_change.c). */
const char *gp_change_refusal(const char *path);
/* Whether the path is `prefix`, or lies below it. */
bool gp_path_is_below(const char *path, const char *prefix);
/* Whether one path is the other, or lies below it. */
bool gp_paths_meet(const char *a, const char *b);
/* What makes `now` of `before`, both of gp_config_resolved; without `changes`. */
GP_MUST_USE gp_status gp_settings_between(gp_yaml_document *before, gp_yaml_document *now, gp_settings *out,
                                          gp_error *err);
void gp_settings_fini(gp_settings *settings);
/* "501: {optimizer.sgd.lr: 0.01}, " */
void gp_write_change(FILE *file, int64_t step, const gp_settings *settings);
/* The configuration of another run or step, with the path, the folder, the file's text and the overrides of `like`.
 * Takes the document, whatever happens. `whole`: with `changes`, else they are left alone. */
GP_MUST_USE gp_status gp_config_read(const gp_config *like, gp_yaml_document **document, bool whole, gp_config **out,
                                     gp_error *err);
/* pipeline.devices as the configuration would say it, on one line; owned by the caller. */
GP_MUST_USE gp_status gp_config_devices_text(const gp_pipeline_config *pipeline, char **out, gp_error *err);
/* All but their places. */
bool gp_device_configs_equal(const gp_device_config *a, const gp_device_config *b);
GP_MUST_USE gp_status gp_config_text(const gp_config *config, char **out, gp_error *err);

#endif
