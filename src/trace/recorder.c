#include "trace/recorder.h"

#include <stdlib.h>

#include "base/memory.h"

gp_status gp_recorder_create(int lanes, gp_recorder **out, gp_error *err) {
    gp_recorder *recorder = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&recorder, 1, err));
    gp_status status = GP_NEW(&recorder->lanes, lanes, err);
    if (status != GP_OK) {
        free(recorder);
        return status;
    }
    recorder->lane_count = lanes;
    *out = recorder;
    return GP_OK;
}

gp_status gp_recorder_add_ticks(gp_recorder *recorder, gp_error *err) {
    return GP_NEW(&recorder->ticks, recorder->lane_count, err);
}

void gp_recorder_destroy(gp_recorder **recorder) {
    gp_recorder *it = *recorder;
    if (!it) return;
    for (int i = 0; i < it->lane_count; i++) free(it->lanes[i].spans);
    for (int i = 0; it->ticks && i < it->lane_count; i++) free(it->ticks[i].times);
    free(it->lanes);
    free(it->ticks);
    free(it);
    *recorder = NULL;
}

gp_status gp_lane_reserve(gp_lane *lane, size_t more, gp_error *err) {
    return GP_GROW(&lane->spans, &lane->capacity, lane->count + more, err);
}

gp_status gp_ticks_reserve(gp_ticks *ticks, size_t more, gp_error *err) {
    return GP_GROW(&ticks->times, &ticks->capacity, ticks->count + more, err);
}

size_t gp_lane_bytes(size_t spans) {
    return gp_grown_bytes(spans, sizeof(gp_span));
}

size_t gp_ticks_bytes(size_t ticks) {
    return gp_grown_bytes(ticks, sizeof(uint64_t));
}
