#include "train/balance_write.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "config/splice.h"

/* What --set changed of the devices is not in the file, and the balance would not fit it. */
static gp_status check_devices(const gp_session *session, const char *path, gp_error *err) {
    gp_config *config = NULL;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int devices = pipeline->device_count, stages = pipeline->stages;
    GP_RETURN_IF_FAILED(gp_config_load(path, NULL, 0, &config, err));
    int in_file = config->pipeline.device_count, stages_in_file = config->pipeline.stages;
    gp_config_destroy(&config);
    if (in_file != devices)
        return gp_fail(err, GP_USAGE, "--write: the balance is for the %d devices that --set says, but %s has %d",
                       devices, path, in_file);
    if (stages_in_file == stages || pipeline->schedule.kind == GP_SCHEDULE_FILE) return GP_OK;
    return gp_fail(err, GP_USAGE,
                   "--write: the balance is for the %d stages of the schedule that --set says, but %s has %d", stages,
                   path, stages_in_file);
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
