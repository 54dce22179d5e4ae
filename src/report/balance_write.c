#include "report/balance_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_stream.h"
#include "config/splice.h"
#include "model/graph.h"
#include "profile/profile_identity.h"

/* A balance is of layers, their options and shapes. */
static gp_status check_model(const gp_config *found, const gp_config *file, const char *path, gp_error *err) {
    gp_graph *here = NULL, *there = NULL;
    gp_status status = gp_graph_build(found->model, &here, err);
    if (status == GP_OK) status = gp_graph_build(file->model, &there, err);
    uint64_t found_model = 0, its_model = 0;
    if (status == GP_OK) status = gp_profile_model(here, &found_model, err);
    if (status == GP_OK) status = gp_profile_model(there, &its_model, err);
    bool same = status == GP_OK && found_model == its_model;
    gp_graph_destroy(&here);
    gp_graph_destroy(&there);
    if (status != GP_OK || same) return status;
    return gp_fail(err, GP_USAGE,
                   "--write: the balance is for the model of --set, but %s has a different one; change the file first",
                   path);
}

static gp_status check_devices_of(const gp_pipeline_config *found, const int *order, const gp_pipeline_config *file,
                                  const char *path, gp_error *err) {
    if (file->device_count != found->device_count)
        return gp_fail(err, GP_USAGE,
                       "--write: the balance is for the %d devices of --set, but %s has %d; change the file first",
                       found->device_count, path, file->device_count);
    if (file->entry_count != found->entry_count ||
        memcmp(file->replicas, found->replicas, (size_t)found->entry_count * sizeof *found->replicas) != 0)
        return gp_fail(err, GP_USAGE,
                       "--write: the balance is for the replicas of --set, but %s has others; change the file first",
                       path);
    for (int d = 0; d < found->device_count; d++) {
        int there = order ? order[d] : d;
        if (!gp_device_configs_equal(&found->devices[d], &file->devices[there]))
            return gp_fail(err, GP_USAGE,
                           "--write: the balance is for the devices of --set, but device %d of %s is a different one",
                           there, path);
    }
    return GP_OK;
}

gp_status gp_balance_check_file(const gp_config *found, const int *order, const gp_config *file, const char *path,
                                gp_error *err) {
    GP_RETURN_IF_FAILED(check_devices_of(&found->pipeline, order, &file->pipeline, path, err));
    return check_model(found, file, path, err);
}

gp_status gp_balance_check_written(const gp_session *session, const char *path, gp_error *err) {
    gp_config *config = NULL;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    GP_RETURN_IF_FAILED(gp_config_load(GP_TO_BALANCE, path, NULL, 0, &config, err));
    gp_status status = gp_balance_check_file(session->config, session->order, config, path, err);
    const gp_schedule_config *here = &pipeline->schedule, *there = &config->pipeline.schedule;
    bool same = here->kind == there->kind && here->chunks == there->chunks &&
                (here->kind != GP_SCHEDULE_FILE || strcmp(here->file, there->file) == 0);
    gp_config_destroy(&config);
    if (status != GP_OK || same) return status;
    return gp_fail(
        err, GP_USAGE,
        "--write: the balance is for the schedule of --set, but %s has a different one; change the file first", path);
}

void gp_balance_write_layers(FILE *out, const int64_t *layers, int stages) {
    for (int s = 0; s < stages; s++) fprintf(out, "%s%" PRId64, s ? ", " : "[", layers[s]);
    fputs("]", out);
}

gp_status gp_balance_text(const int64_t *layers, int stages, char **out, gp_error *err) {
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "the balance", err));
    gp_balance_write_layers(stream.file, layers, stages);
    return gp_text_end(&stream, GP_OK, out, err);
}

gp_status gp_balance_write(const gp_session *session, const char *path, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    bool moved = session->moved;
    char *layers = NULL, *devices = NULL;
    GP_RETURN_IF_FAILED(gp_balance_check_written(session, path, err));
    gp_status status = gp_balance_text(session->layers, pipeline->stages, &layers, err);
    if (status == GP_OK && moved) status = gp_config_devices_text(pipeline, &devices, err);
    const gp_yaml_setting settings[] = {{"balance", layers}, {"devices", devices}};
    if (status == GP_OK) status = gp_yaml_splice_file(path, "pipeline", settings, moved ? 2 : 1, err);
    free(layers);
    free(devices);
    return status;
}
