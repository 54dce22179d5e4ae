/* Sources of samples: idx, tensors and generated ones, with one interface.
 *
 * A dataset is opened and checked when training starts (sizes, magic numbers, that inputs and targets agree, that
 * classes are in range), as far as that costs no long pass over the data; what is found later is reported when it is
 * read, with file, offset or sample. Samples are random access. Opened and closed by one thread; in between any number
 * of threads may read at once.
 */
#ifndef GP_DATA_DATASET_H
#define GP_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "data/options.h"

typedef struct gp_dataset gp_dataset;

/* What a sample is, as the model wants it. */
typedef struct gp_sample_spec {
    gp_shape input;        /* [C,h,w], [w] …; idx gives [1,rows,columns], or [rows,columns], or [rows·columns] */
    gp_dtype input_dtype;  /* GP_F32 (or GP_F64, converted) */
    gp_shape target;       /* [] for one class */
    gp_dtype target_dtype; /* GP_I64: classes; GP_F32: numbers, pictures in the order of memory as inputs are */
    int64_t classes;       /* classes are 0 … classes−1, or ignore */
    int64_t ignore;        /* class that does not count (−100) */
    bool target_optional;  /* a source without targets will do */
} gp_sample_spec;

/* Which sample, and all that its reading depends on. */
typedef struct gp_sample_key {
    int64_t index; /* 0 … gp_dataset_count − 1 */
    int64_t epoch; /* from 1 */
    uint64_t seed;
} gp_sample_key;

/* GP_DATA for files, GP_IO where the system refuses them; GP_CONFIG with the source's place for what the configuration
 * says of them (take out of range; an input of another shape than the file's). */
GP_MUST_USE gp_status gp_dataset_open(const gp_source_config *source, const gp_sample_spec *spec, gp_dataset **out,
                                      gp_error *err);
void gp_dataset_close(gp_dataset **dataset);
int64_t gp_dataset_count(const gp_dataset *dataset); /* ≥ 1 */
/* Bytes of scratch that a call of gp_dataset_read works in: each thread brings its own, aligned as malloc does. */
size_t gp_dataset_scratch(const gp_dataset *dataset);

/* Bytes of the host's memory that an open dataset holds beside samples: inflated files, tables. */
size_t gp_dataset_held(const gp_dataset *dataset);

/* Whether inputs are bytes, which are scaled to 0 … 1 before mean, std and the transforms. */
bool gp_dataset_has_bytes(const gp_dataset *dataset);

/* The targets of a sample that count, if all samples have the same number of them; −1: that is known of each sample
 * when it is read. */
int64_t gp_dataset_counts(const gp_dataset *dataset);

/* One sample into `input` (in the order of memory that devices use: pictures [h,w,c]) and `target`; NULL: that part is
 * not read, and the other is as if it were. *counts gets the number of targets read that count. If the source has no
 * targets, they are `ignore`, or 0 if they are F32, and none counts. Any thread. */
GP_MUST_USE gp_status gp_dataset_read(const gp_dataset *dataset, gp_sample_key key, void *scratch, void *input,
                                      void *target, int64_t *counts, gp_error *err);

/* Why a sample's input or target, read for `key`, is not finite: "sample 17 of FILE: x[17, 0, 2] is nan, at byte 4428".
 * Samples count from 0, as the file has them. "" if it is finite. Reads the sample again. Any thread. */
enum { GP_FLAW_TEXT = 640 };
GP_MUST_USE gp_status gp_dataset_explain(const gp_dataset *dataset, gp_sample_key key, bool target,
                                         char out[GP_FLAW_TEXT], gp_error *err);

#endif
