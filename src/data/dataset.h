/* Sources of samples: idx and tensors, behind one interface.
 *
 * A dataset is opened and checked whole when training starts (sizes, magic numbers, that inputs and targets agree, that
 * labels are in range), as far as that costs no pass over the data that reading will make anyway; what is found later
 * is reported when it is read, with file and offset. Samples are random access. Opened by one thread; gp_dataset_read
 * may be called by one thread at a time.
 */
#ifndef GP_DATA_DATASET_H
#define GP_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "config/config.h"

typedef struct gp_dataset gp_dataset;

/* What a sample is, as the model wants it. */
typedef struct gp_sample_spec {
    gp_shape input;        /* [C,h,w], [w] …; idx gives [1,rows,columns], or [rows,columns], or [rows·columns] */
    gp_dtype input_dtype;  /* GP_F32 (or GP_F64, converted) */
    gp_shape target;       /* [] for one class */
    gp_dtype target_dtype; /* GP_I64: classes */
    int64_t classes;       /* classes are 0 … classes−1, or ignore */
    int64_t ignore;        /* target value that does not count (−100) */
} gp_sample_spec;

/* GP_DATA for files; GP_CONFIG with the source's place for what the configuration says of them (take out of range; an
 * input of another shape than the file's). */
GP_MUST_USE gp_status gp_dataset_open(const gp_source_config *source, const gp_sample_spec *spec, gp_dataset **out,
                                      gp_error *err);
void gp_dataset_close(gp_dataset **dataset);
int64_t gp_dataset_count(const gp_dataset *dataset); /* ≥ 1 */

/* Sample `index` into `input` (in the order of memory that devices use: pictures [h,w,c]) and `target`; *counts gets
 * the number of its targets that count. */
GP_MUST_USE gp_status gp_dataset_read(gp_dataset *dataset, int64_t index, void *input, void *target, int64_t *counts,
                                      gp_error *err);

#endif
