#include "schedule/channels.h"

#include <stdlib.h>

#include "base/memory.h"

/* An edge with the workers at its ends, to be sorted by them. */
typedef struct ends {
    int from, to, edge;
} ends;

static int compare_ends(const void *left, const void *right) {
    const ends *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return (a->edge > b->edge) - (a->edge < b->edge);
}

gp_status gp_channels_init(gp_channels *channels, const gp_stages *stages, const gp_programs *programs, gp_error *err) {
    ends *sorted = NULL;
    int channel = -1;
    GP_RETURN_IF_FAILED(GP_NEW(&channels->of_edge, stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&channels->free_at, stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&sorted, stages->edge_count, err));
    for (size_t e = 0; e < stages->edge_count; e++)
        sorted[e] = (ends){programs->worker_of_stage[stages->edges[e].from],
                           programs->worker_of_stage[stages->edges[e].to], (int)e};
    qsort(sorted, stages->edge_count, sizeof *sorted, compare_ends);
    for (size_t e = 0; e < stages->edge_count; e++) {
        if (e == 0 || sorted[e].from != sorted[e - 1].from || sorted[e].to != sorted[e - 1].to) channel++;
        channels->of_edge[sorted[e].edge] = channel;
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
