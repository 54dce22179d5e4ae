#include "train/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/loader.h"
#include "train/folder.h"
#include "train/rate.h"
#include "train/weights.h"

enum { PREFETCH = 3 }; /* mini-batches */

typedef struct trainer {
    gp_session *session;
    const gp_train_options *options;
    gp_run *run;
    gp_metrics *metrics;
    gp_tracing *tracing; /* NULL: no timeline */
    gp_progress progress;
    int64_t step; /* applied so far */
    int64_t epoch;
    int64_t warmup, eval_every; /* steps */
    double loss, accuracy;      /* of the last step; of the last evaluation, < 0: none yet */
    bool weights;               /* the run holds weights worth saving */
    bool interrupted;
} trainer;

static bool stopping(const trainer *t) {
    return t->options->stop && *t->options->stop;
}

static gp_step_input input_of(const trainer *t, const gp_batch *batch, int64_t step) {
    return (gp_step_input){.input = batch->input,
                           .target = batch->target,
                           .seed = t->session->config->train.seed,
                           .step = (uint32_t)step,
                           .rate = gp_rate(&t->session->config->optimizer, t->warmup, step),
                           .divisor = batch->counts > 0 ? (double)batch->counts : 1};
}

static gp_status run_batch(trainer *t, const gp_batch *batch, bool training, const gp_step_input *input,
                           gp_step_result *result, gp_error *err) {
    int mini = gp_plan_find(t->session->plan, training, batch->samples);
    if (mini < 0) return gp_fail(err, GP_INTERNAL, "no plan for a mini-batch of %" PRId64, batch->samples);
    GP_RETURN_IF_FAILED(gp_tracing_before(t->tracing, t->run, mini, input->step, err));
    gp_status status = gp_run_step(t->run, mini, input, result, err);
    gp_tracing_after(t->tracing, t->run, input->step);
    return status;
}

/* Stops between mini-batches where the run is asked to end: *whole is false then. */
static gp_status evaluate_batches(trainer *t, gp_loader *loader, double *loss, double *accuracy, bool *whole,
                                  gp_error *err) {
    double loss_sum = 0, right = 0, counts = 0;
    *whole = false;
    for (;;) {
        const gp_batch *batch;
        gp_step_result result;
        GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
        if (!batch) break;
        if (stopping(t)) return GP_OK;
        gp_step_input input = input_of(t, batch, t->step);
        GP_RETURN_IF_FAILED(run_batch(t, batch, false, &input, &result, err));
        loss_sum += result.loss_sum;
        right += result.right;
        counts += (double)batch->counts;
    }
    *loss = counts > 0 ? loss_sum / counts : 0;
    *accuracy = counts > 0 ? right / counts : 0;
    *whole = true;
    return GP_OK;
}

static gp_status evaluate(trainer *t, gp_error *err) {
    if (!t->session->eval) return GP_OK;
    gp_loader_options options = {
        .batch = t->session->config->data.batch, .first_epoch = 1, .epochs = 1, .depth = PREFETCH};
    gp_loader *loader = NULL;
    double loss = 0, accuracy = 0;
    bool whole;
    GP_RETURN_IF_FAILED(gp_loader_create(t->session->eval, &t->session->spec, &options, &loader, err));
    gp_status status = evaluate_batches(t, loader, &loss, &accuracy, &whole, err);
    gp_loader_destroy(&loader);
    if (status != GP_OK) return gp_error_context(err, "evaluation after step %" PRId64 ": ", t->step);
    if (!whole) {
        t->interrupted = true;
        return GP_OK;
    }
    t->accuracy = accuracy;
    gp_progress_eval(&t->progress, t->step, t->epoch, loss, accuracy);
    return gp_metrics_eval(t->metrics, t->step, loss, accuracy, err);
}

