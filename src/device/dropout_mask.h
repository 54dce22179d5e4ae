/* The mask of dropout, as a function of counters: shared by the device kinds, so that all of them drop the same
 * elements. Pure functions; any thread.
 *
 * Elements count in the channels-first order of the sample ([C,h,w], [t,w], [w]), whatever their order in memory; where
 * whole channels are dropped, the channels of a picture count instead. The place of a sample is that in the whole
 * mini-batch. Four neighbours share one draw.
 */
#ifndef GP_DEVICE_DROPOUT_MASK_H
#define GP_DEVICE_DROPOUT_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"
#include "device/op.h"

static inline gp_philox gp_dropout_counter(const gp_dropout_attributes *dropout, const gp_step_scalars *scalars,
                                           int64_t place, int64_t group) {
    return (gp_philox){{(uint32_t)group, (uint32_t)place, dropout->node << 8 | dropout->purpose, scalars->step}};
}

/* The words of elements (or channels) 4·group to 4·group+3 of the sample at `place`. */
static inline gp_philox gp_dropout_draw(const gp_dropout_attributes *dropout, const gp_step_scalars *scalars,
                                        int64_t place, int64_t group) {
    return gp_philox_draw(scalars->seed, gp_dropout_counter(dropout, scalars, place, group));
}

static inline bool gp_dropout_keeps(const gp_dropout_attributes *dropout, uint32_t word) {
    return gp_philox_uniform(word) >= dropout->p;
}

/* gp_dropout_keeps(word) as word >> 8 >= this. */
static inline uint32_t gp_dropout_least(const gp_dropout_attributes *dropout) {
    double bound = dropout->p * 0x1p24;
    uint32_t below = (uint32_t)bound;
    return below + ((double)below < bound);
}

/* What kept elements are multiplied by; devices that compute in f32 round it first. */
static inline double gp_dropout_scale(const gp_dropout_attributes *dropout) {
    return 1 / (1 - dropout->p);
}

#endif
