/* The ways in which a search places a pipeline on devices: how many stages, and how many replicas of each.
 *
 * The searcher owns its list. One thread. */
#ifndef GP_TUNE_SEARCH_DEVICES_H
#define GP_TUNE_SEARCH_DEVICES_H

#include "settings/config.h"

typedef struct gp_search_way {
    char *devices; /* as pipeline.devices says them; owned */
    char *set;     /* "pipeline.devices=…", for --set; owned */
    bool configured;
    int entries;  /* workers of the schedule */
    int workers;  /* all replicas together */
    int replicas; /* of the entry with the fewest */
} gp_search_way;

typedef struct gp_search_ways {
    gp_search_way *items;
    size_t count, capacity;
} gp_search_ways;

/* As configured; if `replicas`, and for devices of one kind, also with every number of replicas r that divides them:
 * the first r devices are the replicas of the first entry. `few` > 0: the same again for the first few devices alone.
 * The caller calls gp_search_ways_fini, also on failure. */
GP_MUST_USE gp_status gp_search_ways_list(const gp_pipeline_config *pipeline, bool replicas, int few,
                                          gp_search_ways *out, gp_error *err);
void gp_search_ways_fini(gp_search_ways *ways);

#endif