static gp_status train_step(trainer *t, const gp_batch *batch, gp_error *err) {
    double began = gp_now();
    int64_t step = t->step + 1;
    gp_step_input input = input_of(t, batch, step);
    gp_step_result result;
    gp_status status = run_batch(t, batch, true, &input, &result, err);
    if (status != GP_OK) return gp_error_context(err, "step %" PRId64 ": ", step);
    gp_step_record record = {.step = step,
                             .epoch = batch->epoch,
                             .loss = result.loss_sum / input.divisor,
                             .rate = input.rate,
                             .samples = batch->samples,
                             .seconds = gp_now() - began};
    t->epoch = batch->epoch;
    GP_RETURN_IF_FAILED(gp_metrics_step(t->metrics, &record, err));
    if (!result.finite)
        return gp_fail(err, GP_NUMERIC,
                       "step %" PRId64
                       ": the loss is %s: the update was not applied, and the run stops; a lower learning rate "
                       "or a warm-up may help",
                       step, isnan(record.loss) ? "not a number" : "infinite");
    t->step = step;
    t->loss = record.loss;
    gp_progress_step(&t->progress, &record);
    return GP_OK;
}

static gp_status train_batches(trainer *t, gp_loader *loader, gp_error *err) {
    int64_t evaluated = -1;
    while (t->step < t->session->steps && !stopping(t)) {
        const gp_batch *batch;
        GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
        if (!batch) return gp_fail(err, GP_INTERNAL, "the loader ended before the run");
        GP_RETURN_IF_FAILED(train_step(t, batch, err));
        if (t->eval_every > 0 && t->step % t->eval_every == 0) {
            GP_RETURN_IF_FAILED(evaluate(t, err));
            evaluated = t->step;
        }
    }
    if (t->step < t->session->steps) t->interrupted = true;
    return evaluated == t->step || t->interrupted ? GP_OK : evaluate(t, err);
}

static gp_status train(trainer *t, gp_error *err) {
    const gp_config *config = t->session->config;
    if (t->session->steps == 0) return evaluate(t, err);
    gp_loader_options options = {.batch = config->data.batch,
                                 .shuffle = config->data.shuffle,
                                 .drop_last = config->data.drop_last,
                                 .seed = config->train.seed,
                                 .first_epoch = 1,
                                 .depth = PREFETCH};
    gp_loader *loader = NULL;
    GP_RETURN_IF_FAILED(gp_loader_create(t->session->train, &t->session->spec, &options, &loader, err));
    gp_status status = train_batches(t, loader, err);
    gp_loader_destroy(&loader);
    return status;
}

static gp_status save_model(trainer *t, gp_error *err) {
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "model.safetensors", &path, err));
    gp_status status = gp_weights_save(t->run, t->session->plan, path, err);
    free(path);
    return status;
}

static gp_status write_config(trainer *t, gp_error *err) {
    gp_config *config = t->session->config;
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_config_resolve(config, t->session->layers, config->pipeline.device_count, err));
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "config.yaml", &path, err));
    gp_status status = gp_config_write(config, path, err);
    free(path);
    return status;
}

static gp_status open_metrics(trainer *t, gp_error *err) {
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "metrics.jsonl", &path, err));
    gp_status status = gp_metrics_open(path, &t->metrics, err);
    free(path);
    return status == GP_OK ? gp_metrics_start(t->metrics, t->session, err) : status;
}

/* Signals stay the business of the calling thread: those of the run inherit a mask that blocks them. */
static gp_status start_run(trainer *t, gp_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    gp_status status = gp_run_create(t->session->plan, t->options->hooks, &t->run, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Where --force writes over a run, its model goes before a configuration stands there that is not the model's; but not
 * the file that this run began with, which the new model replaces at the end. */
static gp_status remove_old_model(trainer *t, gp_error *err) {
    const char *init = t->session->config->train.init;
    struct stat old, began;
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "model.safetensors", &path, err));
    gp_status status = GP_OK;
    bool keep = init && stat(path, &old) == 0 && stat(init, &began) == 0 && old.st_dev == began.st_dev &&
                old.st_ino == began.st_ino;
    if (!keep && unlink(path) != 0 && errno != ENOENT)
        status = gp_fail(err, GP_IO, "%s: cannot be removed: %s", path, strerror(errno));
    free(path);
    return status;
}

