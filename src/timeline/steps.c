#include "timeline/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

enum { TEXT = 192 };

static bool is_step(const gp_traced_step *its, bool training, int64_t step) {
    return its->training == training && its->step == step;
}

gp_status gp_tracing_steps_add(gp_tracing_steps *steps, bool training, int64_t step, int64_t samples, gp_error *err) {
    if (steps->count == 0 || !is_step(&steps->items[steps->count - 1], training, step)) {
        GP_RETURN_IF_FAILED(GP_GROW(&steps->items, &steps->capacity, steps->count + 1, err));
        steps->items[steps->count++] = (gp_traced_step){.training = training, .step = step};
    }
    steps->items[steps->count - 1].mini_batches++;
    steps->items[steps->count - 1].samples += samples;
    return GP_OK;
}

void gp_tracing_steps_end(gp_tracing_steps *steps, bool training, int64_t step, int64_t epoch, double loss) {
    gp_traced_step *last = steps->count > 0 ? &steps->items[steps->count - 1] : NULL;
    if (!last || !is_step(last, training, step)) return;
    last->known = true;
    last->epoch = epoch;
    last->loss = loss;
}

void gp_tracing_steps_fini(gp_tracing_steps *steps) {
    free(steps->items);
    *steps = (gp_tracing_steps){0};
}

size_t gp_tracing_steps_bytes(size_t count) {
    return gp_grown_bytes(count, sizeof(gp_traced_step));
}

typedef struct range {
    uint64_t first, last;
} range;

/* Widens the steps' ranges by what one worker did. Its spans are in the order of the steps. */
static void add_lane(const gp_tracing_steps *steps, const gp_plan *plan, const gp_lane *lane, range *ranges) {
    size_t at = 0;
    for (size_t i = 0; i < lane->count; i++) {
        const gp_span *span = &lane->spans[i];
        bool training = plan->minis[span->group].training;
        while (at < steps->count && !is_step(&steps->items[at], training, span->step)) at++;
        if (at == steps->count) return;
        if (span->started < ranges[at].first) ranges[at].first = span->started;
        if (span->ended > ranges[at].last) ranges[at].last = span->ended;
    }
}

static void write_step(const gp_traced_step *its, const range *when, int track, gp_chrome *chrome) {
    char name[TEXT], args[TEXT];
    snprintf(name, sizeof name, "%s%" PRId64, its->training ? "step " : "evaluation after step ", its->step);
    int used = snprintf(args, sizeof args, "\"step\":%" PRId64 ",\"pass\":\"%s\",\"samples\":%" PRId64, its->step,
                        its->training ? "training" : "evaluation", its->samples);
    if (!its->training)
        used += snprintf(args + used, sizeof args - (size_t)used, ",\"mini_batches\":%" PRId64, its->mini_batches);
    if (its->known) used += snprintf(args + used, sizeof args - (size_t)used, ",\"epoch\":%" PRId64, its->epoch);
    if (its->known && isfinite(its->loss))
        snprintf(args + used, sizeof args - (size_t)used, ",\"loss\":%.9g", its->loss);
    else if (its->known)
        snprintf(args + used, sizeof args - (size_t)used, ",\"loss\":null");
    gp_chrome_span(chrome, track, "step", name, when->first, when->last, args);
}

gp_status gp_tracing_steps_write(const gp_tracing_steps *steps, const gp_plan *plan, const gp_recorder *recorder,
                                 int track, gp_chrome *chrome, gp_error *err) {
    range *ranges = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&ranges, steps->count, err));
    for (size_t i = 0; i < steps->count; i++) ranges[i].first = UINT64_MAX;
    for (int w = 0; w < plan->workers; w++) add_lane(steps, plan, &recorder->lanes[w], ranges);
    gp_chrome_name_track(chrome, track, 0, "pipeline: steps");
    for (size_t i = 0; i < steps->count; i++)
        if (ranges[i].last > 0) write_step(&steps->items[i], &ranges[i], track, chrome);
    free(ranges);
    return GP_OK;
}
