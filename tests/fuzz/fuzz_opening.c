/* What process 0 says before the first step: a head, a balance, a configuration. The input has their numbers and texts;
 * what it does not fill is zeros. What is taken to be an opening must be one that a process can go on from. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
#include "fuzz/fuzz.h"
#include "session/placement.h"
#include "train/opening_check.h"

enum { PROCESSES = 3 };

typedef struct reader {
    const uint8_t *at;
    size_t left;
} reader;

static void read_to(reader *from, void *to, size_t bytes) {
    size_t its = bytes < from->left ? bytes : from->left;
    memset(to, 0, bytes);
    if (its > 0) memcpy(to, from->at, its);
    from->at += its;
    from->left -= its;
}

static void read_head(reader *from, gp_opening_head *out) {
    uint8_t flags;
    read_to(from, &flags, 1);
    gp_opening_set_version(out);
    if (flags & 1) read_to(from, out->version, sizeof out->version);
    read_to(from, &out->samples, sizeof out->samples);
    read_to(from, &out->phase, sizeof out->phase);
    read_to(from, &out->step, sizeof out->step);
    read_to(from, &out->norms, sizeof out->norms);
    read_to(from, &out->timeout, sizeof out->timeout);
    memset(out->libraries, flags & 2 ? 'l' : 0, sizeof out->libraries); /* without an end */
    memset(out->folder.text, flags & 2 ? 'f' : 0, sizeof out->folder.text);
    out->bytes = from->left;
    if (flags & 4) read_to(from, &out->bytes, sizeof out->bytes);
    out->asks = flags >> 3 & 3; /* there are 0 to 2 */
}

static void read_phase(reader *from, gp_phase *out) {
    uint8_t written;
    memset(out, 0, sizeof *out);
    read_to(from, &out->count, sizeof out->count);
    read_to(from, &written, 1);
    for (int s = 0; s < written; s++) {
        int32_t layers;
        read_to(from, &layers, sizeof layers);
        out->layers[s] = layers;
    }
    for (int s = written; written == UINT8_MAX && s < GP_MAX_STAGES; s++) out->layers[s] = out->layers[s - 1];
}

static void check_opening(const gp_opening *its) {
    FUZZ_PROMISE(memchr(its->folder.text, 0, sizeof its->folder.text));
    FUZZ_PROMISE(memchr(its->libraries, 0, sizeof its->libraries));
    FUZZ_PROMISE(isfinite(its->timeout) && its->timeout >= 1);
    FUZZ_PROMISE(its->samples[0] >= 0 && its->samples[1] >= 0 && its->step >= 0 && its->phase >= 0);
}

static void place_workers(const gp_config *config) {
    gp_error err = {0};
    int *process = calloc((size_t)config->pipeline.device_count + 1, sizeof *process);
    FUZZ_PROMISE(process);
    gp_status status = gp_placement_find(&config->pipeline, PROCESSES, process, &err);
    fuzz_check(status, &err);
    for (int w = 0; w < config->pipeline.device_count && status == GP_OK; w++)
        FUZZ_PROMISE(process[w] >= 0 && process[w] < PROCESSES);
    free(process);
}

static void go_on(const gp_opening *opening, const gp_phase *phase) {
    const gp_config like = {
        .path = (char *)"the configuration of process 0", .folder = (char *)"/", .file_text = (char *)""};
    gp_error err = {0};
    gp_yaml_document *document = NULL;
    gp_config *config = NULL;
    gp_status status = gp_yaml_parse(opening->text, strlen(opening->text), like.path, &document, &err);
    if (status == GP_OK) status = gp_config_read(&like, &document, true, &config, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return;
    gp_config *its = gp_config_phase(config, gp_config_changes_until(config, opening->phase));
    FUZZ_PROMISE(gp_phase_apply(phase, its, &err) == GP_OK);
    FUZZ_PROMISE(its->pipeline.layers_count == phase->count);
    place_workers(its);
    gp_config_destroy(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static gp_opening_head head;
    static gp_phase *phase; /* what lies after it is poisoned */
    reader from = {bytes, size};
    gp_error err = {0};
    if (!phase) phase = calloc(1, sizeof *phase);
    FUZZ_PROMISE(phase);
    read_phase(&from, phase);
    read_head(&from, &head);
    gp_status status = gp_opening_check(&head, &err), balanced;
    if (status == GP_INTERNAL) err.status = status = GP_DATA; /* said of process 0 */
    fuzz_check(status, &err);
    balanced = gp_phase_check_layers(phase, &err);
    FUZZ_PROMISE(balanced == GP_OK || err.text[0]);
    FUZZ_PROMISE(status != GP_OK || head.asks == 0 || (head.asks <= 2 && head.bytes == 0));
    if (status != GP_OK || head.bytes == 0) return 0;
    FUZZ_PROMISE(head.bytes <= GP_YAML_MAX_BYTES);
    size_t length = head.bytes < from.left ? head.bytes : from.left;
    char *text = calloc(length + 1, 1);
    FUZZ_PROMISE(text);
    read_to(&from, text, length);
    gp_opening opening;
    gp_opening_fill(&opening, &head, text);
    check_opening(&opening);
    if (balanced == GP_OK) go_on(&opening, phase);
    gp_opening_fini(&opening);
    return 0;
}
