#include "session/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

int gp_placement_processes(const gp_pipeline_config *pipeline) {
    int highest = 0;
    for (int d = 0; d < pipeline->device_count; d++)
        if (pipeline->devices[d].rank > highest) highest = pipeline->devices[d].rank;
    return highest + 1;
}

/* Whether every entry has as many replicas, and each replica can have as many processes. */
static bool replicas_apart(const gp_pipeline_config *pipeline, int processes) {
    int replicas = pipeline->replicas[0];
    for (int e = 1; e < pipeline->entry_count; e++)
        if (pipeline->replicas[e] != replicas) return false;
    return replicas > 1 && processes % replicas == 0 && processes / replicas <= pipeline->entry_count;
}

static int deal(const gp_pipeline_config *pipeline, int processes, int worker) {
    if (!replicas_apart(pipeline, processes)) return (int)((int64_t)worker * processes / pipeline->device_count);
    int replicas = pipeline->replicas[0], each = processes / replicas;
    int entry = worker / replicas, replica = worker % replicas;
    return replica * each + (int)((int64_t)entry * each / pipeline->entry_count);
}

/* Each process has room for as many workers as it would have without ranks. Those with a rank take it first; the
 * others share out what is left, in their order. */
static gp_status deal_rest(const gp_pipeline_config *pipeline, int processes, int *process, gp_error *err) {
    int *room = NULL, rest = 0, left = 0, p = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&room, processes, err));
    for (int w = 0; w < pipeline->device_count; w++) room[deal(pipeline, processes, w)]++;
    for (int w = 0; w < pipeline->device_count; w++) {
        process[w] = pipeline->devices[w].rank;
        rest += process[w] < 0;
        if (process[w] >= 0 && room[process[w]] > 0) room[process[w]]--;
    }
    for (int i = 0; i < processes; i++) left += room[i];
    int passed = 0; /* places in the processes before p */
    for (int w = 0, k = 0; w < pipeline->device_count; w++) {
        if (process[w] >= 0) continue;
        int place = (int)((int64_t)k++ * left / rest);
        while (passed + room[p] <= place) passed += room[p++];
        process[w] = p;
    }
    free(room);
    return GP_OK;
}

static gp_status check_rank(const gp_device_config *device, int worker, int workers, int processes, gp_error *err) {
    if (device->rank < processes && device->rank < workers) return GP_OK;
    if (device->rank >= workers)
        return gp_fail_at(err, GP_CONFIG, device->place,
                          "pipeline.devices: worker %d has rank %d, but %d worker%s can be in %d process%s at most, "
                          "numbered from 0",
                          worker, device->rank, workers, workers == 1 ? "" : "s", workers, workers == 1 ? "" : "es");
    return gp_fail_at(err, GP_CONFIG, device->place,
                      "pipeline.devices: worker %d has rank %d, but there %s %d process%s, numbered from 0", worker,
                      device->rank, processes == 1 ? "is" : "are", processes, processes == 1 ? "" : "es");
}

gp_status gp_placement_find(const gp_pipeline_config *pipeline, int processes, int *process, gp_error *err) {
    for (int w = 0; w < pipeline->device_count; w++)
        GP_RETURN_IF_FAILED(check_rank(&pipeline->devices[w], w, pipeline->device_count, processes, err));
    if (processes > pipeline->device_count)
        return gp_fail_at(err, GP_CONFIG, pipeline->devices[0].place,
                          "pipeline.devices: there are %d processes, but only %d worker%s; start fewer processes, or "
                          "name more devices",
                          processes, pipeline->device_count, pipeline->device_count == 1 ? "" : "s");
    bool any = false;
    for (int w = 0; w < pipeline->device_count; w++) any = any || pipeline->devices[w].rank >= 0;
    if (any) return deal_rest(pipeline, processes, process, err);
    for (int w = 0; w < pipeline->device_count; w++) process[w] = deal(pipeline, processes, w);
    return GP_OK;
}

static bool lacks_number(const gp_device_config *device) {
    return strcmp(device->kind, "cuda") == 0 && !device->numbered;
}

static bool is_same_entry(const gp_device_config *a, const gp_device_config *b) {
    return a->place.line == b->place.line && a->place.column == b->place.column;
}

/* Who writes it twice wants two GPUs. `count` and `replicas` are of one entry. */
static gp_status check_first(const gp_pipeline_config *pipeline, int processes, const int *process, int worker,
                             gp_error *err) {
    const gp_device_config *its = &pipeline->devices[worker];
    for (int w = 0; w < worker; w++) {
        const gp_device_config *before = &pipeline->devices[w];
        if (process[w] != process[worker] || !lacks_number(before) || is_same_entry(its, before)) continue;
        return processes > 1 ? gp_fail_at(err, GP_CONFIG, its->place,
                                          "pipeline.devices: cuda is one GPU of its process, and process %d has it on "
                                          "worker %d already; write cuda:0, cuda:1",
                                          process[worker], w)
                             : gp_fail_at(err, GP_CONFIG, its->place,
                                          "pipeline.devices: cuda is cuda:0, which the list has already; write cuda:0, "
                                          "cuda:1");
    }
    return GP_OK;
}

static int number_on_machine(const int *machines, int process) {
    int before = 0;
    for (int p = 0; p < process; p++) before += !machines || machines[p] == machines[process];
    return before;
}

gp_status gp_placement_number(const gp_pipeline_config *pipeline, int processes, const int *process,
                              const int *machines, int *index, gp_error *err) {
    for (int w = 0; w < pipeline->device_count; w++) {
        index[w] = pipeline->devices[w].index;
        if (!lacks_number(&pipeline->devices[w])) continue;
        GP_RETURN_IF_FAILED(check_first(pipeline, processes, process, w, err));
        index[w] = number_on_machine(machines, process[w]);
    }
    return GP_OK;
}
