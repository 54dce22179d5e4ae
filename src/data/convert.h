/* Inside the room: from a file's order [channels, pixels] to the order of memory [pixels, channels], scaled and
 * converted on the way. Pure functions; any thread. */
#ifndef GP_DATA_CONVERT_H
#define GP_DATA_CONVERT_H

#include "base/shape.h"

/* What of a shape matters here: pictures [C,h,w] have channels, anything else is a row of elements. */
typedef struct gp_layout {
    int64_t channels, pixels, elements;
} gp_layout;

/* False where the elements cannot be counted. */
bool gp_layout_of(gp_shape shape, gp_layout *out);
/* `from`: GP_U8 (byte b means byte_value[b]), GP_F32 or GP_F64; `to`: GP_F32 or GP_F64. */
void gp_convert(gp_layout layout, gp_dtype from_dtype, const void *from, const double *byte_value, gp_dtype to_dtype,
                void *to);

#endif
