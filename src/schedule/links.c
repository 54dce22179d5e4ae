#include "schedule/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const char *gp_link_kind_text(gp_link_kind kind) {
    static const char *const texts[] = {"inside a process", "between processes of a host", "between hosts"};
    return texts[kind];
}

const char *gp_link_kind_name(gp_link_kind kind) {
    static const char *const names[] = {"process", "host", "network"};
    return names[kind];
}

gp_status gp_links_create(int workers, gp_links **out, gp_error *err) {
    gp_links *links = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&links, 1, err));
    *links = (gp_links){.workers = workers, .processes = 1, .hosts = 1};
    gp_status status = GP_NEW(&links->process, workers, err);
    if (status == GP_OK) status = GP_NEW(&links->host, workers, err);
    if (status == GP_OK)
        *out = links;
    else
        gp_links_destroy(&links);
    return status;
}

gp_status gp_links_copy(const gp_links *links, gp_links **out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_links_create(links->workers, out, err));
    int *process = (*out)->process, *host = (*out)->host;
    **out = *links;
    (*out)->process = process;
    (*out)->host = host;
    memcpy(process, links->process, (size_t)links->workers * sizeof *process);
    memcpy(host, links->host, (size_t)links->workers * sizeof *host);
    return GP_OK;
}

void gp_links_destroy(gp_links **links) {
    gp_links *it = *links;
    if (!it) return;
    free(it->process);
    free(it->host);
    free(it);
    *links = NULL;
}

gp_link_kind gp_links_kind(const gp_links *links, int from, int to) {
    if (links->host[from] != links->host[to]) return GP_LINK_NETWORK;
    return links->process[from] != links->process[to] ? GP_LINK_HOST : GP_LINK_PROCESS;
}

const gp_link *gp_links_between(const gp_links *links, int from, int to) {
    if (!links || from == to) return NULL;
    const gp_link *link = &links->of[gp_links_kind(links, from, to)];
    return link->given ? link : NULL;
}

bool gp_links_are_messages(const gp_links *links, int from, int to) {
    return gp_links_between(links, from, to) && gp_links_kind(links, from, to) != GP_LINK_PROCESS;
}

/* Hosts to the network, hosts from it, inside hosts, inside processes. */
int gp_links_lanes(const gp_links *links) {
    return 3 * links->hosts + links->processes;
}

void gp_links_find_lanes(const gp_links *links, int from, int to, int lane[2]) {
    const gp_link *link = gp_links_between(links, from, to);
    lane[0] = lane[1] = -1;
    if (!link || !link->shared) return;
    switch (gp_links_kind(links, from, to)) {
    case GP_LINK_NETWORK:
        lane[0] = links->host[from];
        lane[1] = links->hosts + links->host[to];
        break;
    case GP_LINK_HOST: lane[0] = 2 * links->hosts + links->host[from]; break;
    default: lane[0] = 3 * links->hosts + links->process[from]; break;
    }
}

const char *gp_links_lane_text(const gp_links *links, int lane, char buffer[GP_LANE_TEXT]) {
    static const char *const what[] = {"from host", "to host", "host"};
    int of = lane / links->hosts;
    if (of < 3)
        snprintf(buffer, GP_LANE_TEXT, "%s %d", what[of], lane % links->hosts);
    else
        snprintf(buffer, GP_LANE_TEXT, "process %d", lane - 3 * links->hosts);
    return buffer;
}

/* ---- without links ----------------------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the edges by the workers at their ends. */
gp_status gp_channels_init(gp_channels *channels, const gp_stages *stages, const gp_programs *programs, gp_error *err) {
    uint64_t *sorted = NULL; /* the workers above, the edge in the lower half */
    GP_RETURN_IF_FAILED(GP_NEW(&channels->of_edge, stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&channels->free_at, stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&sorted, stages->edge_count, err));
    for (size_t e = 0; e < stages->edge_count; e++) {
        int from = gp_programs_worker(programs, stages->edges[e].from),
            to = gp_programs_worker(programs, stages->edges[e].to);
        sorted[e] = (uint64_t)from << 48 | (uint64_t)to << 32 | e;
    }
    qsort(sorted, stages->edge_count, sizeof *sorted, compare);
    for (size_t e = 0, channel = 0; e < stages->edge_count; e++) {
        if (e > 0 && sorted[e] >> 32 != sorted[e - 1] >> 32) channel++;
        channels->of_edge[(uint32_t)sorted[e]] = (int)channel;
    }
    free(sorted);
    return GP_OK;
}

void gp_channels_fini(gp_channels *channels) {
    free(channels->of_edge);
    free(channels->free_at);
    *channels = (gp_channels){0};
}

double gp_channels_take(gp_channels *channels, uint32_t edge, double time, double seconds) {
    double *free_at = &channels->free_at[channels->of_edge[edge]];
    double start = *free_at > time ? *free_at : time;
    *free_at = start + seconds;
    return start;
}
