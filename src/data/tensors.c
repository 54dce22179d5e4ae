/* Samples that are the tensors `x` and `y` of a safetensors file. */
#include "data/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/file.h"
#include "data/safetensors.h"

/* An element type of the file, and what the program sees of it. */
typedef struct element {
    const char *name;
    size_t bytes;
    gp_dtype becomes;
    void (*convert)(const void *from, int64_t count, void *to); /* NULL: as it is */
} element;

typedef struct tensors_source {
    gp_source source;
    gp_safetensors *file;
    char *path;
    const gp_safetensor *x, *y; /* y: NULL where there is none, and none is needed */
    const element *x_element, *y_element;
    int64_t x_count, y_count; /* elements per sample */
} tensors_source;

#define DEFINE_CONVERT(name, from_type, to_type)                                                                       \
    static void name(const void *from, int64_t count, void *to) {                                                      \
        const from_type *source = from;                                                                                \
        to_type *target = to;                                                                                          \
        for (int64_t i = 0; i < count; i++) target[i] = (to_type)source[i];                                            \
    }
DEFINE_CONVERT(widen_i32, int32_t, int64_t)
DEFINE_CONVERT(widen_i16, int16_t, int64_t)
DEFINE_CONVERT(widen_i8, int8_t, int64_t)
DEFINE_CONVERT(widen_u8, uint8_t, int64_t)
DEFINE_CONVERT(narrow_f64, double, float)
#undef DEFINE_CONVERT

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void widen_bf16(const void *from, int64_t count, void *to) {
    const uint16_t *source = from;
    float *target = to;
    for (int64_t i = 0; i < count; i++) target[i] = float_of_bits((uint32_t)source[i] << 16);
}

/* Exponents move from F16's bias of 15 to F32's of 127; subnormal numbers are multiples of 2^-24. */
static float float_of_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000U) << 16;
    uint32_t exponent = half >> 10 & 0x1FU;
    uint32_t mantissa = half & 0x3FFU;
    if (exponent == 0x1F) return float_of_bits(sign | 0x7F800000U | mantissa << 13);
    if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24F;
    return sign ? -magnitude : magnitude;
}

static void widen_f16(const void *from, int64_t count, void *to) {
    const uint16_t *source = from;
    float *target = to;
    for (int64_t i = 0; i < count; i++) target[i] = float_of_half(source[i]);
}

static const element input_elements[] = {{"F32", 4, GP_F32, NULL},        {"U8", 1, GP_U8, NULL},
                                         {"F64", 8, GP_F64, NULL},        {"F16", 2, GP_F32, widen_f16},
                                         {"BF16", 2, GP_F32, widen_bf16}, {NULL, 0, GP_F32, NULL}};
static const element target_elements[] = {{"I64", 8, GP_I64, NULL},        {"I32", 4, GP_I64, widen_i32},
                                          {"I16", 2, GP_I64, widen_i16},   {"I8", 1, GP_I64, widen_i8},
                                          {"U8", 1, GP_I64, widen_u8},     {"F32", 4, GP_F32, NULL},
                                          {"F64", 8, GP_F32, narrow_f64},  {"F16", 2, GP_F32, widen_f16},
                                          {"BF16", 2, GP_F32, widen_bf16}, {NULL, 0, GP_F32, NULL}};

static const element *find_element(const element *elements, const char *name) {
    for (; elements->name; elements++)
        if (strcmp(elements->name, name) == 0) return elements;
    return NULL;
}

/* Elements [first, first+count) of a tensor, as the program sees them. */
static gp_status read_elements(const tensors_source *self, const gp_safetensor *tensor, const element *type,
                               int64_t first, int64_t count, void *to, gp_error *err) {
    double chunk[1024];
    uint64_t from = (uint64_t)first * type->bytes;
    if (!type->convert) return gp_safetensors_read(self->file, tensor, from, (size_t)count * type->bytes, to, err);
    int64_t most = (int64_t)(sizeof chunk / type->bytes);
    for (int64_t done = 0; done < count;) {
        int64_t now = count - done < most ? count - done : most;
        size_t bytes = (size_t)now * type->bytes;
        GP_RETURN_IF_FAILED(gp_safetensors_read(self->file, tensor, from, bytes, chunk, err));
        type->convert(chunk, now, (char *)to + (size_t)done * gp_dtype_size(type->becomes));
        from += bytes;
        done += now;
    }
    return GP_OK;
}

static gp_status read_input(const gp_source *source, int64_t index, void *to, gp_error *err) {
    const tensors_source *self = (const tensors_source *)source;
    return read_elements(self, self->x, self->x_element, index * self->x_count, self->x_count, to, err);
}

static gp_status read_targets(const gp_source *source, int64_t first, int64_t samples, void *to, gp_error *err) {
    const tensors_source *self = (const tensors_source *)source;
    return read_elements(self, self->y, self->y_element, first * self->y_count, samples * self->y_count, to, err);
}

/* One element as the file has it: an F64 may be too large for the program. */
static double value_of(const element *type, const void *bytes) {
    union {
        uint8_t byte;
        int64_t whole;
        float narrow;
        double wide;
    } value;
    bool wide = strcmp(type->name, "F64") == 0;
    if (type->convert && !wide)
        type->convert(bytes, 1, &value);
    else
        memcpy(&value, bytes, type->bytes);
    if (wide) return value.wide;
    return type->becomes == GP_U8 ? value.byte : type->becomes == GP_I64 ? (double)value.whole : (double)value.narrow;
}

