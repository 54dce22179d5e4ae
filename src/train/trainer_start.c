/* The trainer before its first step. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/folder.h"
#include "train/rate.h"
#include "train/trainer_internal.h"
#include "train/weights.h"

static gp_status write_config(gp_trainer *t, gp_error *err) {
    gp_config *config = t->session->config;
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_config_resolve(config, t->session->layers, config->pipeline.device_count, err));
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "config.yaml", &path, err));
    gp_status status = gp_config_write(config, path, err);
    free(path);
    return status;
}

static gp_status open_metrics(gp_trainer *t, gp_error *err) {
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "metrics.jsonl", &path, err));
    gp_status status = gp_metrics_open(path, &t->metrics, err);
    free(path);
    return status == GP_OK ? gp_metrics_start(t->metrics, t->session, err) : status;
}

/* Signals stay the business of the calling thread: those of the run inherit a mask that blocks them. */
static gp_status start_run(gp_trainer *t, gp_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    gp_status status = gp_run_create(t->session->plan, t->options->hooks, &t->run, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Where --force writes over a run, its model goes before a configuration stands there that is not the model's; but not
 * the file that this run began with, which the new model replaces at the end. */
static gp_status remove_old_model(gp_trainer *t, gp_error *err) {
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

gp_status gp_trainer_start(gp_trainer *t, gp_error *err) {
    gp_session *session = t->session;
    const gp_train_config *config = &session->config->train;
    t->length = (gp_run_length){session->steps, session->epoch_steps ? session->epoch_steps : 1};
    t->eval_every = gp_time_steps(config->eval_every, t->length.epoch_steps);
    GP_RETURN_IF_FAILED(gp_tracing_open(&t->options->trace, session->plan, &t->tracing, err));
    GP_RETURN_IF_FAILED(start_run(t, err));
    if (config->init)
        GP_RETURN_IF_FAILED(gp_weights_load(t->run, session->plan, config, err));
    else
        GP_RETURN_IF_FAILED(gp_weights_initialise(t->run, session->plan, config->seed, err));
    t->weights = true;
    GP_RETURN_IF_FAILED(remove_old_model(t, err));
    GP_RETURN_IF_FAILED(write_config(t, err));
    return open_metrics(t, err);
}
