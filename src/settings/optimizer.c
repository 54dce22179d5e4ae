/* The keys of `optimizer`. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "settings/tables_internal.h"

#define AT(field) offsetof(gp_optimizer_config, field)
#define ANY_SIZE  .number = {0, INFINITY, 0}
#define SHARE     .number = {0, 1, 2} /* less than 1 */

static gp_status read_betas(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    gp_optimizer_config *optimizer = base;
    double *betas[2] = {&optimizer->beta1, &optimizer->beta2};
    if (node->kind != GP_YAML_SEQUENCE || node->count != 2)
        return gp_refuse(node->place, at->what, err, "needs two numbers in a list, as in [0.9, 0.999]");
    for (int i = 0; i < 2; i++)
        GP_RETURN_IF_FAILED(gp_read_number(node->items[i], at->what, key->number.low, key->number.high,
                                           key->number.open, betas[i], err));
    return GP_OK;
}

static void write_betas(FILE *file, const gp_key *key, const void *base) {
    const gp_optimizer_config *optimizer = base;
    (void)key;
    fputs("[", file);
    gp_write_number(file, optimizer->beta1);
    fputs(", ", file);
    gp_write_number(file, optimizer->beta2);
    fputs("]", file);
}

static const gp_key_type betas_type = {"two numbers", read_betas, write_betas, NULL};

static gp_status check_nesterov(const gp_yaml *mapping, const gp_key_context *at, const void *base, gp_error *err) {
    const gp_optimizer_config *optimizer = base;
    if (!optimizer->nesterov || optimizer->momentum > 0) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, gp_yaml_get(mapping, "nesterov")->place, "%s.nesterov: needs a momentum above 0",
                      at->what);
}

static const gp_key sgd_keys[] = {
    {"lr", &gp_number_type, AT(lr), .example = "sgd: {lr: 0.02}", ANY_SIZE},
    {"momentum", &gp_number_type, AT(momentum), .unsaid = "0", SHARE},
    {"nesterov", &gp_boolean_type, AT(nesterov), .unsaid = "false"},
    {"weight_decay", &gp_number_type, AT(decay), .unsaid = "0", ANY_SIZE},
    {0},
};
#define ADAM_KEYS(decay_unsaid)                                                                                        \
    {"lr", &gp_number_type, AT(lr), .unsaid = "1e-3", ANY_SIZE},                                                       \
        {"betas", &betas_type, .unsaid = "[0.9, 0.999]", SHARE},                                                       \
        {"eps", &gp_number_type, AT(eps), .unsaid = "1e-8", ANY_SIZE},                                                 \
        {"weight_decay", &gp_number_type, AT(decay), .unsaid = (decay_unsaid), ANY_SIZE}, {                            \
        0                                                                                                              \
    }
static const gp_key adam_keys[] = {ADAM_KEYS("0")}, adamw_keys[] = {ADAM_KEYS("0.01")};

static const char kind_stays[] = "the kind of the optimizer stays, since its states are kept";
static const gp_key_kind optimizers[] = {
    {"sgd", GP_OPTIMIZER_SGD, .fixed = kind_stays,
     .options = {.keys = sgd_keys, .alone = GP_ALONE_ANY, .check = check_nesterov}},
    {"adam", GP_OPTIMIZER_ADAM, .fixed = kind_stays, .options = {.keys = adam_keys, .alone = GP_ALONE_ANY}},
    {"adamw", GP_OPTIMIZER_ADAMW, .fixed = kind_stays, .options = {.keys = adamw_keys, .alone = GP_ALONE_ANY}},
    {0},
};

static gp_status check_milestones(const gp_yaml *node, const char *what, gp_error *err) {
    if (node->kind != GP_YAML_SEQUENCE || node->count == 0)
        return gp_refuse(node->place, what, err, "needs a list of times, as in [30 epochs, 60 epochs]");
    if (node->count > GP_MAX_MILESTONES)
        return gp_refuse(node->place, what, err, "the list has %zu entries; it may have at most %d", node->count,
                         GP_MAX_MILESTONES);
    return GP_OK;
}

static gp_status read_milestones(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                                 gp_error *err) {
    gp_optimizer_config *optimizer = base;
    GP_RETURN_IF_FAILED(check_milestones(node, at->what, err));
    GP_RETURN_IF_FAILED(GP_NEW(&optimizer->lr_milestones, node->count, err));
    optimizer->lr_milestone_count = (int)node->count;
    for (size_t i = 0; i < node->count; i++) {
        gp_time *time = &optimizer->lr_milestones[i];
        const gp_yaml *item = node->items[i];
        GP_RETURN_IF_FAILED(gp_read_time(item, at->what, key->integer.low, time, err));
        if (i > 0 && time->epochs != time[-1].epochs)
            return gp_refuse(
                item->place, at->what, err,
                "%.40s has another unit than the time before it; use steps for all times, or epochs for all",
                item->text);
        if (i > 0 && time->count <= time[-1].count)
            return gp_refuse(item->place, at->what, err,
                             "%.40s is not later than %.40s; each time must be later than the one before it",
                             item->text, node->items[i - 1]->text);
    }
    return GP_OK;
}

