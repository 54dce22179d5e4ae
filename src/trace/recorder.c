#include "trace/recorder.h"

#include <stdlib.h>
#include <time.h>

#include "base/memory.h"

uint64_t gp_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

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

void gp_recorder_destroy(gp_recorder **recorder) {
    gp_recorder *it = *recorder;
    if (!it) return;
    for (int i = 0; i < it->lane_count; i++) free(it->lanes[i].spans);
    free(it->lanes);
    free(it);
    *recorder = NULL;
}

gp_status gp_lane_reserve(gp_lane *lane, size_t more, gp_error *err) {
    return GP_GROW(&lane->spans, &lane->capacity, lane->count + more, err);
}

/* As gp_grow_array grows. */
size_t gp_lane_bytes(size_t spans) {
    size_t capacity = 8, bytes;
    if (spans == 0) return 0;
    while (capacity < spans && capacity <= SIZE_MAX / 2) capacity *= 2;
    return capacity >= spans && gp_size_mul(capacity, sizeof(gp_span), &bytes) ? bytes : SIZE_MAX;
}
