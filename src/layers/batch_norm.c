/* batch_norm: PyTorch's BatchNorm1d and 2d; statistics of each micro-batch, running statistics committed per
 * mini-batch.
 *
 * With `sync`, replicas exchange what they find of a micro-batch, once in each pass: in the forward pass mean, variance
 * and number of values, in the backward pass Σ dy·x̂ and Σ dy (MegDet, 1711.07240, section 3.2, has two exchanges in the
 * forward pass; docs/replicas.md says why one is enough). */
#include <string.h>

#include "layers/types.h"

typedef struct batch_norm {
    gp_layer layer;
    double eps, momentum;
    bool affine;
} batch_norm;

/* Places of the parameters: gamma and beta only where affine. */
typedef struct places {
    int gamma, beta, mean, variance;
} places;

static places places_of(const batch_norm *self) {
    return self->affine ? (places){0, 1, 2, 3} : (places){-1, -1, 0, 1};
}

/* A boolean, or a number of replicas. */
static gp_status read_sync(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    int *sync = (int *)(void *)((char *)base + key->offset);
    int64_t replicas = 0;
    bool all = false;
    if (node->kind == GP_YAML_SCALAR && strspn(node->text, "0123456789+-.") > 0) {
        GP_RETURN_IF_FAILED(gp_read_integer(node, at->what, 2, GP_SYNC_MAX, &replicas, err));
        *sync = (int)replicas;
        return GP_OK;
    }
    gp_error none = {0};
    if (gp_read_boolean(node, at->what, &all, &none) != GP_OK)
        return gp_refuse(node->place, at->what, err, "needs true, false or a number of replicas");
    *sync = all ? GP_SYNC_ALL : 0;
    return GP_OK;
}

static void write_sync(FILE *file, const gp_key *key, const void *base) {
    int sync = *(const int *)(const void *)((const char *)base + key->offset);
    if (sync > 0)
        fprintf(file, "%d", sync);
    else
        fputs(sync ? "true" : "false", file);
}

static const gp_key_type sync_type = {"`true`, `false` or a number of replicas", read_sync, write_sync, NULL};

static const gp_key batch_norm_options[] = {
    GP_LAYER_EPS(offsetof(batch_norm, eps)),
    {"momentum", &gp_number_type, offsetof(batch_norm, momentum), .unsaid = "0.1", .number = {0, 1, 0}},
    {"affine", &gp_boolean_type, offsetof(batch_norm, affine), .unsaid = "true"},
    {"sync", &sync_type, offsetof(batch_norm, layer.sync), .unsaid = "false"},
    {0},
};

static gp_status batch_norm_check(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    return gp_layer_check_eps(choice, ((const batch_norm *)layer)->eps, err);
}

static gp_status batch_norm_infer(gp_layer *layer, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (layer->inputs[0].rank == 2)
        return gp_fail(err, GP_CONFIG,
                       "takes a picture [channels, height, width] or [width]; rows %s are not available yet",
                       gp_shape_text(text, layer->inputs[0]));
    return GP_OK;
}

static int64_t channels_of(const gp_layer *layer) {
    return layer->inputs[0].dim[0];
}

static int64_t rows_per_sample(const gp_layer *layer) {
    const gp_shape *shape = &layer->inputs[0];
    return shape->rank == 3 ? shape->dim[1] * shape->dim[2] : 1;
}

static int batch_norm_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const batch_norm *self = (const batch_norm *)layer;
    gp_shape shape = {1, {channels_of(layer)}};
    int count = self->affine ? gp_layer_affine(channels_of(layer), specs) : 0;
    specs[count++] =
        (gp_param_spec){.suffix = "running_mean", .shape = shape, .init = GP_INIT_CONSTANT, .buffer = true};
    specs[count++] =
        (gp_param_spec){.suffix = "running_var", .shape = shape, .init = GP_INIT_CONSTANT, .value = 1, .buffer = true};
    return count;
}

/* ---- statistics, and the replicas that share them ---------------------------------------------------------------- */

/* What norm_statistics leaves: mean, variance, what rounding took from the mean. */
static gp_tensor stats_tensor(const gp_layer *layer, const gp_lowering *lowering) {
    return gp_tensor_plain(lowering->types.accumulate, 2, (const int64_t[]){3, channels_of(layer)});
}

