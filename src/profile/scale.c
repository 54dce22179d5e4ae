#include "profile/scale.h"

#include <stdlib.h>

#include "base/memory.h"
#include "profile/cost.h"

static void scale_rows(gp_profile *profile, const int64_t *before, const int64_t *after, double proportion) {
    for (int d = 0; d < profile->device_count; d++)
        for (int i = 0; i < profile->layer_count; i++) {
            double factor = before[i] > 0 ? (double)after[i] / (double)before[i] : proportion;
            for (int t = 0; t < GP_PROFILE_TIMES; t++)
                if (t != GP_PROFILE_TIME_UPDATE) profile->devices[d].layers[i].time[t] *= factor;
        }
}

gp_status gp_profile_scale(gp_profile *profile, const gp_graph *graph, int64_t samples, gp_error *err) {
    int64_t *before = NULL, *after = NULL, measured = profile->identity.samples;
    gp_cost_request request = gp_cost_assumed(graph, measured);
    gp_status status = GP_NEW(&before, graph->layer_count, err);
    if (status == GP_OK) status = GP_NEW(&after, graph->layer_count, err);
    if (status == GP_OK) status = gp_cost_by_time(&request, before, err);
    request.samples = samples;
    if (status == GP_OK) status = gp_cost_by_time(&request, after, err);
    if (status == GP_OK) {
        scale_rows(profile, before, after, (double)samples / (double)measured);
        profile->scaled = measured;
        profile->identity.samples = samples;
    }
    free(before);
    free(after);
    return status;
}
