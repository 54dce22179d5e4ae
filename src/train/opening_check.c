#include "train/opening_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/tree.h"

static const int64_t most_samples = INT64_C(1) << 48;
static const double most_seconds = 1e9; /* of an instruction: thirty years */

void gp_opening_set_version(gp_opening_head *head) {
    memset(head->version, 0, sizeof head->version);
    snprintf(head->version, sizeof head->version, "%s", GP_VERSION);
}

gp_status gp_opening_check(gp_opening_head *head, gp_error *err) {
    gp_opening_head own;
    gp_opening_set_version(&own);
    if (memcmp(head->version, own.version, sizeof own.version) != 0) {
        head->version[sizeof head->version - 1] = '\0';
        return gp_fail(
            err, GP_UNSUPPORTED,
            "it runs version %s of the program, but process 0 runs version %s: install the same on all hosts",
            own.version, head->version);
    }
    if (head->asks >= GP_OPENING_QUESTIONS || (head->asks && head->bytes > 0))
        return gp_fail(err, GP_INTERNAL, "process 0 sent an opening with impossible values");
    if (head->bytes == 0) return GP_OK;
    bool good = head->bytes <= GP_YAML_MAX_BYTES && head->phase >= 0 && head->step >= 0 && head->step <= UINT32_MAX &&
                head->timeout >= 1 && head->timeout <= GP_MAX_TIMEOUT; /* false for a NaN */
    for (int i = 0; i < 2; i++) good = good && head->samples[i] >= 0 && head->samples[i] <= most_samples;
    if (!good) return gp_fail(err, GP_INTERNAL, "process 0 sent an opening with impossible values");
    head->folder.text[sizeof head->folder.text - 1] = '\0';
    head->libraries[sizeof head->libraries - 1] = '\0';
    return GP_OK;
}

void gp_opening_fill(gp_opening *out, const gp_opening_head *head, char *text) {
    *out = (gp_opening){.text = text};
    if (!text) return;
    out->folder = head->folder;
    memcpy(out->samples, head->samples, sizeof out->samples);
    out->phase = head->phase;
    out->step = head->step;
    out->norms = head->norms != 0;
    out->shares = head->shares != 0;
    memcpy(out->libraries, head->libraries, sizeof out->libraries);
    out->timeout = head->timeout;
}

void gp_opening_fini(gp_opening *opening) {
    free(opening->text);
    opening->text = NULL;
}

gp_status gp_phase_check_layers(const gp_phase *phase, gp_error *err) {
    bool good = phase->count >= 1 && phase->count <= GP_MAX_STAGES;
    for (int s = 0; good && s < phase->count; s++) good = phase->layers[s] >= 1 && phase->layers[s] <= INT32_MAX;
    return good ? GP_OK : gp_fail(err, GP_INTERNAL, "process 0 sent a balance with impossible numbers");
}

gp_status gp_expected_check(const double *expected, size_t count, gp_error *err) {
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = expected[i] >= 0 && expected[i] <= most_seconds; /* false for a NaN */
    return good ? GP_OK : gp_fail(err, GP_INTERNAL, "process 0 sent expected times with impossible numbers");
}

gp_status gp_phase_apply(const gp_phase *phase, gp_config *config, gp_error *err) {
    int64_t *layers = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&layers, phase->count, err));
    memcpy(layers, phase->layers, (size_t)phase->count * sizeof *layers);
    free(config->pipeline.layers);
    config->pipeline.layers = layers;
    config->pipeline.layers_count = phase->count;
    config->pipeline.balance = GP_BALANCE_LAYERS;
    return GP_OK;
}
