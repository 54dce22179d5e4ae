#include "pipeline/spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct gp_spans {
    gp_span *items; /* [pc] of the step */
    size_t count, capacity;
    /* Where the device tells the time. */
    gp_event *origin; /* happened at `at` by the host's clock */
    uint64_t at;
    gp_event **events; /* [2·pc] before an instruction, [2·pc + 1] behind it */
    size_t event_count, event_capacity;
};

static gp_status create_event(gp_worker *worker, gp_event **out, gp_error *err) {
    return gp_worker_kind(worker)->event_create(worker->device, true, out, err);
}

static gp_status make_events(gp_worker *worker, const gp_program *program, gp_error *err) {
    gp_spans *spans = worker->spans;
    if (!spans->origin) GP_RETURN_IF_FAILED(create_event(worker, &spans->origin, err));
    GP_RETURN_IF_FAILED(GP_GROW(&spans->events, &spans->event_capacity, 2 * program->count, err));
    for (; spans->event_count < 2 * program->count; spans->event_count++)
        GP_RETURN_IF_FAILED(create_event(worker, &spans->events[spans->event_count], err));
    return GP_OK;
}

/* Links the device's time to the host's. */
static gp_status set_origin(gp_worker *worker, gp_error *err) {
    gp_stream *queue = worker->queue[GP_QUEUE_COMPUTE];
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_record(worker->spans->origin, queue, err));
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->stream_finish(queue, &worker->run->cancel, err));
    worker->spans->at = gp_clock();
    return GP_OK;
}

gp_status gp_spans_begin(gp_worker *worker, const gp_program *program, gp_error *err) {
    if (!worker->run->recorder) return GP_OK;
    if (!worker->spans) GP_RETURN_IF_FAILED(GP_NEW(&worker->spans, 1, err));
    GP_RETURN_IF_FAILED(GP_GROW(&worker->spans->items, &worker->spans->capacity, program->count, err));
    worker->spans->count = program->count;
    memset(worker->spans->items, 0, program->count * sizeof(gp_span));
    if (!gp_worker_kind(worker)->event_elapsed) return GP_OK;
    GP_RETURN_IF_FAILED(make_events(worker, program, err));
    return set_origin(worker, err);
}

void gp_spans_come_to(gp_worker *worker, const gp_site *site) {
    if (!worker->run->recorder) return;
    gp_span *span = &worker->spans->items[site->pc];
    *span = (gp_span){.issued = gp_clock(),
                      .early = span->early,
                      .step = (uint32_t)site->step,
                      .group = site->mini,
                      .index = site->pc};
}

void gp_spans_post_early(gp_worker *worker, size_t pc) {
    if (worker->run->recorder && !gp_worker_kind(worker)->event_elapsed) worker->spans->items[pc].early = gp_clock();
}

/* Behind what stands in the instruction's queue. */
static gp_status stamp(gp_worker *worker, const gp_site *site, size_t event, gp_error *err) {
    gp_stream *queue = worker->queue[gp_instr_queue(worker->run->plan->stages, site->instr)];
    return gp_worker_kind(worker)->event_record(worker->spans->events[event], queue, err);
}

gp_status gp_spans_start(gp_worker *worker, const gp_site *site, gp_error *err) {
    if (!worker->run->recorder) return GP_OK;
    if (gp_worker_kind(worker)->event_elapsed) return stamp(worker, site, 2 * site->pc, err);
    worker->spans->items[site->pc].started = gp_clock();
    return GP_OK;
}

gp_status gp_spans_end(gp_worker *worker, const gp_site *site, gp_error *err) {
    if (!worker->run->recorder) return GP_OK;
    if (gp_worker_kind(worker)->event_elapsed) return stamp(worker, site, 2 * site->pc + 1, err);
    worker->spans->items[site->pc].ended = gp_clock();
    gp_lane_add(&worker->run->recorder->lanes[worker->index], worker->spans->items[site->pc]);
    return GP_OK;
}

gp_ticks *gp_spans_ticks(const gp_worker *worker) {
    const gp_recorder *recorder = worker->run->recorder;
    if (!recorder || !recorder->ticks || gp_worker_kind(worker)->event_elapsed) return NULL;
    return &recorder->ticks[worker->index];
}

bool gp_spans_marks(const gp_worker *worker) {
    const gp_recorder *recorder = worker->run->recorder;
    return worker->named && recorder && recorder->ticks;
}

static gp_status time_of(gp_worker *worker, size_t event, uint64_t *out, gp_error *err) {
    const gp_spans *spans = worker->spans;
    double nanoseconds;
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_elapsed(spans->origin, spans->events[event], &nanoseconds, err));
    *out = spans->at + (nanoseconds > 0 ? (uint64_t)nanoseconds : 0);
    return GP_OK;
}

gp_status gp_spans_collect(gp_worker *worker, gp_error *err) {
    if (!worker->run->recorder || !gp_worker_kind(worker)->event_elapsed) return GP_OK;
    for (size_t pc = 0; pc < worker->spans->count; pc++) {
        gp_span *span = &worker->spans->items[pc];
        GP_RETURN_IF_FAILED(time_of(worker, 2 * pc, &span->started, err));
        GP_RETURN_IF_FAILED(time_of(worker, 2 * pc + 1, &span->ended, err));
        gp_lane_add(&worker->run->recorder->lanes[worker->index], *span);
    }
    return GP_OK;
}

void gp_spans_destroy(gp_worker *worker) {
    gp_spans *spans = worker->spans;
    if (!spans) return;
    for (size_t i = 0; i < spans->event_count; i++) gp_worker_kind(worker)->event_destroy(spans->events[i]);
    if (spans->origin) gp_worker_kind(worker)->event_destroy(spans->origin);
    free(spans->events);
    free(spans->items);
    free(spans);
    worker->spans = NULL;
}
