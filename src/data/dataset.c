#include "data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/finite.h"
#include "base/memory.h"
#include "data/source.h"
#include "data/transform.h"

/* What of a shape matters here: pictures [C,h,w] have channels, anything else is a row of elements. */
typedef struct layout {
    int64_t channels, pixels, elements;
} layout;

struct gp_dataset {
    gp_source *source;
    gp_sample_spec spec;
    gp_transforms *transforms; /* NULL: none */
    int64_t first, count;      /* what `take` leaves */
    int64_t each;              /* targets of a sample that count; −1: not the same for all samples, or not known */
    layout picture, drawn;     /* one sample's input and target before the transforms */
    layout input, target;      /* of one sample */
    size_t raw_bytes;          /* of one sample's input or target as the source has it, whichever is more; aligned */
    size_t buffer_bytes;       /* of each of the transforms' two */
    double byte_value[256];    /* what a u8 element means */
};

/* False if the elements cannot be counted. */
static bool layout_of(gp_shape shape, layout *out) {
    layout its = {.channels = 1};
    if (!gp_shape_elements(shape, &its.elements)) return false;
    if (shape.rank >= 3) its.channels = shape.dim[0];
    its.pixels = its.elements / its.channels;
    *out = its;
    return true;
}

#define DEFINE_CONVERT(name, from_type, to_type, value)                                                                \
    static void name(layout its, const void *from_bytes, const double *byte_value, void *to_bytes) {                   \
        const from_type *from = from_bytes;                                                                            \
        to_type *to = to_bytes;                                                                                        \
        (void)byte_value;                                                                                              \
        for (int64_t c = 0; c < its.channels; c++)                                                                     \
            for (int64_t p = 0; p < its.pixels; p++, from++) to[p * its.channels + c] = (to_type)(value);              \
    }
DEFINE_CONVERT(bytes_to_f32, unsigned char, float, byte_value[*from])
DEFINE_CONVERT(bytes_to_f64, unsigned char, double, byte_value[*from])
DEFINE_CONVERT(f32_to_f32, float, float, *from)
DEFINE_CONVERT(f32_to_f64, float, double, *from)
DEFINE_CONVERT(f64_to_f32, double, float, *from)
DEFINE_CONVERT(f64_to_f64, double, double, *from)
#undef DEFINE_CONVERT

/* From a file's order [channels, pixels] to the order of memory [pixels, channels]. `from`: GP_U8 (byte b means
 * byte_value[b]), GP_F32 or GP_F64; `to`: GP_F32 or GP_F64. */
static void convert(layout its, gp_dtype from_dtype, const void *from, const double *byte_value, gp_dtype to_dtype,
                    void *to) {
    bool wide = to_dtype == GP_F64;
    if (from_dtype == GP_U8)
        (wide ? bytes_to_f64 : bytes_to_f32)(its, from, byte_value, to);
    else if (from_dtype == GP_F32)
        (wide ? f32_to_f64 : f32_to_f32)(its, from, byte_value, to);
    else
        (wide ? f64_to_f64 : f64_to_f32)(its, from, byte_value, to);
}

static gp_status open_source(const gp_source_config *config, const gp_sample_spec *spec, gp_source **out,
                             gp_error *err) {
    switch (config->kind) {
    case GP_SOURCE_IDX: return gp_idx_open(config->images, config->labels, GP_IDX_MEMORY, out, err);
    case GP_SOURCE_TENSORS: return gp_tensors_open(config->file, spec->target_optional, out, err);
    case GP_SOURCE_SYNTHETIC: return gp_synthetic_open(config->samples, config->seed, spec, out, err);
    case GP_SOURCE_NONE: break;
    }
    return gp_fail_at(err, GP_CONFIG, config->place, "there is no source of samples");
}

