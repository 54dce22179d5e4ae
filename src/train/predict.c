#include "train/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/finite.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/replace.h"
#include "data/safetensors.h"
#include "layers/types.h"
#include "pipeline/run.h"
#include "session/inputs.h"
#include "session/loaders.h"
#include "store/weights.h"

static const char tensor_name[] = "y";

typedef struct predictor {
    gp_session *session;
    const gp_predict_options *options;
    gp_run *run;
    gp_safetensors_writer *file;
    gp_shape shape;        /* of a sample's prediction, PyTorch's order */
    float *memory, *plain; /* one mini-batch: in the order of memory, and in PyTorch's */
    int64_t elements;      /* of a sample */
    double loss, right;    /* sums */
    int64_t counts;
    int64_t predicted;      /* samples so far */
    int64_t bad, bad_first; /* values that are not finite, and the sample of the first */
    gp_finite bad_kind;
} predictor;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Only such a file as this program writes here may be written over: any other file there may be the user's work. */
static gp_status refuse_other(const char *path, gp_error *err) {
    struct stat about;
    gp_safetensors *file = NULL;
    gp_error ignored = {0};
    if (lstat(path, &about) != 0) return GP_OK;
    bool ours = gp_safetensors_open(path, &file, &ignored) == GP_OK && gp_safetensors_count(file) == 1;
    if (ours) {
        const gp_safetensor *only = gp_safetensors_at(file, 0);
        ours = strcmp(only->name, tensor_name) == 0 && only->known && only->dtype == GP_F32;
    }
    gp_safetensors_close(&file);
    if (ours) return GP_OK;
    return gp_fail(err, GP_USAGE,
                   "--predict %s: the file exists, and is not a file of predictions: choose another name", path);
}

/* The session's weights stand in its configuration in place of train.init. */
static gp_status check_path(const predictor *p, gp_error *err) {
    const gp_config *config = p->session->config;
    const char *path = p->options->path;
    if (config->train.init && gp_file_is(path, config->train.init))
        return gp_fail(err, GP_USAGE,
                       "--predict %s: would write over the weights that it predicts with: choose another name", path);
    GP_RETURN_IF_FAILED(gp_inputs_check_output(config, "--predict", path, err));
    return refuse_other(path, err);
}

static gp_status begin_file(predictor *p, gp_error *err) {
    static const char *const metadata[] = {"format", "pt", NULL};
    gp_safetensors_item item = {
        .name = tensor_name, .dtype = GP_F32, .rank = 1 + p->shape.rank, .dim = {gp_dataset_count(p->session->eval)}};
    for (int d = 0; d < p->shape.rank; d++) item.dim[1 + d] = p->shape.dim[d];
    return gp_safetensors_begin(p->options->path, &item, 1, metadata, &p->file, err);
}

/* ---- the passes -------------------------------------------------------------------------------------------------- */

/* Pictures lie [h,w,C] in memory; everything else as PyTorch has it. */
static const float *in_pytorch_order(const predictor *p, int64_t samples) {
    if (p->shape.rank < 3) return p->memory;
    int64_t channels = p->shape.dim[0], pixels = p->elements / channels;
    for (int64_t n = 0; n < samples; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < pixels; i++)
                p->plain[(n * channels + c) * pixels + i] = p->memory[(n * pixels + i) * channels + c];
    return p->plain;
}

static void count_nonfinite(predictor *p, int64_t samples) {
    gp_nonfinite found = gp_nonfinite_find(GP_F32, p->memory, samples * p->elements);
    if (found.count > 0 && p->bad == 0) {
        p->bad_first = p->predicted + found.at / p->elements;
        p->bad_kind = found.first;
    }
    p->bad += found.count;
    p->predicted += samples;
}