static void write_milestones(FILE *file, const gp_key *key, const void *base) {
    const gp_optimizer_config *optimizer = base;
    (void)key;
    fputs("[", file);
    for (int i = 0; i < optimizer->lr_milestone_count; i++) {
        if (i > 0) fputs(", ", file);
        gp_write_time(file, optimizer->lr_milestones[i]);
    }
    fputs("]", file);
}

static const gp_key_type milestones_type = {"list of ascending times", read_milestones, write_milestones, NULL};

static gp_status read_gammas(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                             gp_error *err) {
    gp_optimizer_config *optimizer = base;
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_read_number(node, at->what, key->number.low, key->number.high, key->number.open, &optimizer->lr_gamma,
                              err);
    GP_RETURN_IF_FAILED(GP_NEW(&optimizer->lr_gammas, node->count ? node->count : 1, err));
    optimizer->lr_gamma_count = (int)node->count;
    for (size_t i = 0; i < node->count; i++)
        GP_RETURN_IF_FAILED(gp_read_number(node->items[i], at->what, key->number.low, key->number.high,
                                           key->number.open, &optimizer->lr_gammas[i], err));
    return GP_OK;
}

static void write_gammas(FILE *file, const gp_key *key, const void *base) {
    const gp_optimizer_config *optimizer = base;
    (void)key;
    if (!optimizer->lr_gammas) {
        gp_write_number(file, optimizer->lr_gamma);
        return;
    }
    for (int i = 0; i < optimizer->lr_gamma_count; i++) {
        fputs(i ? ", " : "[", file);
        gp_write_number(file, optimizer->lr_gammas[i]);
    }
    fputs("]", file);
}

static const gp_key_type gammas_type = {"number, or a list by milestone", read_gammas, write_gammas, NULL};

static gp_status check_gammas(const gp_yaml *mapping, const gp_key_context *at, const void *base, gp_error *err) {
    const gp_optimizer_config *optimizer = base;
    if (!optimizer->lr_gammas || optimizer->lr_gamma_count == optimizer->lr_milestone_count) return GP_OK;
    return gp_fail_at(
        err, GP_CONFIG, gp_yaml_get(mapping, "gamma")->place,
        "%s.gamma: has %d number%s, but there %s %d milestone%s; give one number for all, or one for each", at->what,
        optimizer->lr_gamma_count, optimizer->lr_gamma_count == 1 ? "" : "s",
        optimizer->lr_milestone_count == 1 ? "is" : "are", optimizer->lr_milestone_count,
        optimizer->lr_milestone_count == 1 ? "" : "s");
}

static const gp_key step_keys[] = {
    {"every", &gp_time_type, AT(lr_every), .example = "step: {every: 30 epochs, gamma: 0.1}", .integer = {1, 0}},
    {"gamma", &gp_number_type, AT(lr_gamma), .unsaid = "0.1", ANY_SIZE},
    {0},
};
static const gp_key multistep_keys[] = {
    {"milestones", &milestones_type, .example = "multistep: {milestones: [500], gamma: 0.1}", .integer = {1, 0}},
    {"gamma", &gammas_type, .unsaid = "0.1", ANY_SIZE},
    {0},
};
static const gp_key cosine_keys[] = {{"min", &gp_number_type, AT(lr_min), .unsaid = "0", ANY_SIZE}, {0}};
static const gp_key_kind rates[] = {
    {"constant", GP_LR_CONSTANT, .options = {0}},
    {"step", GP_LR_STEP, .options = {.keys = step_keys, .alone = GP_ALONE_ANY}},
    {"multistep", GP_LR_MULTISTEP, .options = {.keys = multistep_keys, .alone = GP_ALONE_ANY, .check = check_gammas}},
    {"cosine", GP_LR_COSINE, .options = {.keys = cosine_keys, .alone = GP_ALONE_ANY}},
    {0},
};
static const gp_key_table rate_table = {.kinds = rates, .kind = AT(lr_schedule)};

static const gp_key warmup_keys[] = {
    {"length", &gp_time_type, AT(warmup), .example = "{length: 500, from: 0.1}"},
    {"from", &gp_number_type, AT(warmup_from), .unsaid = "0", .number = {0, 1, 0}},
    {0},
};
static const gp_key_table warmup_table = {.keys = warmup_keys, .alone = GP_ALONE_SCALAR};

static const char *const left_alone[] = {"norms_and_biases", NULL};

static const gp_key optimizer_keys[] = {
    {"lr_schedule", &gp_table_type, .table = &rate_table, .unsaid = "constant"},
    {"warmup", &gp_table_type, .table = &warmup_table, .unsaid = "0"},
    {"clip_norm", &gp_number_type, AT(clip_norm), .number = {0, INFINITY, 1}},
    {"no_decay", &gp_choice_type, AT(left_alone), .names = left_alone, GP_IF_GIVEN(AT(no_decay))},
    {0},
};
const gp_key_table gp_optimizer_table = {.keys = optimizer_keys, .kinds = optimizers, .kind = AT(kind)};
