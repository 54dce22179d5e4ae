/* A sample as `places` rows of `width` elements, and where they stand in PyTorch's order: a picture's channels come
 * first there, everything else lies as it does here. Pure functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_SAMPLE_H
#define GP_DEVICE_CPU_LOOPS_SAMPLE_H

#include <stdbool.h>

#include "device/rows.h"

typedef struct sample_view {
    int64_t places, width, pitch;
    bool channels_last;
} sample_view;

static inline sample_view sample_of(const gp_tensor *tensor) {
    gp_rows rows = gp_rows_of(tensor);
    return (sample_view){rows.count / tensor->dim[0], rows.width, rows.pitch, tensor->rank == 4};
}

#endif
