/* The way of a configuration: file, overrides, sections, graph, costs, partition, plan; and the resolved configuration,
 * which must read back. Comment lines "#--set a.b=c" of the input are overrides. What is larger than the bounds below
 * is planned in nobody's second, and ends with the graph. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cut/cut.h"
#include "device/ref/ref.h"
#include "fuzz/fuzz.h"
#include "model/graph.h"
#include "plan/memory.h"
#include "plan/plan.h"
#include "profile/cost.h"
#include "settings/config.h"

enum { MOST_OVERRIDES = 8, MOST_STAGES = 6, MOST_MICRO_BATCHES = 16, MOST_LAYERS = 48 };

static char written_folder[] = "/dev/shm/gp-fuzz-XXXXXX";
static char written[sizeof written_folder + 16];

static void remove_written(void) {
    unlink(written);
    rmdir(written_folder);
}

static int find_overrides(char *text, const char *overrides[MOST_OVERRIDES]) {
    static const char mark[] = "#--set ";
    int count = 0;
    for (char *line = strtok(text, "\n"); line && count < MOST_OVERRIDES; line = strtok(NULL, "\n"))
        if (strncmp(line, mark, sizeof mark - 1) == 0) overrides[count++] = line + sizeof mark - 1;
    return count;
}

static gp_status count_cost(const gp_graph *graph, int64_t samples, int64_t *cost, gp_error *err) {
    const gp_cost_request request = gp_cost_assumed(graph, samples);
    return gp_cost_by_time(&request, cost, err);
}

static gp_status cut(const gp_config *config, const gp_graph *graph, int64_t layers[MOST_STAGES], gp_error *err) {
    int64_t costs[MOST_LAYERS];
    int64_t piece = 1 + (config->data.batch - 1) / config->pipeline.micro_batches;
    if (config->pipeline.balance == GP_BALANCE_LAYERS) {
        memcpy(layers, config->pipeline.layers, (size_t)config->pipeline.layers_count * sizeof *layers);
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(config->pipeline.balance == GP_BALANCE_AUTO ? count_cost(graph, piece, costs, err)
                                                                    : gp_cost_by_size(graph, piece, 1, costs, err));
    return gp_cut_list(costs, graph->layer_count, config->pipeline.stages, layers, err);
}

static gp_status plan(const gp_config *config, const gp_graph *graph, const int64_t *layers, gp_plan **out,
                      gp_error *err) {
    gp_device_spec devices[MOST_STAGES];
    for (int d = 0; d < config->pipeline.device_count; d++)
        devices[d] = (gp_device_spec){&gp_ref_kind, 0, 1, config->pipeline.devices[d].memory};
    const gp_mini_size sizes[] = {{config->data.batch, true}, {1 + config->data.batch / 2, false}};
    gp_plan_request request = {.graph = graph,
                               .layers = layers,
                               .stages = config->pipeline.stages,
                               .schedule = {config->pipeline.schedule.kind, config->pipeline.schedule.chunks, NULL},
                               .devices = devices,
                               .update = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}},
                               .batch = config->data.batch,
                               .micro_batches = config->pipeline.micro_batches,
                               .checkpoint = config->pipeline.checkpoint,
                               .checkpoints = config->pipeline.checkpoints,
                               .lockstep = config->pipeline.lockstep,
                               .sizes = sizes,
                               .size_count = 2};
    return gp_plan_create(&request, out, err);
}

static void check_plan(gp_config *config, const gp_graph *graph) {
    gp_error err = {0};
    gp_plan *it = NULL;
    int64_t layers[MOST_STAGES] = {0};
    int worker;
    int stages = config->pipeline.stages;
    if (stages == 0 || stages > MOST_STAGES || config->pipeline.layers_count > MOST_STAGES ||
        graph->layer_count > MOST_LAYERS || config->pipeline.micro_batches > MOST_MICRO_BATCHES)
        return;
    gp_status status = cut(config, graph, layers, &err);
    if (status == GP_OK) status = plan(config, graph, layers, &it, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return;
    fuzz_check(gp_memory_check(it, &worker, &err), &err);
    gp_plan_destroy(&it);
    gp_config *again = NULL;
    FUZZ_PROMISE(gp_config_resolve(config, layers, stages, &err) == GP_OK);
    FUZZ_PROMISE(gp_config_write(config, written, &err) == GP_OK);
    FUZZ_PROMISE(gp_config_load(GP_TO_RUN, written, NULL, 0, &again, &err) == GP_OK);
    gp_config_destroy(&again);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    FUZZ_PROMISE(mkdtemp(written_folder));
    strcpy(written, written_folder);
    strcat(written, "/config.yaml");
    return atexit(remove_written);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_config *config = NULL;
    gp_graph *graph = NULL;
    const char *overrides[MOST_OVERRIDES];
    char *text = strndup((const char *)bytes, size);
    FUZZ_PROMISE(text);
    int count = find_overrides(text, overrides);
    gp_status status = gp_config_load(GP_TO_RUN, fuzz_file(0, bytes, size), overrides, count, &config, &err);
    FUZZ_PROMISE(status == GP_OK || gp_status_exit(status) == 2);
    if (status == GP_OK) status = gp_graph_build(config->model, &graph, &err);
    fuzz_check(status, &err);
    if (status == GP_OK) check_plan(config, graph);
    gp_graph_destroy(&graph);
    gp_config_destroy(&config);
    free(text);
    return 0;
}
