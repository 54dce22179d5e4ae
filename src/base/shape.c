#include "base/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

size_t gp_dtype_size(gp_dtype dtype) {
    switch (dtype) {
#define GP_DTYPE_SIZE(suffix, bytes, name)                                                                             \
    case GP_##suffix: return bytes;
        GP_DTYPE_MAP(GP_DTYPE_SIZE)
#undef GP_DTYPE_SIZE
    }
    return 0;
}

bool gp_dtype_is_real(gp_dtype dtype) {
    return dtype == GP_F32 || dtype == GP_F64 || dtype == GP_BF16 || dtype == GP_F16;
}

gp_types gp_types_of(gp_dtype dtype) {
    return (gp_types){dtype, dtype, dtype, dtype};
}

const char *gp_dtype_name(gp_dtype dtype) {
    switch (dtype) {
#define GP_DTYPE_NAME(suffix, bytes, name)                                                                             \
    case GP_##suffix: return name;
        GP_DTYPE_MAP(GP_DTYPE_NAME)
#undef GP_DTYPE_NAME
    }
    return "?";
}

bool gp_dtype_find(const char *name, gp_dtype *out) {
#define GP_DTYPE_FIND(suffix, bytes, its_name)                                                                         \
    if (strcmp(name, its_name) == 0) {                                                                                 \
        *out = GP_##suffix;                                                                                            \
        return true;                                                                                                   \
    }
    GP_DTYPE_MAP(GP_DTYPE_FIND)
#undef GP_DTYPE_FIND
    return false;
}

bool gp_shape_equal(gp_shape a, gp_shape b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

bool gp_shape_elements(gp_shape shape, int64_t *out) {
    int64_t elements = 1;
    for (int i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 1 || !gp_int64_mul(elements, shape.dim[i], &elements)) return false;
    *out = elements;
    return true;
}

const char *gp_shape_text(char buffer[GP_SHAPE_TEXT], gp_shape shape) {
    size_t used = 1;
    buffer[0] = '[';
    for (int i = 0; i < shape.rank; i++) {
        int wrote = snprintf(buffer + used, GP_SHAPE_TEXT - used, "%s%" PRId64, i ? ", " : "", shape.dim[i]);
        if (wrote > 0) used += (size_t)wrote;
    }
    snprintf(buffer + used, GP_SHAPE_TEXT - used, "]");
    return buffer;
}