static gp_status start(trainer *t, gp_error *err) {
    gp_session *session = t->session;
    const gp_train_config *config = &session->config->train;
    t->warmup = gp_time_steps(session->config->optimizer.warmup, session->epoch_steps ? session->epoch_steps : 1);
    t->eval_every = gp_time_steps(config->eval_every, session->epoch_steps ? session->epoch_steps : 1);
    GP_RETURN_IF_FAILED(gp_tracing_open(&t->options->trace, session->plan, &t->tracing, err));
    GP_RETURN_IF_FAILED(start_run(t, err));
    if (config->init)
        GP_RETURN_IF_FAILED(gp_weights_load(t->run, session->plan, config->init, err));
    else
        GP_RETURN_IF_FAILED(gp_weights_initialise(t->run, session->plan, config->seed, err));
    t->weights = true;
    GP_RETURN_IF_FAILED(remove_old_model(t, err));
    GP_RETURN_IF_FAILED(write_config(t, err));
    return open_metrics(t, err);
}

static void say_done(trainer *t, double seconds) {
    const char *folder = t->options->folder;
    if (t->step == 0)
        gp_progress_end(&t->progress, "done: evaluated in %.1f s; model saved in %s", seconds, folder);
    else if (t->accuracy >= 0)
        gp_progress_end(&t->progress, "done: %" PRId64 " steps in %.1f s, loss %.4f, accuracy %.4f; model saved in %s",
                        t->step, seconds, t->loss, t->accuracy, folder);
    else
        gp_progress_end(&t->progress, "done: %" PRId64 " steps in %.1f s, loss %.4f; model saved in %s", t->step,
                        seconds, t->loss, folder);
}

static void say_end(trainer *t, gp_status status, bool saved, double seconds) {
    const char *how = status != GP_OK ? "stopped" : "interrupted";
    if (status == GP_OK && !t->interrupted)
        say_done(t, seconds);
    else if (saved)
        gp_progress_end(&t->progress, "%s after %" PRId64 " of %" PRId64 " steps; model saved in %s", how, t->step,
                        t->session->steps, t->options->folder);
    else
        gp_progress_end(&t->progress, "%s after %" PRId64 " of %" PRId64 " steps; no model saved", how, t->step,
                        t->session->steps);
}

/* What the run reached is saved also where a step was refused or a file broke; where workers failed there is nothing to
 * read it from. The first cause stays the error. */
static gp_status finish(trainer *t, gp_status status, gp_error *err) {
    double seconds = gp_now() - t->progress.began;
    gp_error later = {0};
    bool saved = false;
    if (t->weights) {
        gp_status saving = save_model(t, status == GP_OK ? err : &later);
        saved = saving == GP_OK;
        if (status == GP_OK) status = saving;
    }
    gp_status traced = gp_tracing_close(&t->tracing, status == GP_OK ? err : &later);
    if (status == GP_OK) status = traced;
    if (t->metrics) {
        const char *how = status != GP_OK ? "failed" : t->interrupted ? "interrupted" : "done";
        gp_status ended = gp_metrics_end(t->metrics, how, t->step, seconds, status == GP_OK ? err : &later);
        if (status == GP_OK) status = ended;
        ended = gp_metrics_close(&t->metrics, status == GP_OK ? err : &later);
        if (status == GP_OK) status = ended;
    }
    say_end(t, status, saved, seconds);
    return status;
}

gp_status gp_train(gp_session *session, const gp_train_options *options, gp_error *err) {
    trainer t = {.session = session, .options = options, .accuracy = -1};
    gp_progress_start(&t.progress, options->verbosity, session, options->folder);
    gp_status status = start(&t, err);
    if (status == GP_OK) status = train(&t, err);
    status = finish(&t, status, err);
    gp_run_destroy(&t.run);
    return status;
}