static gp_status apply_take(gp_dataset *self, const gp_source_config *config, gp_error *err) {
    int64_t samples = self->source->samples;
    int64_t from = config->take ? config->take_from : 0;
    int64_t to = config->take ? config->take_to : samples;
    if (from < 0 || from >= to || to > samples) {
        return gp_fail_at(err, GP_CONFIG, config->take_place,
                          "take: [%" PRId64 ", %" PRId64 "] is not a range of the %" PRId64
                          " samples of %s; 0 ≤ from < to ≤ %" PRId64 " is the rule",
                          from, to, samples, self->source->input_path, samples);
    }
    self->first = from;
    self->count = to - from;
    return GP_OK;
}

/* A grey picture [1,h,w] is as well read as its rows [h,w] or as one vector [h·w]: all have its order. Another shape of
 * as many elements is a mistake. */
static bool reads_as(gp_shape picture, gp_shape wanted) {
    if (gp_shape_equal(picture, wanted)) return true;
    if (picture.rank != 3 || picture.dim[0] != 1) return false;
    int64_t h = picture.dim[1], w = picture.dim[2];
    return gp_shape_equal((gp_shape){2, {h, w}}, wanted) || gp_shape_equal((gp_shape){1, {h * w}}, wanted);
}

static gp_status make_transforms(gp_dataset *self, const gp_source_config *config, gp_error *err) {
    if (config->transform_count == 0) return GP_OK;
    return gp_transforms_create(config->transforms, config->transform_count, self->source, self->spec.ignore,
                                &self->transforms, err);
}

/* [h,w,c] for [c,h,w]. */
static bool has_channels_last(gp_shape gives, gp_shape wanted) {
    if (gives.rank != 3) return false;
    return gp_shape_equal((gp_shape){3, {gives.dim[2], gives.dim[0], gives.dim[1]}}, wanted);
}

static gp_status check_input(const gp_dataset *self, const gp_source_config *config, gp_error *err) {
    const gp_source *source = self->source;
    const bool as_it_is = source->fixed_shape;
    gp_shape gives = self->transforms ? gp_transforms_output(self->transforms) : source->input;
    char has[GP_SHAPE_TEXT];
    char wants[GP_SHAPE_TEXT];
    if (as_it_is ? gp_shape_equal(gives, self->spec.input) : reads_as(gives, self->spec.input)) return GP_OK;
    bool last = as_it_is && has_channels_last(source->input, self->spec.input);
    return gp_fail_at(err, GP_CONFIG, config->place, "the samples of %s are %s%s, but the model's input is %s%s",
                      source->input_path, gp_shape_text(has, gives), self->transforms ? " after the transforms" : "",
                      gp_shape_text(wants, self->spec.input),
                      last ? "; channels come first: x.permute(0, 3, 1, 2).contiguous()" : "");
}

static bool moves_target(const gp_dataset *self) {
    return self->transforms && gp_transforms_moves_target(self->transforms);
}

/* One number for each class, of which one is 1, where the loss wants the class's. */
static bool is_one_hot(const gp_source *source, const gp_sample_spec *spec) {
    gp_shape target = source->target;
    if (spec->target_dtype != GP_I64 || target.rank != spec->target.rank + 1 || target.dim[0] != spec->classes)
        return false;
    for (int i = 0; i < spec->target.rank; i++)
        if (target.dim[i + 1] != spec->target.dim[i]) return false;
    return true;
}

