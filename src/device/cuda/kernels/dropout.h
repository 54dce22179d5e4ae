/* Arguments of the kernels that drop elements. Plain data; addresses are the device's, and one thread of the device
 * does four elements, most often those of one draw. */
#ifndef GP_DEVICE_CUDA_KERNELS_DROPOUT_H
#define GP_DEVICE_CUDA_KERNELS_DROPOUT_H

#include <stdint.h>

/* Of gp_dropout_attributes and the step's scalars; see dropout_mask.h for the counters. */
typedef struct gp_kernel_dropout_args {
    float *y;
    const float *x;
    const uint64_t *seed;
    const uint32_t *step;
    int64_t count, places, width; /* samples of `places` rows of `width` elements */
    int64_t y_pitch, x_pitch;
    int64_t first_sample;
    uint32_t threshold; /* the upper 24 bits of a word that is below it drop the element */
    uint32_t node_and_purpose;
    float scale;
    int32_t by_four; /* four neighbours in memory lie in one row, at multiples of 16 bytes; else 0 */
} gp_kernel_dropout_args;

/* Elements count in the order of memory; in that of channels, of pictures; whole channels are dropped. */
#define GP_CUDA_DROPOUT_KERNELS(X)                                                                                     \
    GP_CUDA_BOTH(X, dropout_rows, gp_kernel_dropout_args)                                                              \
    GP_CUDA_BOTH(X, dropout_pictures, gp_kernel_dropout_args)                                                          \
    GP_CUDA_BOTH(X, dropout_channels, gp_kernel_dropout_args)

#endif