static gp_status predict_batch(predictor *p, const gp_batch *batch, gp_error *err) {
    const gp_step_input input = {.input = batch->input,
                                 .target = batch->target,
                                 .seed = p->session->config->train.seed,
                                 .divisor = batch->counts > 0 ? (double)batch->counts : 1};
    gp_step_result result;
    int mini;
    GP_RETURN_IF_FAILED(gp_session_find_mini(p->session, false, batch->samples, &mini, err));
    GP_RETURN_IF_FAILED(gp_run_step(p->run, mini, &input, &result, err));
    GP_RETURN_IF_FAILED(gp_run_prediction(p->run, mini, p->memory, err));
    count_nonfinite(p, batch->samples);
    p->loss += result.loss_sum;
    p->right += result.right;
    p->counts += batch->counts;
    size_t bytes = (size_t)(batch->samples * p->elements) * sizeof(float);
    return gp_safetensors_add(p->file, in_pytorch_order(p, batch->samples), bytes, err);
}

static gp_status predict_batches(predictor *p, gp_loader *loader, gp_error *err) {
    for (;;) {
        const gp_batch *batch;
        GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
        if (!batch) return GP_OK;
        if (p->options->stop && *p->options->stop)
            return gp_fail(err, GP_INTERRUPTED, "interrupted: %s is not written", p->options->path);
        GP_RETURN_IF_FAILED(predict_batch(p, batch, err));
    }
}

static gp_status predict_all(predictor *p, gp_error *err) {
    gp_loader *loader = NULL;
    const gp_loader_options options = gp_loaders_evaluation(p->session, NULL);
    GP_RETURN_IF_FAILED(gp_loader_create(p->session->eval, &p->session->spec, &options, &loader, err));
    gp_status status = gp_loader_restart(loader, err);
    if (status == GP_OK) status = predict_batches(p, loader, err);
    gp_loader_destroy(&loader);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static gp_status prepare(predictor *p, gp_error *err) {
    p->shape = gp_prediction_shape(p->session);
    if (!gp_shape_elements(p->shape, &p->elements)) return gp_fail(err, GP_INTERNAL, "a prediction has no size");
    size_t most = (size_t)p->session->config->data.batch * (size_t)p->elements;
    GP_RETURN_IF_FAILED(check_path(p, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->memory, most, err));
    if (p->shape.rank >= 3) GP_RETURN_IF_FAILED(GP_NEW(&p->plain, most, err));
    GP_RETURN_IF_FAILED(gp_run_create(p->session->plan, NULL, &p->run, err));
    gp_run_note(p->run, p->options->verbosity == GP_VERBOSE);
    return gp_weights_load(p->run, p->session->plan, &p->session->config->train, err);
}

static void say_end(const predictor *p, double seconds) {
    char loss[GP_LOSS_TEXT];
    if (p->bad > 0)
        gp_progress_warn(&(gp_progress){0},
                         "%" PRId64 " of %" PRId64 " predicted value%s not finite; the first is %s, in sample %" PRId64
                         " (counted from 0)",
                         p->bad, p->predicted * p->elements, p->bad == 1 ? " is" : "s are", gp_finite_name(p->bad_kind),
                         p->bad_first);
    if (p->options->verbosity == GP_QUIET) return;
    printf("predicted %" PRId64 " samples in %.1f s", gp_dataset_count(p->session->eval), seconds);
    if (p->counts > 0) printf(", loss %s", gp_loss_text(loss, p->loss / (double)p->counts));
    if (p->counts > 0 && p->session->spec.classes > 0) printf(", accuracy %.4f", p->right / (double)p->counts);
    gp_print(stdout, "; written to %s\n", p->options->path);
}

gp_status gp_predict(gp_session *session, const gp_predict_options *options, gp_error *err) {
    predictor p = {.session = session, .options = options};
    double began = gp_now();
    gp_status status = prepare(&p, err);
    if (status == GP_OK) status = begin_file(&p, err);
    if (status == GP_OK) status = predict_all(&p, err);
    if (p.file) status = gp_safetensors_end(&p.file, status, err);
    if (status == GP_OK) say_end(&p, gp_now() - began);
    gp_run_destroy(&p.run);
    free(p.memory);
    free(p.plain);
    return status;
}