static gp_status check_target(const gp_dataset *self, const gp_source_config *config, gp_error *err) {
    const gp_source *source = self->source;
    gp_shape gives = self->transforms ? gp_transforms_target(self->transforms) : source->target;
    char has[GP_SHAPE_TEXT];
    char wants[GP_SHAPE_TEXT];
    const char *one_hot = is_one_hot(source, &self->spec) ? "; give class numbers, not one-hot: y.argmax(1)" : NULL;
    if (!source->has_target) return GP_OK;
    if (source->target_dtype != self->spec.target_dtype) {
        bool classes = source->target_dtype == GP_I64;
        const char *hint = classes ? "" : one_hot ? one_hot : "; y.long() makes them";
        return gp_fail_at(err, GP_CONFIG, config->place, "the targets of %s are %s, but the loss wants %s%s",
                          source->target_path, classes ? "classes (integers)" : "floating-point numbers",
                          classes ? "floating-point numbers" : "classes (integers)", hint);
    }
    if (!gp_shape_equal(gives, self->spec.target)) {
        bool last = has_channels_last(source->target, self->spec.target);
        return gp_fail_at(err, GP_CONFIG, config->place,
                          "the targets of %s are %s for each sample%s, but the loss wants %s%s", source->target_path,
                          gp_shape_text(has, gives), moves_target(self) ? " after the transforms" : "",
                          gp_shape_text(wants, self->spec.target),
                          one_hot ? one_hot
                          : last  ? "; channels come first: y.permute(0, 3, 1, 2).contiguous()"
                                  : "");
    }
    if (!self->transforms) return GP_OK;
    return gp_transforms_check_target(self->transforms, config->transforms, source, err);
}

static gp_status check_spec(const gp_sample_spec *spec, gp_error *err) {
    if (spec->input_dtype != GP_F32 && spec->input_dtype != GP_F64)
        return gp_fail(err, GP_UNSUPPORTED, "inputs are F32 or F64, not %s", gp_dtype_name(spec->input_dtype));
    if (spec->target_dtype != GP_I64 && spec->target_dtype != GP_F32)
        return gp_fail(err, GP_UNSUPPORTED, "targets are classes in I64 or numbers in F32, not %s",
                       gp_dtype_name(spec->target_dtype));
    return GP_OK;
}

/* `target` are the targets of samples from `first` on, counted as the file does, before the transforms. */
static gp_status check_classes(const gp_dataset *self, int64_t first, int64_t samples, const int64_t *target,
                               int64_t *counts, gp_error *err) {
    int64_t counted = 0, targets = self->drawn.elements;
    for (int64_t i = 0; i < samples * targets; i++) {
        if (target[i] == self->spec.ignore) continue;
        counted++;
        if (target[i] < 0 || target[i] >= self->spec.classes) {
            return gp_fail(err, GP_DATA,
                           "%s: sample %" PRId64 ": class %" PRId64 " is out of range; the model has %" PRId64
                           " output%s, for the classes 0 … %" PRId64,
                           self->source->target_path, first + i / targets, target[i], self->spec.classes,
                           self->spec.classes == 1 ? "" : "s", self->spec.classes - 1);
        }
    }
    *counts = counted;
    return GP_OK;
}

/* A class that does not exist should not wait for the last epoch, where all of them are soon read: a class for each
 * picture, not for each of its places. *known: all were read, and *counted of them count. */
static gp_status check_all_classes(const gp_dataset *self, bool *known, int64_t *counted, gp_error *err) {
    enum { CHUNK = 4096, MOST = 4 << 20 };
    int64_t targets = self->drawn.elements;
    int64_t samples = targets < CHUNK ? CHUNK / targets : 1;
    int64_t *target = NULL;
    *counted = 0;
    *known = self->count <= MOST / targets;
    if (!*known) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&target, samples * targets, err));
    gp_status status = GP_OK;
    for (int64_t done = 0; done < self->count && status == GP_OK; done += samples) {
        int64_t counts = 0, now = self->count - done < samples ? self->count - done : samples;
        status = self->source->class->targets(self->source, self->first + done, now, target, err);
        if (status == GP_OK) status = check_classes(self, self->first + done, now, target, &counts, err);
        *counted += counts;
    }
    free(target);
    return status;
}

/* Numbers count always. A padded class does not. */
static gp_status find_each(gp_dataset *self, gp_error *err) {
    int64_t counted;
    bool known;
    self->each = self->source->has_target ? self->target.elements : 0;
    if (!self->source->has_target || self->spec.target_dtype != GP_I64) return GP_OK;
    GP_RETURN_IF_FAILED(check_all_classes(self, &known, &counted, err));
    if (!known || counted != self->count * self->drawn.elements) self->each = -1;
    if (self->transforms && gp_transforms_pads_target(self->transforms)) self->each = -1;
    return GP_OK;
}

