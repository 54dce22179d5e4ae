#include "train/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { DIGITS = 9 }; /* %.9g: f32 round-trips */

struct gp_metrics {
    FILE *file;
    char *path;
};

gp_status gp_metrics_open(const char *path, gp_metrics **out, gp_error *err) {
    gp_metrics *metrics = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&metrics, 1, err));
    gp_status status = gp_copy_text(&metrics->path, path, err);
    if (status == GP_OK && !(metrics->file = fopen(path, "we")))
        status = gp_fail(err, GP_IO, "%s: cannot be written: %s", path, strerror(errno));
    if (status != GP_OK) {
        free(metrics->path);
        free(metrics);
        return status;
    }
    *out = metrics;
    return GP_OK;
}

gp_status gp_metrics_close(gp_metrics **metrics, gp_error *err) {
    gp_metrics *it = *metrics;
    if (!it) return GP_OK;
    gp_status status = GP_OK;
    if (fclose(it->file) != 0) status = gp_fail(err, GP_IO, "%s: cannot be written: %s", it->path, strerror(errno));
    free(it->path);
    free(it);
    *metrics = NULL;
    return status;
}

/* Takes `object`. */
static gp_status write_line(gp_metrics *metrics, json_t *object, gp_error *err) {
    if (!object) return gp_fail(err, GP_MEMORY, "out of memory: a line of %s", metrics->path);
    int failed = json_dumpf(object, metrics->file, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(object);
    if (failed || fputc('\n', metrics->file) == EOF || fflush(metrics->file) != 0)
        return gp_fail(err, GP_IO, "%s: cannot be written: %s", metrics->path, strerror(errno));
    return GP_OK;
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

gp_status gp_metrics_start(gp_metrics *metrics, const gp_session *session, gp_error *err) {
    const gp_config *config = session->config;
    json_t *balance = json_array(), *devices = json_array();
    for (int s = 0; s < session->plan->stages->count; s++) {
        json_array_append_new(balance, json_integer(session->layers[s]));
        json_array_append_new(devices, json_string(config->pipeline.devices[s].kind));
    }
    return write_line(
        metrics,
        json_pack("{s:s, s:s, s:I, s:i, s:o, s:o, s:i, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "event", "start",
                  "version", GP_VERSION, "parameters", (json_int_t)gp_graph_param_elements(session->graph), "layers",
                  session->graph->layer_count, "balance", balance, "devices", devices, "micro_batches",
                  config->pipeline.micro_batches, "schedule", config->pipeline.schedule, "checkpoint",
                  gp_checkpoint_mode_name(config->pipeline.checkpoint), "lockstep", config->pipeline.lockstep, "seed",
                  (json_int_t)config->train.seed, "batch", (json_int_t)config->data.batch, "train_samples",
                  (json_int_t)(session->train ? gp_dataset_count(session->train) : 0), "eval_samples",
                  (json_int_t)(session->eval ? gp_dataset_count(session->eval) : 0), "steps",
                  (json_int_t)session->steps),
        err);
}

gp_status gp_metrics_step(gp_metrics *metrics, const gp_step_record *record, gp_error *err) {
    return write_line(metrics,
                      json_pack("{s:s, s:I, s:I, s:o, s:o, s:I, s:o}", "event", "step", "step",
                                (json_int_t)record->step, "epoch", (json_int_t)record->epoch, "loss",
                                number(record->loss), "lr", number(record->rate), "samples",
                                (json_int_t)record->samples, "seconds", number(record->seconds)),
                      err);
}

gp_status gp_metrics_eval(gp_metrics *metrics, int64_t step, double loss, double accuracy, gp_error *err) {
    return write_line(metrics,
                      json_pack("{s:s, s:I, s:o, s:o}", "event", "eval", "step", (json_int_t)step, "loss", number(loss),
                                "accuracy", number(accuracy)),
                      err);
}

gp_status gp_metrics_end(gp_metrics *metrics, const char *status, int64_t steps, double seconds, gp_error *err) {
    return write_line(metrics,
                      json_pack("{s:s, s:s, s:I, s:o}", "event", "end", "status", status, "steps", (json_int_t)steps,
                                "seconds", number(seconds)),
                      err);
}
