/* Inside the room: torchvision's transforms of pictures, as functions of the picture and of counters.
 *
 * Pictures are F32 in the order of memory [height, width, channels], scaled already. Given the same random numbers each
 * transform is torchvision's (transforms.v2): rounding, order and corner cases included. Targets with the picture's
 * height and width move with it, as torchvision's masks do: by the same counters, so that a process that reads only the
 * target moves it as another process moves the picture. Made by one thread, then read-only: any number of threads may
 * apply it at once, each in buffers of its own.
 */
#ifndef GP_DATA_TRANSFORM_H
#define GP_DATA_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/shape.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/source.h"

typedef struct gp_transforms gp_transforms;

/* What a list does to the samples of a source. Copies what it needs of the list. Classes that a crop pads become
 * `ignore`. GP_CONFIG at the entry's place if pictures are too small for a crop, or channels are not as many as its
 * values. */
GP_MUST_USE gp_status gp_transforms_create(const gp_transform_config *list, int count, const gp_source *source,
                                           int64_t ignore, gp_transforms **out, gp_error *err);
void gp_transforms_destroy(gp_transforms **transforms);
/* GP_CONFIG at the entry's place if an entry of the list moves pictures, and the source's targets neither move with
 * them nor are one class or one row of numbers for each sample; or if it pads them, and the targets are numbers. */
GP_MUST_USE gp_status gp_transforms_check_target(const gp_transforms *transforms, const gp_transform_config *list,
                                                 const gp_source *source, gp_error *err);
gp_shape gp_transforms_output(const gp_transforms *transforms);
/* Of one sample's targets after the transforms. */
gp_shape gp_transforms_target(const gp_transforms *transforms);
/* Whether targets move with the picture, and whether some may be padded. */
bool gp_transforms_moves_target(const gp_transforms *transforms);
bool gp_transforms_pads_target(const gp_transforms *transforms);
/* Bytes of the largest picture or target on the way, first and last included: what each of two buffers must hold. */
size_t gp_transforms_bytes(const gp_transforms *transforms);
/* Applies the list to the picture in `from`; returns the buffer, `from` or `to`, that holds the result. `sample` is the
 * place in the data file, so that a sample meets the same fate whatever `take` leaves. `blamed`: if not NULL, gets the
 * name of the first transform whose result is not finite, at which this ends. */
float *gp_transforms_apply(const gp_transforms *transforms, uint64_t seed, int64_t epoch, int64_t sample, float *from,
                           float *to, const char **blamed);
/* The same for a sample's targets, which move: GP_I64, or GP_F32 in the order of memory. */
void *gp_transforms_move_target(const gp_transforms *transforms, uint64_t seed, int64_t epoch, int64_t sample,
                                void *from, void *to);

#endif
