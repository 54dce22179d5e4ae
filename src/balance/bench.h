/* Inside the room: one device on which a model's ops are timed, each in its place.
 *
 * The bench has a plan of its own: the whole model on this device, in one stage, or, where that does not fit, in as few
 * as fit one after another. A round runs the routines of such a plan as a worker would, op after op, in the same order
 * and at the same addresses, so that what an op finds in the caches is what it finds in training. The creator owns it;
 * one thread. */
#ifndef GP_BALANCE_BENCH_H
#define GP_BALANCE_BENCH_H

#include "balance/samples.h"
#include "pipeline/bound.h"

typedef struct gp_bench_request {
    const gp_graph *graph;
    gp_device_spec spec;
    gp_update update;
    double clip_norm;
    gp_dtype real;
    int64_t samples;         /* of the micro-batch */
    size_t memory;           /* bytes that an arena may have; 0: as many as the device gives */
    uint64_t (*clock)(void); /* nanoseconds */
} gp_bench_request;

typedef struct gp_bench {
    gp_bench_request request;
    gp_plan *plan;
    gp_device *device;
    gp_stream *stream;
    gp_bindings bindings;
    unsigned char *arena;
    size_t arena_bytes;
    int loaded; /* the stage whose parameters lie in the arena; −1: none */
    gp_event **events;
    size_t event_count;
    double *times; /* [op of a routine] seconds of the run at hand; negative: not run */
    size_t time_count;
    gp_samples samples;
    double total;   /* of the ops of the round at hand */
    double *totals; /* [round] of those that left nothing out */
    size_t total_count, total_capacity;
} gp_bench;

/* GP_CONFIG for what a layer refuses, GP_MEMORY where not even single layers fit. */
GP_MUST_USE gp_status gp_bench_open(const gp_bench_request *request, gp_bench *out, gp_error *err);
void gp_bench_close(gp_bench *bench);

/* Asked meanwhile; both may only ever turn from false to true. */
typedef struct gp_bench_pace {
    bool (*late)(const void *context); /* of a cold round only ops are left that were never timed */
    bool (*over)(const void *context); /* nothing is left of the round */
    const void *context;
} gp_bench_pace;

/* Every routine of every stage once. `cold`: the first time. */
GP_MUST_USE gp_status gp_bench_round(gp_bench *bench, bool cold, const gp_bench_pace *pace, gp_error *err);
/* How many times as long rounds took as the medians of their ops add up to; medians of both. 1 where no round left
 * nothing out. */
GP_MUST_USE gp_status gp_bench_slowdown(const gp_bench *bench, double *out, gp_error *err);
/* Half the width of all ops' intervals by the sum of their medians. */
GP_MUST_USE gp_status gp_bench_width(const gp_bench *bench, double *out, gp_error *err);

/* Shares of an average micro-batch. */
typedef struct gp_bench_mix {
    double keeps; /* forwards that keep what backward needs */
    double first; /* backwards that overwrite gradients; the others add */
} gp_bench_mix;
/* Times of all layers. */
GP_MUST_USE gp_status gp_bench_layers(const gp_bench *bench, gp_bench_mix mix, gp_layer_times *out, gp_error *err);

#endif
