/* What a run takes of the host's memory beside its workers' arenas. */
#include "base/memory.h"
#include "pipeline/channel.h"

enum { EVENT = 32 }; /* bytes of an event, as malloc gives them */

int gp_run_marks(const gp_plan *plan, int worker) {
    int most = 0;
    for (int m = 0; m < plan->mini_count; m++) {
        const gp_program_queues *queues = plan->minis[m].queues;
        if (queues && queues->worker[worker].marks > most) most = queues->worker[worker].marks;
    }
    return most;
}

size_t gp_run_largest_param(const gp_plan *plan) {
    size_t most = 0;
    for (int s = 0; s < plan->stages->count; s++)
        for (int p = 0; p < plan->stage[s].param_count; p++)
            if (plan->stage[s].params[p].bytes > most) most = plan->stage[s].params[p].bytes;
    return most;
}

gp_status gp_run_bytes(const gp_plan *plan, size_t *out, gp_error *err) {
    size_t channels;
    GP_RETURN_IF_FAILED(gp_channels_bytes(plan, &channels, err));
    size_t bytes = sizeof(gp_run) + (size_t)plan->workers * sizeof(gp_worker);
    for (int w = 0; w < plan->workers; w++) bytes += (size_t)gp_run_marks(plan, w) * (sizeof(gp_event *) + EVENT);
    *out = gp_size_plus(bytes, channels);
    return GP_OK;
}