/* Two numbers for each channel. */
static gp_tensor pair_tensor(const gp_layer *layer, const gp_lowering *lowering) {
    return gp_tensor_plain(lowering->types.accumulate, 2, (const int64_t[]){2, channels_of(layer)});
}

/* STATS, by index. Those after the first are there if replicas exchange. */
enum { OWN, COMMON, SUMS };

/* Parts are copied at the end of the mini-batch too: a replica without samples of a micro-batch, or of another group,
 * has not seen them. */
static gp_status declare_stats(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    int index = 0;
    GP_RETURN_IF_FAILED(
        gp_lowering_stats(lowering, stats_tensor(layer, lowering), GP_STATS_PARTS | GP_STATS_MERGED, &index, err));
    if (gp_layer_group(layer, lowering->replicas) == 1) return GP_OK;
    GP_RETURN_IF_FAILED(gp_lowering_stats(lowering, pair_tensor(layer, lowering), 0, &index, err));
    return gp_lowering_stats(lowering, pair_tensor(layer, lowering), GP_STATS_PARTS, &index, err);
}

/* The replicas with which one shares its statistics, those of them that have samples of the micro-batch; and the rows
 * of the first ones, of the last one, and of all. */
typedef struct group {
    bool exchanges;
    gp_exchange with;
    int64_t rows_full, rows_last, rows;
} group;

static group group_of(const gp_layer *layer, const gp_lowering *lowering) {
    int size = gp_layer_group(layer, lowering->replicas);
    int64_t rows = rows_per_sample(layer);
    group its = {.exchanges = size > 1, .with.first = lowering->replica - lowering->replica % size};
    for (int r = its.with.first; r < its.with.first + size; r++) {
        int64_t count = gp_share_of(lowering->shared, lowering->replicas, r).count;
        if (count == 0) continue;
        if (its.with.count++ == 0) its.rows_full = count * rows;
        its.rows_last = count * rows;
        its.rows += count * rows;
    }
    return its;
}

/* An op that begins with an exchange of STATS `stats`. */
static gp_status exchanging_op(const gp_layer_ops *ops, const group *its, gp_pass pass, unsigned flags, gp_op_kind kind,
                               int stats, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_op(ops, pass, flags, kind, err));
    gp_exchange *exchange = &ops->lowering->ops[ops->lowering->count - 1].exchange;
    *exchange = its->with;
    exchange->stats = stats;
    return GP_OK;
}

static gp_tensor parts_tensor(const gp_layer *layer, const gp_lowering *lowering, const group *its, int64_t numbers) {
    return gp_tensor_plain(lowering->types.accumulate, 3,
                           (const int64_t[]){its->with.count, numbers, channels_of(layer)});
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Mean and variance as they stand in the parameters. */
static void set_running(gp_layer_ops *ops, const gp_layer *layer) {
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels_of(layer));
    places place = places_of((const batch_norm *)layer);
    gp_layer_set(ops, GP_NAME_MEAN, vector, GP_ROLE_PARAM, place.mean);
    gp_layer_set(ops, GP_NAME_VARIANCE, vector, GP_ROLE_PARAM, place.variance);
}

/* Mean and variance lie one after the other. */
static void set_found(gp_layer_ops *ops, const gp_layer *layer, int stats) {
    int64_t channels = channels_of(layer);
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels);
    gp_layer_set_slice(ops, GP_NAME_MEAN, vector, GP_ROLE_STATS, stats, 0);
    gp_layer_set_slice(ops, GP_NAME_VARIANCE, vector, GP_ROLE_STATS, stats, channels);
}

static gp_status lower_forward(gp_layer_ops *ops, const gp_layer *layer, const group *its, gp_error *err) {
    gp_layer_ops statistics = *ops; /* which do not depend on eps */
    statistics.attributes.norm.eps = 0;
    gp_layer_set(&statistics, GP_NAME_STATS, stats_tensor(layer, ops->lowering), GP_ROLE_STATS, OWN);
    set_found(ops, layer, its->exchanges ? COMMON : OWN);
    GP_RETURN_IF_FAILED(gp_layer_op(&statistics, GP_PASS_FORWARD, GP_LOWERED_ONCE, GP_OP_NORM_STATISTICS, err));
    if (its->exchanges) {
        set_found(&statistics, layer, COMMON);
        gp_layer_set(&statistics, GP_NAME_STATS, parts_tensor(layer, ops->lowering, its, 3), GP_ROLE_STATS_PARTS, OWN);
        statistics.attributes.norm.rows_full = its->rows_full;
        statistics.attributes.norm.rows_last = its->rows_last;
        GP_RETURN_IF_FAILED(
            exchanging_op(&statistics, its, GP_PASS_FORWARD, GP_LOWERED_ONCE, GP_OP_NORM_MERGE, OWN, err));
    }
    return gp_layer_op(ops, GP_PASS_FORWARD, 0, GP_OP_NORM_APPLY, err);
}

