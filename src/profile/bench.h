/* Inside the room: one device on which the ops of a model are timed, each in its place.
 *
 * The bench has a plan of its own: the whole model in one stage, or in as few stages as fit one after another. A round
 * runs the routines of that plan as a worker would: op after op, in the same order, at the same addresses. So an op
 * finds in the caches what it finds in training. The creator owns the bench; one thread. */
#ifndef GP_PROFILE_BENCH_H
#define GP_PROFILE_BENCH_H

#include "plan/bound.h"
#include "profile/measure.h"

typedef enum gp_bench_pass {
    GP_BENCH_KEEP,
    GP_BENCH_DISCARD,
    GP_BENCH_RECOMPUTE,
    GP_BENCH_BACKWARD_FIRST, /* overwrites gradients */
    GP_BENCH_BACKWARD_REST,  /* adds to them */
    GP_BENCH_UPDATE
} gp_bench_pass;

/* An op of a round. */
typedef struct gp_bench_op {
    const gp_exec_op *op;
    int stage;
    gp_bench_pass pass;
    int launch; /* ops from here on that the device does in one launch; 0: an earlier op launches this one */
    size_t
        like; /* the first op of the round with the same descriptor in the same pass: their times count as one op's */
} gp_bench_op;

typedef struct gp_bench {
    const gp_measure_request *request; /* with a clock; borrowed */
    gp_device_spec spec;
    gp_plan *plan;
    gp_device *device;
    gp_stream *stream;
    gp_bindings bindings;
    unsigned char *arena;
    size_t arena_bytes;
    int loaded;       /* the stage whose parameters are in the arena; −1: none */
    gp_bench_op *ops; /* in the order of a round */
    size_t op_count, op_capacity;
    gp_event **events; /* [op_count + 1]; NULL: the clock tells the time */
    double *seconds;   /* [round][op] */
    size_t capacity;
    size_t rounds; /* that were completed */
} gp_bench;

/* GP_CONFIG if a layer refuses, GP_UNSUPPORTED if the memory does not hold a single layer. */
GP_MUST_USE gp_status gp_bench_open(const gp_measure_request *request, const gp_device_spec *spec, gp_bench *out,
                                    gp_error *err);
void gp_bench_close(gp_bench *bench);

/* Asked before each op; once it returns true, the round ends and does not count. */
typedef bool (*gp_bench_stop)(void *context);
/* Every routine of every stage once. */
GP_MUST_USE gp_status gp_bench_round(gp_bench *bench, gp_bench_stop stop, void *context, gp_error *err);

/* The first round is cold: it counts only if there is no other. A ResNet-101 has 370 layers, but only dozens of ops
 * that differ, so one round times each of them many times. */
typedef struct gp_bench_medians {
    double *op;      /* [op] seconds; the caller frees it */
    double width;    /* half of the 95 % intervals of all medians together, by the sum of the medians */
    double slowdown; /* how many times as long a whole round takes as the medians of its ops add up to */
    /* Whether an op's own samples disagree, or the forward pass of a layer with weights takes more than twice its
     * backward pass, which makes two products for each one of it: more rounds may tell another time. */
    bool outlier;
} gp_bench_medians;
/* After at least one round. */
GP_MUST_USE gp_status gp_bench_find_medians(const gp_bench *bench, gp_bench_medians *out, gp_error *err);

/* Adds the medians of the ops to the times of their layers. */
void gp_bench_add_layers(const gp_bench *bench, const double *medians, gp_measure_mix mix, gp_layer_times *layers);

/* Binds an op to its addresses in the arena. */
void gp_bench_bind(const gp_bench *bench, int stage, const gp_exec_op *op, gp_device_op *out);
/* Fills the arena as in training: parameters, what enters the stage, gradients that arrive. */
GP_MUST_USE gp_status gp_bench_load(gp_bench *bench, int stage, gp_error *err);

/* How long copies take, by their size: between the benches' devices, each pair of kinds once, and from the host into
 * each. Appended to the profile. Writes over the arenas, so after the last round. */
GP_MUST_USE gp_status gp_measure_copies(gp_bench *benches, int count, gp_profile *profile, gp_error *err);
/* Latency and seconds per byte that fit the times of copies of these sizes best, relative errors squared; neither is
 * negative. count ≥ 1; of one size, all is latency. */
void gp_fit_copies(const double *bytes, const double *seconds, int count, double *latency, double *per_byte);

#endif
