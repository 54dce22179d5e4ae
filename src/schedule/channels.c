#include "schedule/channels.h"

#include <math.h>
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
    free(channels->heap);
    *channels = (gp_channels){0};
}

static bool is_before(const gp_transfer *a, const gp_transfer *b) {
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

gp_status gp_channels_ask(gp_channels *channels, gp_transfer transfer, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&channels->heap, &channels->capacity, channels->count + 1, err));
    transfer.order = channels->asked++;
    size_t at = channels->count++;
    for (; at > 0 && is_before(&transfer, &channels->heap[(at - 1) / 2]); at = (at - 1) / 2)
        channels->heap[at] = channels->heap[(at - 1) / 2];
    channels->heap[at] = transfer;
    return GP_OK;
}

static void take_top(gp_channels *channels) {
    gp_transfer last = channels->heap[--channels->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < channels->count; at = child) {
        if (child + 1 < channels->count && is_before(&channels->heap[child + 1], &channels->heap[child])) child++;
        if (!is_before(&channels->heap[child], &last)) break;
        channels->heap[at] = channels->heap[child];
    }
    channels->heap[at] = last;
}

double gp_channels_peek(const gp_channels *channels) {
    return channels->count ? channels->heap[0].time : INFINITY;
}

bool gp_channels_next(gp_channels *channels, gp_transfer *out, double *start) {
    if (channels->count == 0) return false;
    *out = channels->heap[0];
    take_top(channels);
    double *free_at = &channels->free_at[channels->of_edge[out->edge]];
    *start = *free_at > out->time ? *free_at : out->time;
    *free_at = *start + out->seconds;
    return true;
}
