#include "tune/search_devices.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

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
    }
    return GP_OK;
}

gp_status gp_search_ways_list(const gp_pipeline_config *pipeline, bool replicas, int few, gp_search_ways *out,
                              gp_error *err) {
    int count = pipeline->device_count, *shares = NULL;
    bool divides = replicas && are_of_one_kind(pipeline->devices, count);
    GP_RETURN_IF_FAILED(add_way(out, pipeline, true, err));
    GP_RETURN_IF_FAILED(GP_NEW(&shares, count, err));
    gp_status status = GP_OK;
    if (divides) status = add_divisors(pipeline, count, 2, count, shares, out, err);
    if (status == GP_OK && few > 0) status = add_divisors(pipeline, few, 1, divides ? few : 1, shares, out, err);
    free(shares);
    return status;
}

void gp_search_ways_fini(gp_search_ways *ways) {
    for (size_t i = 0; i < ways->count; i++) {
        free(ways->items[i].devices);
        free(ways->items[i].set);
    }
    free(ways->items);
    *ways = (gp_search_ways){0};
}