/* The sums over the group, of the own sums `sums`, for what finds dx. */
static gp_status lower_exchange(gp_layer_ops *data, const gp_layer *layer, const group *its, int sums, gp_error *err) {
    gp_lowering *lowering = data->lowering;
    gp_tensor pair = pair_tensor(layer, lowering);
    int common = 0;
    GP_RETURN_IF_FAILED(gp_lowering_temp(lowering, pair, &common, err));
    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_BACKWARD, pair, (gp_ref){GP_ROLE_TEMP, sums, 0},
                                      (gp_ref){GP_ROLE_STATS, SUMS, 0}, err));
    gp_layer_ops merge = {.lowering = lowering};
    gp_layer_set(&merge, GP_NAME_PARTS, parts_tensor(layer, lowering, its, 2), GP_ROLE_STATS_PARTS, SUMS);
    gp_layer_set(&merge, GP_NAME_SUMS, pair, GP_ROLE_TEMP, common);
    gp_layer_set(data, GP_NAME_SUMS, pair, GP_ROLE_TEMP, common);
    data->attributes.norm.rows_summed = its->rows;
    return exchanging_op(&merge, its, GP_PASS_BACKWARD, 0, GP_OP_NORM_MERGE_SUMS, SUMS, err);
}

static gp_status lower_backward(gp_layer_ops *ops, const gp_layer *layer, const group *its, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    gp_lowering *lowering = ops->lowering;
    int64_t channels = channels_of(layer);
    places place = places_of(self);
    gp_tensor vector = gp_layer_vector(lowering->types.compute, channels), pair = pair_tensor(layer, lowering);
    int sums = 0;
    GP_RETURN_IF_FAILED(gp_lowering_temp(lowering, pair, &sums, err));
    gp_layer_set(ops, GP_NAME_SUMS, pair, GP_ROLE_TEMP, sums);
    GP_RETURN_IF_FAILED(gp_layer_op(ops, GP_PASS_BACKWARD, 0, GP_OP_NORM_BACKWARD_REDUCE, err));
    gp_layer_ops data = *ops;
    if (its->exchanges) GP_RETURN_IF_FAILED(lower_exchange(&data, layer, its, sums, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&data, GP_PASS_BACKWARD, 0, GP_OP_NORM_BACKWARD_DATA, err));
    if (!self->affine) return GP_OK;
    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_BACKWARD, vector, (gp_ref){GP_ROLE_TEMP, sums, 0},
                                      (gp_ref){GP_ROLE_GRAD_PARAM, place.gamma, 0}, err));
    return gp_layer_copy(lowering, GP_PASS_BACKWARD, vector, (gp_ref){GP_ROLE_TEMP, sums, channels},
                         (gp_ref){GP_ROLE_GRAD_PARAM, place.beta, 0}, err);
}

/* The statistics are constants, so that dx = dy·gamma/√(variance+eps): an application to dy with mean 0. */
static gp_status lower_frozen(gp_layer_ops *ops, const gp_layer *layer, gp_error *err) {
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels_of(layer));
    gp_layer_ops backward, zero = {.lowering = ops->lowering};
    int index = 0;
    set_running(ops, layer);
    GP_RETURN_IF_FAILED(gp_layer_forward(ops, GP_OP_NORM_APPLY, err));
    GP_RETURN_IF_FAILED(gp_lowering_temp(ops->lowering, vector, &index, err));
    gp_layer_set(&zero, GP_NAME_Y, vector, GP_ROLE_TEMP, index);
    GP_RETURN_IF_FAILED(gp_layer_op(&zero, GP_PASS_BACKWARD, 0, GP_OP_FILL, err));
    backward = gp_layer_reversed(ops);
    gp_layer_set(&backward, GP_NAME_MEAN, vector, GP_ROLE_TEMP, index);
    backward.tensor[GP_NAME_BETA] = (gp_tensor){0};
    backward.ref[GP_NAME_BETA] = (gp_ref){GP_ROLE_NONE, 0, 0};
    return gp_layer_op(&backward, GP_PASS_BACKWARD, 0, GP_OP_NORM_APPLY, err);
}

