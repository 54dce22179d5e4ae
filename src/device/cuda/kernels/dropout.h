/* Arguments of the kernels that drop elements. Plain data; addresses are the device's, and one thread of the device
 * does four elements, most often those of one draw. */
#ifndef GP_DEVICE_CUDA_KERNELS_DROPOUT_H
#define GP_DEVICE_CUDA_KERNELS_DROPOUT_H

#include "device/cuda/kernels/rows.h"

/* Of gp_dropout_attributes and the step's scalars; see dropout_mask.h for the counters. dropout_rows: elements count
 * in the order of memory; dropout_pictures: in that of channels; dropout_channels: whole channels are dropped. */
typedef struct gp_kernel_dropout_args {
    gp_kernel_rows y, x;
    const uint64_t *seed;
    const uint32_t *step;
    int64_t count, places, width; /* samples of `places` rows of `width` elements */
    int64_t first_sample;
    uint32_t threshold; /* the upper 24 bits of a word that is below it drop the element */
    uint32_t node_and_purpose;
    float scale;
    int32_t by_four; /* four neighbours in memory lie in one row, at multiples of 16 bytes; else 0 */
} gp_kernel_dropout_args;

#endif
