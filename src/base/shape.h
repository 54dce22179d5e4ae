/* Element types and the shapes of samples and parameters: the vocabulary of sizes that every room uses.
 *
 * Plain values that own nothing and may be copied freely; pure functions, any thread. */
#ifndef GP_BASE_SHAPE_H
#define GP_BASE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* X(enumerator suffix, bytes, name as safetensors writes it) */
#define GP_DTYPE_MAP(X)                                                                                                \
    X(F32, 4, "F32")                                                                                                   \
    X(F64, 8, "F64")                                                                                                   \
    X(I32, 4, "I32")                                                                                                   \
    X(I64, 8, "I64")                                                                                                   \
    X(U8, 1, "U8")                                                                                                     \
    X(BF16, 2, "BF16")                                                                                                 \
    X(F16, 2, "F16")

typedef enum gp_dtype {
#define GP_DTYPE_ENUM(suffix, bytes, name) GP_##suffix,
    GP_DTYPE_MAP(GP_DTYPE_ENUM)
#undef GP_DTYPE_ENUM
} gp_dtype;

/* What a plan computes with. Integers (classes, tokens) have their own dtype wherever they stand. */
typedef struct gp_types {
    gp_dtype master;     /* parameters and optimizer state, as updates and files have them */
    gp_dtype storage;    /* values and their gradients, between ops */
    gp_dtype compute;    /* parameters as ops read them */
    gp_dtype accumulate; /* sums: gradients of parameters, statistics */
} gp_types;

size_t gp_dtype_size(gp_dtype dtype);
/* No integer. */
bool gp_dtype_is_real(gp_dtype dtype);
/* All four of one dtype. */
gp_types gp_types_of(gp_dtype dtype);
const char *gp_dtype_name(gp_dtype dtype);
/* By safetensors' name; false where there is none of that name. */
bool gp_dtype_find(const char *name, gp_dtype *out);

enum { GP_MAX_RANK = 4 };

/* A shape in PyTorch's order, channels first, without the batch where it is a sample's: [C,h,w], [t,w], [w], or [] for
 * a number. Parameters use it too: conv [out,in,kh,kw], linear [out,in]. Every dimension is ≥ 1. */
typedef struct gp_shape {
    int rank;
    int64_t dim[GP_MAX_RANK];
} gp_shape;

bool gp_shape_equal(gp_shape a, gp_shape b);
/* The number of elements; false where it exceeds int64 or a dimension is below 1. */
bool gp_shape_elements(gp_shape shape, int64_t *out);
/* "[16, 28, 28]" into buffer, which is returned. */
enum { GP_SHAPE_TEXT = 96 };
const char *gp_shape_text(char buffer[GP_SHAPE_TEXT], gp_shape shape);

#endif
