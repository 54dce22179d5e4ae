#include "data/convert.h"

bool gp_layout_of(gp_shape shape, gp_layout *out) {
    gp_layout layout = {.channels = 1};
    if (!gp_shape_elements(shape, &layout.elements)) return false;
    if (shape.rank >= 3) layout.channels = shape.dim[0];
    layout.pixels = layout.elements / layout.channels;
    *out = layout;
    return true;
}

#define DEFINE_CONVERT(name, from_type, to_type, value)                                                                \
    static void name(gp_layout layout, const void *from_bytes, const double *byte_value, void *to_bytes) {             \
        const from_type *from = from_bytes;                                                                            \
        to_type *to = to_bytes;                                                                                        \
        (void)byte_value;                                                                                              \
        for (int64_t c = 0; c < layout.channels; c++)                                                                  \
            for (int64_t p = 0; p < layout.pixels; p++, from++) to[p * layout.channels + c] = (to_type)(value);        \
    }
DEFINE_CONVERT(bytes_to_f32, unsigned char, float, byte_value[*from])
DEFINE_CONVERT(bytes_to_f64, unsigned char, double, byte_value[*from])
DEFINE_CONVERT(f32_to_f32, float, float, *from)
DEFINE_CONVERT(f32_to_f64, float, double, *from)
DEFINE_CONVERT(f64_to_f32, double, float, *from)
DEFINE_CONVERT(f64_to_f64, double, double, *from)
#undef DEFINE_CONVERT

void gp_convert(gp_layout layout, gp_dtype from_dtype, const void *from, const double *byte_value, gp_dtype to_dtype,
                void *to) {
    bool wide = to_dtype == GP_F64;
    if (from_dtype == GP_U8)
        (wide ? bytes_to_f64 : bytes_to_f32)(layout, from, byte_value, to);
    else if (from_dtype == GP_F32)
        (wide ? f32_to_f64 : f32_to_f32)(layout, from, byte_value, to);
    else
        (wide ? f64_to_f64 : f64_to_f32)(layout, from, byte_value, to);
}
