#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config_internal.h"
#include "config/tree_internal.h"

/* Each section is written anew from the typed configuration, so that no choice can be forgotten. The texts are YAML's
 * flow style; the tree's writer lays them out. */

void gp_write_number(FILE *file, double value) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, file);
}

static void write_time(FILE *file, gp_time time) {
    fprintf(file, "%lld%s", (long long)time.count, !time.epochs ? "" : time.count == 1 ? " epoch" : " epochs");
}

static const char *truth(bool value) {
    return value ? "true" : "false";
}

static void write_source(FILE *file, const char *key, const gp_source_config *source) {
    if (source->kind == GP_SOURCE_NONE) return;
    fprintf(file, "%s: {", key);
    if (source->kind == GP_SOURCE_IDX) {
        fputs("idx: {images: ", file);
        gp_yaml_write_quoted(file, source->images);
        fputs(", labels: ", file);
        gp_yaml_write_quoted(file, source->labels);
        if (source->normalise) {
            fputs(", mean: ", file);
            gp_write_number(file, source->mean);
            fputs(", std: ", file);
            gp_write_number(file, source->std);
        }
        fputs("}", file);
    } else if (source->kind == GP_SOURCE_TENSORS) {
        fputs("tensors: ", file);
        gp_yaml_write_quoted(file, source->file);
    } else {
        fprintf(file, "synthetic: {samples: %lld, seed: %llu}", (long long)source->samples,
                (unsigned long long)source->seed);
    }
    if (source->take) fprintf(file, ", take: [%lld, %lld]", (long long)source->take_from, (long long)source->take_to);
    if (source->transform_count > 0) {
        fputs(", transform: ", file);
        gp_write_transforms(file, source);
    }
    fputs("}, ", file);
}

static void write_data(FILE *file, const gp_config *config) {
    const gp_data_config *data = &config->data;
    fputs("{", file);
    write_source(file, "train", &data->train);
    write_source(file, "eval", &data->eval);
    fprintf(file, "batch: %lld, shuffle: %s, drop_last: %s, threads: %d}", (long long)data->batch, truth(data->shuffle),
            truth(data->drop_last), data->threads);
}

static void write_balance(FILE *file, const gp_pipeline_config *pipeline) {
    if (pipeline->balance == GP_BALANCE_AUTO && pipeline->first_count > 0) {
        gp_write_balance_names(file, pipeline);
        return;
    }
    if (pipeline->balance != GP_BALANCE_LAYERS) {
        fputs(pipeline->balance == GP_BALANCE_SIZE ? "size" : "auto", file);
        return;
    }
    for (int i = 0; i < pipeline->layers_count; i++)
        fprintf(file, "%s%lld", i ? ", " : "[", (long long)pipeline->layers[i]);
    fputs("]", file);
}

static void write_schedule(FILE *file, const gp_schedule_config *schedule) {
    const char *name = gp_schedule_kind_name(schedule->kind);
    if (schedule->kind == GP_SCHEDULE_INTERLEAVED) {
        fprintf(file, "{%s: {chunks: %d}}", name, schedule->chunks);
    } else if (schedule->kind == GP_SCHEDULE_FILE) {
        fprintf(file, "{%s: ", name);
        gp_yaml_write_quoted(file, schedule->file);
        fputs("}", file);
    } else {
        fputs(name, file);
    }
}

static void write_pipeline(FILE *file, const gp_config *config) {
    const gp_pipeline_config *pipeline = &config->pipeline;
    fputs("{devices: ", file);
    gp_write_devices(file, pipeline);
    fputs(", balance: ", file);
    write_balance(file, pipeline);
    if (pipeline->together_count > 0) {
        fputs(", together: ", file);
        gp_write_together(file, pipeline);
    }
    fprintf(file, ", micro_batches: %d, schedule: ", pipeline->micro_batches);
    write_schedule(file, &pipeline->schedule);
    fputs(", checkpoint: ", file);
    gp_write_checkpoint(file, pipeline);
    fprintf(file, ", lockstep: %s}", truth(pipeline->lockstep));
}

static void write_sgd(FILE *file, const gp_optimizer_config *optimizer) {
    fputs("sgd: {lr: ", file);
    gp_write_number(file, optimizer->lr);
    fputs(", momentum: ", file);
    gp_write_number(file, optimizer->momentum);
    fprintf(file, ", nesterov: %s, weight_decay: ", truth(optimizer->nesterov));
    gp_write_number(file, optimizer->decay);
    fputs("}", file);
}

static void write_adam(FILE *file, const gp_optimizer_config *optimizer) {
    fprintf(file, "%s: {lr: ", optimizer->kind == GP_OPTIMIZER_ADAMW ? "adamw" : "adam");
    gp_write_number(file, optimizer->lr);
    fputs(", betas: [", file);
    gp_write_number(file, optimizer->beta1);
    fputs(", ", file);
    gp_write_number(file, optimizer->beta2);
    fputs("], eps: ", file);
    gp_write_number(file, optimizer->eps);
    fputs(", weight_decay: ", file);
    gp_write_number(file, optimizer->decay);
    fputs("}", file);
}

static void write_lr_schedule(FILE *file, const gp_optimizer_config *optimizer) {
    switch (optimizer->lr_schedule) {
    case GP_LR_CONSTANT: fputs("constant", file); return;
    case GP_LR_STEP:
        fputs("{step: {every: ", file);
        write_time(file, optimizer->lr_every);
        break;
    case GP_LR_MULTISTEP:
        fputs("{multistep: {milestones: [", file);
        for (int i = 0; i < optimizer->lr_milestone_count; i++) {
            if (i > 0) fputs(", ", file);
            write_time(file, optimizer->lr_milestones[i]);
        }
        fputs("]", file);
        break;
    case GP_LR_COSINE:
        fputs("{cosine: {min: ", file);
        gp_write_number(file, optimizer->lr_min);
        fputs("}}", file);
        return;
    }
    fputs(", gamma: ", file);
    gp_write_number(file, optimizer->lr_gamma);
    fputs("}}", file);
}