static gp_status prepare(gp_dataset *self, const gp_source_config *config, gp_error *err) {
    const gp_source *source = self->source;
    gp_shape drawn = source->has_target ? source->target : self->spec.target;
    size_t input_bytes, target_bytes;
    if (!layout_of(source->input, &self->picture) || !layout_of(self->spec.input, &self->input) ||
        !layout_of(self->spec.target, &self->target) || !layout_of(drawn, &self->drawn) ||
        !gp_size_mul((size_t)self->picture.elements, gp_dtype_size(source->dtype), &input_bytes) ||
        !gp_size_mul((size_t)self->drawn.elements, gp_dtype_size(self->spec.target_dtype), &target_bytes) ||
        input_bytes > SIZE_MAX / 8 || target_bytes > SIZE_MAX / 8)
        return gp_fail_at(err, GP_CONFIG, config->place, "a sample has more elements than can be counted");
    self->raw_bytes = gp_align_up(input_bytes > target_bytes ? input_bytes : target_bytes, GP_ALIGNMENT);
    if (self->transforms) self->buffer_bytes = gp_align_up(gp_transforms_bytes(self->transforms), GP_ALIGNMENT);
    for (int i = 0; i < 256; i++) {
        self->byte_value[i] = i / 255.0;
        if (config->normalise) self->byte_value[i] = (self->byte_value[i] - config->mean) / config->std;
    }
    return GP_OK;
}

gp_status gp_dataset_open(const gp_source_config *source, const gp_sample_spec *spec, gp_dataset **out, gp_error *err) {
    gp_dataset *self = NULL;
    GP_RETURN_IF_FAILED(check_spec(spec, err));
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->spec = *spec;
    gp_status status = open_source(source, spec, &self->source, err);
    if (status == GP_OK) status = apply_take(self, source, err);
    if (status == GP_OK) status = make_transforms(self, source, err);
    if (status == GP_OK) status = check_input(self, source, err);
    if (status == GP_OK) status = check_target(self, source, err);
    if (status == GP_OK) status = prepare(self, source, err);
    if (status == GP_OK) status = find_each(self, err);
    if (status != GP_OK) {
        gp_dataset_close(&self);
        return status;
    }
    *out = self;
    return GP_OK;
}

void gp_dataset_close(gp_dataset **dataset) {
    if (!dataset || !*dataset) return;
    gp_source *source = (*dataset)->source;
    if (source) source->class->close(source);
    gp_transforms_destroy(&(*dataset)->transforms);
    free(*dataset);
    *dataset = NULL;
}

int64_t gp_dataset_count(const gp_dataset *dataset) {
    return dataset->count;
}

bool gp_dataset_has_bytes(const gp_dataset *dataset) {
    return dataset->source->dtype == GP_U8;
}

int64_t gp_dataset_counts(const gp_dataset *dataset) {
    return dataset->each;
}

size_t gp_dataset_scratch(const gp_dataset *dataset) {
    return dataset->raw_bytes + 2 * dataset->buffer_bytes;
}

size_t gp_dataset_held(const gp_dataset *dataset) {
    return sizeof *dataset + dataset->source->held;
}

/* A picture on its way through the transforms is [h,w,c] already: no channels are left to move. */
static gp_status read_input(const gp_dataset *self, int64_t place, gp_sample_key key, char *scratch, void *input,
                            gp_error *err) {
    const gp_source *source = self->source;
    float *from = (float *)(void *)(scratch + self->raw_bytes);
    float *to = (float *)(void *)(scratch + self->raw_bytes + self->buffer_bytes);
    layout row = {.channels = 1, .pixels = self->input.elements, .elements = self->input.elements};
    GP_RETURN_IF_FAILED(source->class->input(source, place, scratch, err));
    if (!self->transforms) {
        convert(self->input, source->dtype, scratch, self->byte_value, self->spec.input_dtype, input);
        return GP_OK;
    }
    convert(self->picture, source->dtype, scratch, self->byte_value, GP_F32, from);
    from = gp_transforms_apply(self->transforms, key.seed, key.epoch, place, from, to, NULL);
    convert(row, GP_F32, from, NULL, self->spec.input_dtype, input);
    return GP_OK;
}

