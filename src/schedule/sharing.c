#include "schedule/sharing.h"

#include <math.h>

static double speed(const gp_sharing *sharing) {
    return sharing->threads > sharing->processors ? (double)sharing->processors / sharing->threads : 1;
}

double gp_sharing_first_end(const gp_sharing *sharing) {
    if (sharing->jobs.count == 0) return INFINITY;
    double left = sharing->jobs.items[0].time - sharing->progress;
    return left > 0 ? sharing->now + left / speed(sharing) : sharing->now;
}

gp_status gp_sharing_begin(gp_sharing *sharing, double time, double seconds, int threads, int who, gp_error *err) {
    if (sharing->jobs.count > 0 && time > sharing->now) sharing->progress += (time - sharing->now) * speed(sharing);
    if (time > sharing->now) sharing->now = time;
    sharing->threads += threads;
    gp_heap_item job = {.time = sharing->progress + seconds, .rank = (uint64_t)who, .what = (uint32_t)threads};
    return gp_heap_push(&sharing->jobs, job, err);
}

int gp_sharing_end(gp_sharing *sharing) {
    sharing->now = gp_sharing_first_end(sharing);
    gp_heap_item job = gp_heap_pop(&sharing->jobs);
    sharing->progress = job.time;
    sharing->threads -= (int)job.what;
    return (int)job.rank;
}
