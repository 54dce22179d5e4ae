/* The ways in which a search places a pipeline on devices: how many stages, how many replicas of each, and how many
 * threads.
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
    int threads;  /* of each device, other than configured; 0: as configured */
} gp_search_way;

typedef struct gp_search_ways {
    gp_search_way *items;
    size_t count, capacity;
} gp_search_ways;

typedef struct gp_search_ways_request {
    const gp_pipeline_config *pipeline;
    bool replicas;  /* other numbers of them too */
    int few;        /* > 0: also the first few devices alone */
    int processors; /* for all threads; 0: numbers of threads stay as configured */
    int most;       /* stages */
} gp_search_ways_request;

/* As configured; if `replicas`, and for devices of one kind, also with every number of replicas r that divides them:
 * the first r devices are the replicas of the first entry. `few`: the same again for these devices. Then for CPU
 * devices that are all alike, every other division of their threads (of the few, if there are such; no more than
 * processors) and of their memory into equal stages.
 * The caller calls gp_search_ways_fini, also on failure. */
GP_MUST_USE gp_status gp_search_ways_list(const gp_search_ways_request *request, gp_search_ways *out, gp_error *err);
void gp_search_ways_fini(gp_search_ways *ways);
void gp_search_way_fini(gp_search_way *way); /* one of a list */

#endif
