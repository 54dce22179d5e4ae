#include "schedule/channels.h"

#include <stdlib.h>

#include "base/memory.h"

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
