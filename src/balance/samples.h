/* Inside the room: what was measured of ops, and the medians that follow.
 *
 * An op stands for every op of the same descriptor in the same pass: 370 layers of a ResNet-101 have a few dozen. The
 * creator owns the table; one thread. */
#ifndef GP_BALANCE_SAMPLES_H
#define GP_BALANCE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

#include "balance/profile.h"
#include "device/op.h"

/* Where an op is: the same one takes another time where what it reads was made just before. */
typedef enum gp_sampled_pass {
    GP_SAMPLED_KEEP,
    GP_SAMPLED_DISCARD,
    GP_SAMPLED_RECOMPUTE,
    GP_SAMPLED_BACKWARD,
    GP_SAMPLED_UPDATE,
    GP_SAMPLED_PASSES
} gp_sampled_pass;

typedef struct gp_op_samples {
    const gp_prepared *prepared;
    gp_sampled_pass pass;
    double *seconds;
    size_t count, capacity;
    size_t cold; /* of them, the first: of the first round, which are left out once there are others */
} gp_op_samples;

typedef struct gp_samples {
    gp_op_samples *ops; /* sorted once all are there */
    size_t count, capacity;
} gp_samples;

void gp_samples_fini(gp_samples *samples);
GP_MUST_USE gp_status gp_samples_expect(gp_samples *samples, const gp_prepared *prepared, gp_sampled_pass pass,
                                        gp_error *err);
/* After the last gp_samples_expect. */
void gp_samples_sort(gp_samples *samples);
/* NULL: not expected. */
gp_op_samples *gp_samples_find(const gp_samples *samples, const gp_prepared *prepared, gp_sampled_pass pass);
GP_MUST_USE gp_status gp_samples_add(gp_op_samples *op, double seconds, bool cold, gp_error *err);

/* The median and its 95 % interval by order statistics: ranks n/2 ± 0.98·√n (binomial, as a normal distribution); the
 * extremes where there are few. `values` are sorted. count ≥ 1. */
gp_estimate gp_median(double *values, size_t count);
GP_MUST_USE gp_status gp_samples_estimate(const gp_op_samples *op, gp_estimate *out, gp_error *err);

#endif
