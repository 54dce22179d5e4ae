/* `pipeline.devices` as text, and when two of them are the same. Reading them is config_pipeline.c's. */
#include <stdlib.h>
#include <string.h>

#include "config/config_internal.h"

bool gp_device_configs_equal(const gp_device_config *a, const gp_device_config *b) {
    return strcmp(a->kind, b->kind) == 0 && a->index == b->index && a->threads == b->threads && a->memory == b->memory;
}

static void write_device(FILE *file, const gp_device_config *device, int count) {
    const char *comma = "";
    bool cuda = strcmp(device->kind, "cuda") == 0;
    fprintf(file, "{%s", device->kind);
    if (cuda) fprintf(file, ":%d", device->index);
    fputs(": {", file);
    if (strcmp(device->kind, "cpu") == 0) {
        fprintf(file, "threads: %d", device->threads);
        comma = ", ";
    }
    if (device->memory) {
        fprintf(file, "%smemory: %zu", comma, device->memory);
        comma = ", ";
    }
    if (count > 1) fprintf(file, "%scount: %d", comma, count);
    fputs("}}", file);
}

/* A long run of equal devices is written as one entry. */
void gp_write_devices(FILE *file, const gp_pipeline_config *pipeline) {
    enum { LONG_RUN = 16 };
    fputs("[", file);
    for (int i = 0; i < pipeline->device_count;) {
        const gp_device_config *device = &pipeline->devices[i];
        int run = 1;
        while (i + run < pipeline->device_count && gp_device_configs_equal(device, device + run)) run++;
        if (run <= LONG_RUN) run = 1;
        if (i > 0) fputs(", ", file);
        write_device(file, device, run);
        i += run;
    }
    fputs("]", file);
}

gp_status gp_config_devices_text(const gp_pipeline_config *pipeline, char **out, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return gp_fail(err, GP_MEMORY, "out of memory: the devices");
    gp_write_devices(file, pipeline);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        free(text);
        return gp_fail(err, GP_MEMORY, "out of memory: the devices");
    }
    *out = text;
    return GP_OK;
}
