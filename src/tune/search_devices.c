#include "tune/search_devices.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void gp_search_way_fini(gp_search_way *way) {
    free(way->devices);
    free(way->set);
}

static gp_status add_way(gp_search_ways *ways, const gp_pipeline_config *its, bool configured, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&ways->items, &ways->capacity, ways->count + 1, err));
    gp_search_way *way = &ways->items[ways->count++];
    *way = (gp_search_way){.configured = configured,
                           .entries = its->entry_count,
                           .workers = its->device_count,
                           .replicas = its->replicas[0]};
    for (int e = 1; e < its->entry_count; e++)
        if (its->replicas[e] < way->replicas) way->replicas = its->replicas[e];
    GP_RETURN_IF_FAILED(gp_config_devices_text(its, &way->devices, err));
    return gp_format_text(&way->set, err, "pipeline.devices=%s", way->devices);
}

/* Replicas of a stage must be. */
static bool are_of_one_kind(const gp_device_config *devices, int count) {
    for (int d = 1; d < count; d++)
        if (strcmp(devices[d].kind, devices[0].kind) != 0 || devices[d].threads != devices[0].threads) return false;
    return true;
}

static bool is_known(const gp_search_ways *ways, const char *devices) {
    for (size_t i = 0; i + 1 < ways->count; i++)
        if (strcmp(ways->items[i].devices, devices) == 0) return true;
    return false;
}

static void drop_last(gp_search_ways *ways) {
    gp_search_way_fini(&ways->items[--ways->count]);
}

/* The first `count` devices with each number of replicas from `first` to `last`. `shares` has room for the entries. */
static gp_status add_divisors(const gp_pipeline_config *pipeline, int count, int first, int last, int *shares,
                              gp_search_ways *ways, gp_error *err) {
    for (int r = first; r <= last; r++) {
        gp_pipeline_config its = *pipeline;
        if (count % r) continue;
        its.device_count = count;
        its.entry_count = count / r;
        its.replicas = shares;
        its.replicated = r > 1;
        for (int e = 0; e < its.entry_count; e++) shares[e] = r;
        GP_RETURN_IF_FAILED(add_way(ways, &its, false, err));
        if (is_known(ways, ways->items[ways->count - 1].devices)) drop_last(ways);
    }
    return GP_OK;
}

static gp_status add_division(const gp_search_ways_request *request, int stages, int replicas, int threads,
                              size_t memory, gp_search_ways *ways, gp_error *err) {
    gp_pipeline_config its = *request->pipeline;
    its.device_count = stages * replicas;
    its.entry_count = stages;
    its.replicated = replicas > 1;
    its.replicas = NULL;
    its.devices = NULL;
    gp_status status = GP_NEW(&its.replicas, stages, err);
    if (status == GP_OK) status = GP_NEW(&its.devices, its.device_count, err);
    for (int e = 0; e < stages && status == GP_OK; e++) its.replicas[e] = replicas;
    for (int d = 0; d < its.device_count && status == GP_OK; d++) {
        its.devices[d] = request->pipeline->devices[0];
        its.devices[d].threads = threads;
        its.devices[d].memory = memory / (size_t)its.device_count;
    }
    if (status == GP_OK) status = add_way(ways, &its, false, err);
    free(its.replicas);
    free(its.devices);
    GP_RETURN_IF_FAILED(status);
    gp_search_way *way = &ways->items[ways->count - 1];
    if (threads != request->pipeline->devices[0].threads) way->threads = threads;
    if (is_known(ways, way->devices)) drop_last(ways);
    return GP_OK;
}

/* Equal CPU devices of one process, with equal replicas. */
static bool divides_threads(const gp_search_ways_request *request) {
    const gp_pipeline_config *its = request->pipeline;
    for (int d = 0; d < its->device_count; d++)
        if (!gp_device_configs_equal(&its->devices[d], &its->devices[0])) return false;
    for (int e = 0; e < its->entry_count; e++)
        if (its->replicas[e] != its->replicas[0]) return false;
    return request->processors > 0 && strcmp(its->devices[0].kind, "cpu") == 0;
}

/* Stages × replicas × threads. */
static gp_status add_threads(const gp_search_ways_request *request, gp_search_ways *ways, gp_error *err) {
    const gp_pipeline_config *its = request->pipeline;
    if (!divides_threads(request)) return GP_OK;
    int devices = request->few > 0 ? request->few : its->device_count, total = devices * its->devices[0].threads;
    size_t memory = (size_t)devices * its->devices[0].memory;
    if (total > request->processors) total = request->processors;
    for (int r = 1; r <= total; r++)
        for (int t = 1; r * t <= total; t++) {
            int stages = total / (r * t);
            if (total % (r * t) || stages > request->most || (!request->replicas && r != its->replicas[0])) continue;
            GP_RETURN_IF_FAILED(add_division(request, stages, r, t, memory, ways, err));
        }
    return GP_OK;
}

gp_status gp_search_ways_list(const gp_search_ways_request *request, gp_search_ways *out, gp_error *err) {
    const gp_pipeline_config *pipeline = request->pipeline;
    int count = pipeline->device_count, few = request->few, *shares = NULL;
    bool divides = request->replicas && are_of_one_kind(pipeline->devices, count);
    GP_RETURN_IF_FAILED(add_way(out, pipeline, true, err));
    GP_RETURN_IF_FAILED(GP_NEW(&shares, count, err));
    gp_status status = GP_OK;
    if (divides) status = add_divisors(pipeline, count, 1, count, shares, out, err);
    if (status == GP_OK && few > 0) status = add_divisors(pipeline, few, 1, divides ? few : 1, shares, out, err);
    free(shares);
    return status == GP_OK ? add_threads(request, out, err) : status;
}

void gp_search_ways_fini(gp_search_ways *ways) {
    for (size_t i = 0; i < ways->count; i++) gp_search_way_fini(&ways->items[i]);
    free(ways->items);
    *ways = (gp_search_ways){0};
}