static gp_status locate(const gp_source *source, bool target, int64_t index, int64_t element_index,
                        gp_element_place *out, gp_error *err) {
    const tensors_source *self = (const tensors_source *)source;
    const gp_safetensor *tensor = target ? self->y : self->x;
    const element *type = target ? self->y_element : self->x_element;
    uint64_t from = (uint64_t)(index * (target ? self->y_count : self->x_count) + element_index) * type->bytes;
    double bytes = 0; /* aligned for every type */
    GP_RETURN_IF_FAILED(gp_safetensors_read(self->file, tensor, from, type->bytes, &bytes, err));
    *out = (gp_element_place){.path = self->path,
                              .tensor = tensor->name,
                              .offset = gp_safetensors_offset(self->file, tensor) + from,
                              .value = value_of(type, &bytes)};
    return GP_OK;
}

static void close_source(gp_source *source) {
    tensors_source *self = (tensors_source *)source;
    gp_safetensors_close(&self->file);
    free(self->path);
    free(self);
}

static const gp_source_class tensors_class = {read_input, read_targets, locate, close_source};

static gp_status find_tensor(const tensors_source *self, const char *name, const gp_safetensor **out, gp_error *err) {
    const gp_safetensor *tensor = gp_safetensors_find(self->file, name);
    if (!tensor) {
        return gp_fail(err, GP_DATA, "%s: has no tensor \"%s\"; a data set has x (inputs) and y (targets)", self->path,
                       name);
    }
    if (tensor->rank < 1)
        return gp_fail(err, GP_DATA, "%s: tensor \"%s\" is a single number; samples come first in its shape",
                       self->path, name);
    if (tensor->rank > 1 + GP_MAX_RANK) {
        return gp_fail(err, GP_DATA, "%s: tensor \"%s\" has %d dimensions; samples and at most %d more are read",
                       self->path, name, tensor->rank, GP_MAX_RANK);
    }
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dim[i] < 1) return gp_fail(err, GP_DATA, "%s: tensor \"%s\" is empty", self->path, name);
    *out = tensor;
    return GP_OK;
}

static gp_status find_inputs(tensors_source *self, gp_error *err) {
    GP_RETURN_IF_FAILED(find_tensor(self, "x", &self->x, err));
    const char *dtype = self->x->dtype_name;
    self->x_element = find_element(input_elements, dtype);
    if (self->x_element) return GP_OK;
    if (strcmp(dtype, "I32") == 0 || strcmp(dtype, "I64") == 0)
        return gp_fail(
            err, GP_DATA,
            "%s: tensor \"x\" is %s: these are tokens, and no layer of this version takes tokens; for pictures, save "
            "x.to(torch.uint8) or x.float()",
            self->path, dtype);
    return gp_fail(err, GP_DATA, "%s: tensor \"x\" is %s; F32, U8 (scaled to 0…1), F64, F16 and BF16 are read",
                   self->path, dtype);
}

static gp_status find_targets(tensors_source *self, bool optional, gp_error *err) {
    if (optional && !gp_safetensors_find(self->file, "y")) return GP_OK;
    GP_RETURN_IF_FAILED(find_tensor(self, "y", &self->y, err));
    self->y_element = find_element(target_elements, self->y->dtype_name);
    if (!self->y_element)
        return gp_fail(err, GP_DATA,
                       "%s: tensor \"y\" is %s; classes are I64, I32, I16, I8 or U8, other targets F32, F64, F16 or "
                       "BF16",
                       self->path, self->y->dtype_name);
    if (self->x->dim[0] != self->y->dim[0]) {
        return gp_fail(err, GP_DATA, "%s: tensor \"x\" has %" PRId64 " samples, tensor \"y\" %" PRId64, self->path,
                       self->x->dim[0], self->y->dim[0]);
    }
    return GP_OK;
}

static gp_shape sample_shape(const gp_safetensor *tensor) {
    gp_shape shape = {.rank = tensor->rank - 1};
    memcpy(shape.dim, tensor->dim + 1, (size_t)shape.rank * sizeof *shape.dim);
    return shape;
}

/* The divisions leave nothing: the reader found shape and bytes in agreement. */
static int64_t elements_per_sample(const gp_safetensor *tensor, const element *type) {
    return (int64_t)((tensor->end - tensor->begin) / type->bytes) / tensor->dim[0];
}

static void describe(tensors_source *self) {
    self->source = (gp_source){.class = &tensors_class,
                               .input_path = self->path,
                               .target_path = self->path,
                               .samples = self->x->dim[0],
                               .dtype = self->x_element->becomes,
                               .input = sample_shape(self->x),
                               .has_target = self->y != NULL,
                               .held = gp_safetensors_held(self->file),
                               .fixed_shape = true};
    self->x_count = elements_per_sample(self->x, self->x_element);
    if (!self->y) return;
    self->source.target_dtype = self->y_element->becomes;
    self->source.target = sample_shape(self->y);
    self->y_count = elements_per_sample(self->y, self->y_element);
}

gp_status gp_tensors_open(const char *path, bool target_optional, gp_source **out, gp_error *err) {
    tensors_source *self = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    gp_status status = gp_copy_text(&self->path, path, err);
    if (status == GP_OK) status = gp_safetensors_open(path, &self->file, err);
    if (status == GP_OK) status = find_inputs(self, err);
    if (status == GP_OK) status = find_targets(self, target_optional, err);
    if (status != GP_OK) {
        close_source(&self->source);
        return status;
    }
    describe(self);
    *out = &self->source;
    return GP_OK;
}