static void write_optimizer(FILE *file, const gp_config *config) {
    const gp_optimizer_config *optimizer = &config->optimizer;
    fputs("{", file);
    if (optimizer->kind == GP_OPTIMIZER_SGD)
        write_sgd(file, optimizer);
    else
        write_adam(file, optimizer);
    fputs(", lr_schedule: ", file);
    write_lr_schedule(file, optimizer);
    fputs(", warmup: {length: ", file);
    write_time(file, optimizer->warmup);
    fputs(", from: ", file);
    gp_write_number(file, optimizer->warmup_from);
    fputs("}", file);
    if (optimizer->clip_norm > 0) {
        fputs(", clip_norm: ", file);
        gp_write_number(file, optimizer->clip_norm);
    }
    fprintf(file, "%s}", optimizer->no_decay ? ", no_decay: norms_and_biases" : "");
}

static void write_every(FILE *file, const gp_every *every) {
    if (every->time.count > 0) {
        write_time(file, every->time);
    } else {
        gp_write_number(file, every->minutes);
        fputs(every->minutes == 1 ? " minute" : " minutes", file);
    }
}

static void write_init(FILE *file, const gp_train_config *train) {
    if (train->init_skip_count == 0) {
        gp_yaml_write_quoted(file, train->init);
        return;
    }
    fputs("{file: ", file);
    gp_yaml_write_quoted(file, train->init);
    fputs(", skip: [", file);
    for (int i = 0; i < train->init_skip_count; i++) {
        if (i > 0) fputs(", ", file);
        gp_yaml_write_quoted(file, train->init_skip[i].text);
    }
    fputs("]}", file);
}

static void write_train(FILE *file, const gp_config *config) {
    const gp_train_config *train = &config->train;
    fputs("{", file);
    if (train->epochs.count > 0) fprintf(file, "epochs: %lld, ", (long long)train->epochs.count);
    if (train->steps >= 0) fprintf(file, "steps: %lld, ", (long long)train->steps);
    fprintf(file, "seed: %llu, eval_every: ", (unsigned long long)train->seed);
    write_time(file, train->eval_every);
    if (train->init) {
        fputs(", init: ", file);
        write_init(file, train);
    }
    if (train->save_every.time.count > 0 || train->save_every.minutes > 0) {
        fputs(", save_every: ", file);
        write_every(file, &train->save_every);
    }
    fprintf(file, ", keep: %lld, precision: %s}", (long long)train->keep, gp_precision_name(train->precision));
}

static gp_status put_section(const gp_config *config, gp_yaml_document *to, const char *key,
                             void (*write)(FILE *, const gp_config *), gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return gp_fail(err, GP_MEMORY, "out of memory: the resolved configuration");
    write(file, config);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        free(text);
        return gp_fail(err, GP_MEMORY, "out of memory: the resolved configuration");
    }
    gp_status status = gp_yaml_put(to, key, text, err);
    free(text);
    return status;
}

static gp_status settle_balance(gp_pipeline_config *pipeline, const int64_t *balance, int stages, gp_error *err) {
    int64_t *layers = NULL;
    if (stages != pipeline->stages)
        return gp_fail(err, GP_INTERNAL, "a balance of %d stages for %d", stages, pipeline->stages);
    GP_RETURN_IF_FAILED(GP_NEW(&layers, stages, err));
    memcpy(layers, balance, (size_t)stages * sizeof *layers);
    free(pipeline->layers);
    pipeline->layers = layers;
    pipeline->layers_count = stages;
    pipeline->balance = GP_BALANCE_LAYERS;
    return GP_OK;
}

static gp_status put_sections(const gp_config *config, gp_yaml_document *to, gp_error *err) {
    GP_RETURN_IF_FAILED(put_section(config, to, "data", write_data, err));
    GP_RETURN_IF_FAILED(put_section(config, to, "pipeline", write_pipeline, err));
    GP_RETURN_IF_FAILED(put_section(config, to, "optimizer", write_optimizer, err));
    GP_RETURN_IF_FAILED(put_section(config, to, "train", write_train, err));
    return config->change_count > 0 ? put_section(config, to, "changes", gp_write_changes, err) : GP_OK;
}

gp_status gp_config_resolve(gp_config *config, const int64_t *balance, int stages, gp_error *err) {
    if (balance) GP_RETURN_IF_FAILED(settle_balance(&config->pipeline, balance, stages, err));
    return put_sections(config, config->document, err);
}

gp_status gp_config_resolved(const gp_config *config, gp_yaml_document **out, gp_error *err) {
    gp_yaml_document *copy = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_copy(config->document, &copy, err));
    gp_status status = put_sections(config, copy, err);
    if (status != GP_OK)
        gp_yaml_destroy(&copy);
    else
        *out = copy;
    return status;
}

static const char comment[] = "gpipe-train " GP_VERSION ": the configuration as it ran";

gp_status gp_config_write(const gp_config *config, const char *path, gp_error *err) {
    return gp_yaml_write(config->document, comment, path, err);
}

gp_status gp_config_text(const gp_config *config, char **out, gp_error *err) {
    return gp_yaml_text(config->document, comment, out, err);
}
