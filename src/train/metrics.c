#include "train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum { DIGITS = 9 }; /* %.9g: f32 round-trips */

struct gp_metrics {
    int fd;
    char *path;
    off_t end; /* of the last whole line */
};

gp_status gp_metrics_open(const char *path, gp_metrics **out, gp_error *err) {
    gp_metrics *metrics = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&metrics, 1, err));
    metrics->fd = -1;
    gp_status status = gp_copy_text(&metrics->path, path, err);
    if (status == GP_OK && (metrics->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
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
    if (close(it->fd) != 0) status = gp_fail(err, GP_IO, "%s: cannot be written: %s", it->path, strerror(errno));
    free(it->path);
    free(it);
    *metrics = NULL;
    return status;
}

/* What a full disk took of a line is cut off again, so that the file holds whole lines whatever happens. */
static gp_status write_bytes(gp_metrics *metrics, const char *bytes, size_t count, gp_error *err) {
    for (size_t done = 0; done < count;) {
        ssize_t now = write(metrics->fd, bytes + done, count - done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) {
            gp_fail(err, GP_IO, "%s: cannot be written: %s", metrics->path, strerror(errno));
            if (ftruncate(metrics->fd, metrics->end) == 0) lseek(metrics->fd, metrics->end, SEEK_SET);
            return GP_IO;
        }
        done += (size_t)now;
    }
    metrics->end += (off_t)count;
    return GP_OK;
}

/* Takes `object`. */
static gp_status write_line(gp_metrics *metrics, json_t *object, gp_error *err) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(object);
    if (!text) return gp_fail(err, GP_MEMORY, "out of memory: a line of %s", metrics->path);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the NUL: what is written is counted */
    gp_status status = write_bytes(metrics, text, length + 1, err);
    free(text);
    return status;
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
                      json_pack("{s:s, s:I, s:o, s:o*}", "event", "eval", "step", (json_int_t)step, "loss",
                                number(loss), "accuracy", isnan(accuracy) ? NULL : number(accuracy)),
                      err);
}

gp_status gp_metrics_end(gp_metrics *metrics, const char *status, int64_t steps, double seconds, gp_error *err) {
    return write_line(metrics,
                      json_pack("{s:s, s:s, s:I, s:o}", "event", "end", "status", status, "steps", (json_int_t)steps,
                                "seconds", number(seconds)),
                      err);
}
