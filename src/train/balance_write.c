#include "train/balance_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/splice.h"

gp_status gp_balance_check_devices(const gp_pipeline_config *found, const gp_pipeline_config *file, const char *path,
                                   gp_error *err) {
    if (file->device_count != found->device_count)
        return gp_fail(err, GP_USAGE, "--write: the balance is for the %d devices that --set says, but %s has %d",
                       found->device_count, path, file->device_count);
    for (int d = 0; d < found->device_count; d++) {
        const gp_device_config *a = &found->devices[d], *b = &file->devices[d];
        if (strcmp(a->kind, b->kind) != 0 || a->index != b->index || a->threads != b->threads || a->memory != b->memory)
            return gp_fail(
                err, GP_USAGE,
                "--write: the balance is for the devices that --set says, but device %d of %s is another one", d, path);
    }
    return GP_OK;
}

/* What --set changed of devices and schedule is not in the file, and the balance would not fit it. */
static gp_status check_devices(const gp_session *session, const char *path, gp_error *err) {
    gp_config *config = NULL;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    GP_RETURN_IF_FAILED(gp_config_load(path, NULL, 0, &config, err));
    gp_status status = gp_balance_check_devices(pipeline, &config->pipeline, path, err);
    const gp_schedule_config *here = &pipeline->schedule, *there = &config->pipeline.schedule;
    bool same = here->kind == there->kind && here->chunks == there->chunks &&
                (here->kind != GP_SCHEDULE_FILE || strcmp(here->file, there->file) == 0);
    gp_config_destroy(&config);
    if (status != GP_OK || same) return status;
    return gp_fail(err, GP_USAGE, "--write: the balance is for the schedule that --set says, but %s has another", path);
}

gp_status gp_balance_write(const gp_session *session, const char *path, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    int stages = session->config->pipeline.stages;
    GP_RETURN_IF_FAILED(check_devices(session, path, err));
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return gp_fail(err, GP_MEMORY, "out of memory: the balance");
    for (int s = 0; s < stages; s++) fprintf(file, "%s%" PRId64, s ? ", " : "[", session->layers[s]);
    fputs("]", file);
    bool failed = ferror(file) != 0;
    gp_status status = fclose(file) != 0 || failed ? gp_fail(err, GP_MEMORY, "out of memory: the balance") : GP_OK;
    if (status == GP_OK) status = gp_yaml_splice_file(path, "pipeline", "balance", text, err);
    free(text);
    return status;
}