static void *move_target(const gp_dataset *self, int64_t place, gp_sample_key key, void *from, void *to) {
    return gp_transforms_move_target(self->transforms, key.seed, key.epoch, place, from, to);
}

static gp_status read_classes(const gp_dataset *self, int64_t place, gp_sample_key key, char *scratch, int64_t *target,
                              int64_t *counts, gp_error *err) {
    int64_t *read = moves_target(self) ? (int64_t *)(void *)(scratch + self->raw_bytes) : target;
    if (!self->source->has_target) {
        for (int64_t i = 0; i < self->target.elements; i++) target[i] = self->spec.ignore;
        *counts = 0;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(self->source->class->targets(self->source, place, 1, read, err));
    GP_RETURN_IF_FAILED(check_classes(self, place, 1, read, counts, err));
    if (read == target) return GP_OK;
    read = move_target(self, place, key, read, scratch + self->raw_bytes + self->buffer_bytes);
    memcpy(target, read, (size_t)self->target.elements * sizeof *target);
    *counts = 0;
    for (int64_t i = 0; i < self->target.elements; i++) *counts += target[i] != self->spec.ignore;
    return GP_OK;
}

static gp_status read_numbers(const gp_dataset *self, int64_t place, gp_sample_key key, char *scratch, float *target,
                              int64_t *counts, gp_error *err) {
    float *read = moves_target(self) ? (float *)(void *)(scratch + self->raw_bytes) : target;
    if (!self->source->has_target) {
        memset(target, 0, (size_t)self->target.elements * sizeof *target);
        *counts = 0;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(self->source->class->targets(self->source, place, 1, scratch, err));
    convert(self->drawn, GP_F32, scratch, NULL, GP_F32, read);
    *counts = self->target.elements;
    if (read == target) return GP_OK;
    read = move_target(self, place, key, read, scratch + self->raw_bytes + self->buffer_bytes);
    memcpy(target, read, (size_t)self->target.elements * sizeof *target);
    return GP_OK;
}

gp_status gp_dataset_read(const gp_dataset *dataset, gp_sample_key key, void *scratch, void *input, void *target,
                          int64_t *counts, gp_error *err) {
    assert(key.index >= 0 && key.index < dataset->count);
    int64_t place = dataset->first + key.index;
    *counts = 0;
    if (input) GP_RETURN_IF_FAILED(read_input(dataset, place, key, scratch, input, err));
    if (!target) return GP_OK;
    if (dataset->spec.target_dtype == GP_I64) return read_classes(dataset, place, key, scratch, target, counts, err);
    return read_numbers(dataset, place, key, scratch, target, counts, err);
}

/* "x[17, 0, 2]": where element `element` of a sample is in its tensor. */
static void write_index(FILE *out, const char *tensor, int64_t sample, gp_shape shape, int64_t element) {
    int64_t index[GP_MAX_RANK];
    for (int d = shape.rank - 1; d >= 0; d--) {
        index[d] = element % shape.dim[d];
        element /= shape.dim[d];
    }
    fprintf(out, "%s[%" PRId64, tensor, sample);
    for (int d = 0; d < shape.rank; d++) fprintf(out, ", %" PRId64, index[d]);
    fputs("]", out);
}

static void write_place(FILE *out, const gp_dataset *self, bool target, int64_t sample, int64_t element,
                        const gp_element_place *place) {
    gp_shape shape = target ? self->source->target : self->source->input;
    const char *which = target ? "a target" : "an input";
    fprintf(out, "sample %" PRId64 " of %s: ", sample, place->path);
    write_index(out, place->tensor ? place->tensor : target ? "labels" : "images", sample, shape, element);
    if (isfinite(place->value))
        fprintf(out, " is %g", place->value);
    else
        fprintf(out, " is %s", gp_finite_name(gp_finite_of(place->value)));
    fprintf(out, ", at byte %" PRIu64 "%s", place->offset, place->inflated ? " (inflated)" : "");
    if (!isfinite(place->value)) return;
    if (self->source->dtype == GP_U8 && !target)
        fputs(", and mean and std make it infinite", out);
    else
        fprintf(out, ", and F32 cannot hold %s so large", which);
}

/* The first element, in the file's order, that is not finite for the model; −1: none. `raw`: as the source gives it. */
static int64_t find_flaw(const gp_dataset *self, bool target, const void *raw) {
    gp_dtype dtype = target ? GP_F32 : self->source->dtype;
    bool narrow = self->transforms || self->spec.input_dtype == GP_F32;
    int64_t count = target ? self->drawn.elements : self->picture.elements;
    for (int64_t i = 0; i < count; i++) {
        double value = dtype == GP_U8    ? self->byte_value[((const unsigned char *)raw)[i]]
                       : dtype == GP_F32 ? (double)((const float *)raw)[i]
                                         : ((const double *)raw)[i];
        if (!isfinite(value) || (narrow && !isfinite((float)value))) return i;
    }
    return -1;
}

static gp_status explain_file(const gp_dataset *self, bool target, int64_t sample, int64_t element, FILE *out,
                              gp_error *err) {
    gp_element_place place = {.path = target ? self->source->target_path : self->source->input_path};
    if (!self->source->class->locate) {
        fprintf(out, "sample %" PRId64 " of %s", sample, place.path);
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(self->source->class->locate(self->source, target, sample, element, &place, err));
    write_place(out, self, target, sample, element, &place);
    return GP_OK;
}

static void explain_transforms(const gp_dataset *self, gp_sample_key key, int64_t sample, char *scratch, FILE *out) {
    float *from = (float *)(void *)(scratch + self->raw_bytes);
    float *to = (float *)(void *)(scratch + self->raw_bytes + self->buffer_bytes);
    const char *blamed = NULL;
    convert(self->picture, self->source->dtype, scratch, self->byte_value, GP_F32, from);
    (void)gp_transforms_apply(self->transforms, key.seed, key.epoch, sample, from, to, &blamed);
    if (blamed)
        fprintf(out, "sample %" PRId64 " of %s is finite, but the transform %s makes it infinite", sample,
                self->source->input_path, blamed);
}

static gp_status explain(const gp_dataset *self, gp_sample_key key, bool target, char *scratch, FILE *out,
                         gp_error *err) {
    int64_t sample = self->first + key.index;
    const gp_source_class *class = self->source->class;
    if (target && (!self->source->has_target || self->spec.target_dtype != GP_F32)) return GP_OK;
    GP_RETURN_IF_FAILED(target ? class->targets(self->source, sample, 1, scratch, err)
                               : class->input(self->source, sample, scratch, err));
    int64_t element = find_flaw(self, target, scratch);
    if (element >= 0) return explain_file(self, target, sample, element, out, err);
    if (!target && self->transforms) explain_transforms(self, key, sample, scratch, out);
    return GP_OK;
}

gp_status gp_dataset_explain(const gp_dataset *dataset, gp_sample_key key, bool target, char text[GP_FLAW_TEXT],
                             gp_error *err) {
    char *scratch = NULL;
    GP_RETURN_IF_FAILED(gp_new_array((void **)&scratch, gp_dataset_scratch(dataset), 1, err));
    text[0] = '\0';
    FILE *out = fmemopen(text, GP_FLAW_TEXT, "w");
    gp_status status = GP_OK;
    if (!out)
        status = gp_fail(err, GP_MEMORY, "out of memory: what is not finite in the data");
    else
        status = explain(dataset, key, target, scratch, out, err);
    if (out) fclose(out);
    text[GP_FLAW_TEXT - 1] = '\0';
    free(scratch);
    return status;
}
