/* Inside the room: torchvision's transforms of pictures, as functions of the picture and of counters.
 *
 * Pictures are F32 in the order of memory [height, width, channels], scaled already. Given the same random numbers each
 * transform is torchvision's (transforms.v2): rounding, order and corner cases included. Made by one thread, then
 * read-only: any number of threads may apply it at once, each in buffers of its own.
 */
#ifndef GP_DATA_TRANSFORM_H
#define GP_DATA_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/shape.h"
#include "base/status.h"
#include "data/dataset.h"

typedef struct gp_transforms gp_transforms;

/* What a list does to samples [C,h,w] of the source called `what`. Copies what it needs of the list. GP_CONFIG at the
 * entry's place where pictures are too small for a crop, or channels are not as many as its values. */
GP_MUST_USE gp_status gp_transforms_create(const gp_transform_config *list, int count, gp_shape input, const char *what,
                                           gp_transforms **out, gp_error *err);
void gp_transforms_destroy(gp_transforms **transforms);
gp_shape gp_transforms_output(const gp_transforms *transforms);
/* Elements of the largest picture on the way, first and last included: what each of two buffers must hold. */
size_t gp_transforms_elements(const gp_transforms *transforms);
/* Applies the list to the picture in `from`; returns the buffer, `from` or `to`, that holds the result. `sample` is the
 * place in the data file, so that a sample meets the same fate whatever `take` leaves. `blamed`: if not NULL, gets the
 * name of the first transform whose result is not finite, at which this ends. */
float *gp_transforms_apply(const gp_transforms *transforms, uint64_t seed, int64_t epoch, int64_t sample, float *from,
                           float *to, const char **blamed);

#endif
