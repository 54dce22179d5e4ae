/* Inside the room: what a format of data files offers to dataset.c, which does what all have in common (take, shapes,
 * scaling, layout, the range of labels).
 *
 * A source delivers samples as the file has them. Its creator closes it. Opened and closed by one thread; in between
 * any number of threads may read at once.
 */
#ifndef GP_DATA_SOURCE_H
#define GP_DATA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "data/dataset.h"

typedef struct gp_source gp_source;

/* Where one element stands in the source's files. */
typedef struct gp_element_place {
    const char *path;   /* owned by the source */
    const char *tensor; /* "x"; NULL: the file has no names */
    uint64_t offset;    /* bytes from the beginning of the file */
    bool inflated;      /* `offset` counts inflated bytes */
    double value;       /* as the file has it */
} gp_element_place;

typedef struct gp_source_class {
    /* The elements of sample `index`, of the source's dtype, in the file's order. */
    gp_status (*input)(const gp_source *source, int64_t index, void *to, gp_error *err);
    /* The targets of samples [first, first+samples), each with as many as `target` has elements, of target_dtype and in
     * the file's order. Not called where has_target is false. */
    gp_status (*targets)(const gp_source *source, int64_t first, int64_t samples, void *to, gp_error *err);
    /* The place of one element of sample `index`, counted in the file's order, of its input or its target. NULL: the
     * source has no file. */
    gp_status (*locate)(const gp_source *source, bool target, int64_t index, int64_t element, gp_element_place *out,
                        gp_error *err);
    void (*close)(gp_source *source);
} gp_source_class;

/* The first member of what a format's file defines. */
struct gp_source {
    const gp_source_class *class;
    const char *input_path; /* for messages; owned by the source, as is target_path */
    const char *target_path;
    int64_t samples;       /* ≥ 1 */
    gp_dtype dtype;        /* of the inputs: GP_U8 (0 … 255 means 0 … 1), GP_F32 or GP_F64 */
    gp_shape input;        /* of one sample, in the file's order */
    bool has_target;       /* false only where gp_sample_spec.target_optional allows it */
    gp_dtype target_dtype; /* GP_I64: classes; or GP_F32 */
    gp_shape target;       /* of one sample's targets; [] for one class */
    size_t held;           /* bytes of the host's memory that the source keeps: inflated files, tables */
    bool fixed_shape;      /* the model's input must have this very shape, not only as many elements */
};

/* MNIST's format, plain or gzipped: 0x00 0x00, element type, rank, rank big-endian u32 dimensions (samples first), then
 * the elements. Images are u8 of rank 2 … 4, a rank of 3 being [1, rows, columns]; labels u8 of rank 1. A plain file is
 * read as it goes. A gzipped one is inflated whole, into memory where it is not more than `memory` bytes, else into a
 * temporary file. */
enum { GP_IDX_MEMORY = 64 << 20 };
GP_MUST_USE gp_status gp_idx_open(const char *images, const char *labels, size_t memory, gp_source **out,
                                  gp_error *err);

/* A safetensors file with `x` [samples, …] and `y` [samples, …]. x is F32, U8, F64, F16 or BF16; y classes in any
 * integer, or F32, F64, F16, BF16 targets. Read as it goes. `target_optional`: y may be missing. */
GP_MUST_USE gp_status gp_tensors_open(const char *path, bool target_optional, gp_source **out, gp_error *err);

/* Standard normal inputs and uniform targets (classes, or F32 in 0…1) of whatever shapes the model wants, from
 * counters: philox.h says which. Normals have 16 bits: the midpoints of 65,536 slices of equal probability. */
GP_MUST_USE gp_status gp_synthetic_open(int64_t samples, uint64_t seed, const gp_sample_spec *spec, gp_source **out,
                                        gp_error *err);

#endif