static gp_status begin(const gp_layer *layer, gp_lowering *lowering, gp_layer_ops *ops, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    places place = places_of(self);
    gp_tensor vector = gp_layer_vector(lowering->types.compute, channels_of(layer));
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, ops, err));
    ops->attributes.norm.eps = self->eps;
    if (!self->affine) return GP_OK;
    gp_layer_set(ops, GP_NAME_GAMMA, vector, GP_ROLE_PARAM, place.gamma);
    gp_layer_set(ops, GP_NAME_BETA, vector, GP_ROLE_PARAM, place.beta);
    return GP_OK;
}

static gp_status refuse_single(const gp_layer *layer, const gp_lowering *lowering, gp_error *err) {
    bool shares = lowering->replicas > 1;
    if (gp_layer_group(layer, lowering->replicas) > 1)
        return gp_fail(err, GP_CONFIG,
                       "a micro-batch of %lld sample%s leaves one value per channel to a group of replicas that "
                       "synchronise, and its variance is 0: take a larger batch, fewer micro_batches or larger groups "
                       "(data.drop_last leaves out a small last mini-batch)",
                       (long long)lowering->shared, lowering->shared == 1 ? "" : "s");
    return gp_fail(err, GP_CONFIG,
                   "a %s of 1 sample has one value per channel, whose variance is 0: take a larger batch or fewer "
                   "%smicro_batches, so that every %s has 2 samples or more%s (data.drop_last leaves out a last "
                   "mini-batch that is too small)",
                   shares ? "replica's share" : "micro-batch", shares ? "replicas or " : "",
                   shares ? "share" : "micro-batch", shares ? ", or none" : "");
}

static gp_status batch_norm_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(begin(layer, lowering, &ops, err));
    if (layer->frozen) return lower_frozen(&ops, layer, err);
    const group its = group_of(layer, lowering);
    if (!lowering->evaluate_only && its.rows == 1) return refuse_single(layer, lowering, err);
    gp_layer_ops evaluate = ops;
    set_running(&evaluate, layer);
    GP_RETURN_IF_FAILED(declare_stats(layer, lowering, err));
    GP_RETURN_IF_FAILED(lower_forward(&ops, layer, &its, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&evaluate, GP_PASS_EVALUATE, 0, GP_OP_NORM_APPLY, err));
    return lower_backward(&ops, layer, &its, err);
}

static gp_status batch_norm_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    int64_t rows = rows_per_sample(layer);
    const int64_t dim[] = {lowering->pieces * lowering->replicas, 3, channels_of(layer)};
    gp_layer_ops ops;
    if (layer->frozen) return GP_OK;
    GP_RETURN_IF_FAILED(begin(layer, lowering, &ops, err));
    GP_RETURN_IF_FAILED(declare_stats(layer, lowering, err));
    ops.attributes.norm.momentum = self->momentum;
    ops.attributes.norm.rows_full = lowering->samples * rows;
    ops.attributes.norm.rows_last = lowering->last * rows;
    if (lowering->replicas > 1) {
        ops.attributes.norm.replicas = lowering->replicas;
        ops.attributes.norm.rows_sample = rows;
    }
    gp_layer_set(&ops, GP_NAME_STATS, gp_tensor_plain(lowering->types.accumulate, 3, dim), GP_ROLE_STATS_ALL, OWN);
    set_running(&ops, layer);
    return gp_layer_op(&ops, GP_PASS_COMMIT, 0, GP_OP_NORM_COMMIT, err);
}

const gp_layer_type gp_batch_norm_type = {
    .name = "batch_norm",
    .size = sizeof(batch_norm),
    .batch_statistics = true,
    .options = batch_norm_options,
    .check = batch_norm_check,
    .infer = batch_norm_infer,
    .params = batch_norm_params,
    .lower = batch_norm_lower,
    .lower_mini_batch = batch_norm_lower_mini_batch,
};
