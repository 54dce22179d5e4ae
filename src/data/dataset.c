#include "data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/source.h"

struct gp_dataset {
    gp_source *source;
    gp_sample_spec spec;
    int64_t first, count;     /* what `take` leaves */
    int64_t channels, pixels; /* the input as [channels, pixels] */
    int64_t targets;          /* per sample */
    double byte_value[256];   /* what a u8 element means */
    void *raw;                /* one sample as the file has it */
};

static gp_status open_source(const gp_source_config *config, gp_source **out, gp_error *err) {
    switch (config->kind) {
    case GP_SOURCE_IDX: return gp_idx_open(config->images, config->labels, out, err);
    case GP_SOURCE_TENSORS: return gp_tensors_open(config->file, out, err);
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
                          "take [%" PRId64 ", %" PRId64 "] does not lie within the %" PRId64
                          " samples of %s: 0 ≤ from < to ≤ %" PRId64 " is needed",
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

static gp_status check_input(const gp_dataset *self, const gp_source_config *config, gp_error *err) {
    const gp_source *source = self->source;
    char has[GP_SHAPE_TEXT];
    char wants[GP_SHAPE_TEXT];
    int64_t elements = 0;
    if (!gp_shape_elements(source->input, &elements) || !gp_shape_elements(self->spec.input, &elements))
        return gp_fail_at(err, GP_CONFIG, config->place, "an input has more elements than can be counted");
    if (source->fixed_shape ? gp_shape_equal(source->input, self->spec.input)
                            : reads_as(source->input, self->spec.input))
        return GP_OK;
    return gp_fail_at(err, GP_CONFIG, config->place, "the samples of %s are %s, but the model's input is %s",
                      source->input_path, gp_shape_text(has, source->input), gp_shape_text(wants, self->spec.input));
}

static gp_status check_target(const gp_dataset *self, const gp_source_config *config, gp_error *err) {
    char has[GP_SHAPE_TEXT];
    char wants[GP_SHAPE_TEXT];
    if (!gp_shape_equal(self->source->target, self->spec.target)) {
        return gp_fail_at(err, GP_CONFIG, config->place,
                          "the targets of %s are %s for each sample, but the loss wants %s", self->source->target_path,
                          gp_shape_text(has, self->source->target), gp_shape_text(wants, self->spec.target));
    }
    return GP_OK;
}

static gp_status check_spec(const gp_sample_spec *spec, gp_error *err) {
    if (spec->input_dtype != GP_F32 && spec->input_dtype != GP_F64)
        return gp_fail(err, GP_UNSUPPORTED, "inputs are F32 or F64, not %s", gp_dtype_name(spec->input_dtype));
    if (spec->target_dtype != GP_I64)
        return gp_fail(err, GP_UNSUPPORTED, "targets are classes in I64, not %s", gp_dtype_name(spec->target_dtype));
    return GP_OK;
}

/* `target` are the targets of samples from `first` on, counted as the file does. */
static gp_status check_classes(const gp_dataset *self, int64_t first, int64_t samples, const int64_t *target,
                               int64_t *counts, gp_error *err) {
    int64_t counted = 0;
    for (int64_t i = 0; i < samples * self->targets; i++) {
        if (target[i] == self->spec.ignore) continue;
        counted++;
        if (target[i] < 0 || target[i] >= self->spec.classes) {
            return gp_fail(err, GP_DATA,
                           "%s: sample %" PRId64 ": class %" PRId64 " is none of the model's %" PRId64 " (0 … %" PRId64
                           ")",
                           self->source->target_path, first + i / self->targets, target[i], self->spec.classes,
                           self->spec.classes - 1);
        }
    }
    *counts = counted;
    return GP_OK;
}

/* Targets are small beside inputs, and a class that does not exist should not wait for the last epoch. */
static gp_status check_all_classes(gp_dataset *self, gp_error *err) {
    int64_t samples = self->targets < 4096 ? 4096 / self->targets : 1;
    int64_t *target = NULL;
    int64_t counts;
    GP_RETURN_IF_FAILED(GP_NEW(&target, samples * self->targets, err));
    gp_status status = GP_OK;
    for (int64_t done = 0; done < self->count && status == GP_OK; done += samples) {
        int64_t now = self->count - done < samples ? self->count - done : samples;
        status = self->source->class->targets(self->source, self->first + done, now, target, err);
        if (status == GP_OK) status = check_classes(self, self->first + done, now, target, &counts, err);
    }
    free(target);
    return status;
}

static gp_status prepare(gp_dataset *self, const gp_source_config *config, gp_error *err) {
    const gp_shape *input = &self->spec.input;
    int64_t elements = 0;
    if (!gp_shape_elements(*input, &elements) || !gp_shape_elements(self->spec.target, &self->targets))
        return gp_fail_at(err, GP_CONFIG, config->place, "a sample has more elements than can be counted");
    self->channels = input->rank >= 3 ? input->dim[0] : 1;
    self->pixels = elements / self->channels;
    for (int i = 0; i < 256; i++) {
        self->byte_value[i] = i / 255.0;
        if (config->normalise) self->byte_value[i] = (self->byte_value[i] - config->mean) / config->std;
    }
    size_t bytes;
    if (!gp_size_mul((size_t)elements, gp_dtype_size(self->source->dtype), &bytes))
        return gp_fail(err, GP_MEMORY, "out of memory: one sample of %" PRId64 " elements", elements);
    return gp_new_array(&self->raw, bytes, 1, err);
}

gp_status gp_dataset_open(const gp_source_config *source, const gp_sample_spec *spec, gp_dataset **out, gp_error *err) {
    gp_dataset *self = NULL;
    GP_RETURN_IF_FAILED(check_spec(spec, err));
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->spec = *spec;
    gp_status status = open_source(source, &self->source, err);
    if (status == GP_OK) status = apply_take(self, source, err);
    if (status == GP_OK) status = check_input(self, source, err);
    if (status == GP_OK) status = check_target(self, source, err);
    if (status == GP_OK) status = prepare(self, source, err);
    if (status == GP_OK) status = check_all_classes(self, err);
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
    free((*dataset)->raw);
    free(*dataset);
    *dataset = NULL;
}

int64_t gp_dataset_count(const gp_dataset *dataset) {
    return dataset->count;
}

/* From the file's [channels, pixels] to the devices' [pixels, channels], scaled and converted on the way. */
#define DEFINE_CONVERT(name, from_type, to_type, value)                                                                \
    static void name(const gp_dataset *self, void *to_bytes) {                                                         \
        const from_type *from = self->raw;                                                                             \
        to_type *to = to_bytes;                                                                                        \
        for (int64_t c = 0; c < self->channels; c++)                                                                   \
            for (int64_t p = 0; p < self->pixels; p++, from++) to[p * self->channels + c] = (to_type)(value);          \
    }
DEFINE_CONVERT(bytes_to_f32, unsigned char, float, self->byte_value[*from])
DEFINE_CONVERT(bytes_to_f64, unsigned char, double, self->byte_value[*from])
DEFINE_CONVERT(f32_to_f32, float, float, *from)
DEFINE_CONVERT(f32_to_f64, float, double, *from)
#undef DEFINE_CONVERT

gp_status gp_dataset_read(gp_dataset *dataset, int64_t index, void *input, void *target, int64_t *counts,
                          gp_error *err) {
    assert(index >= 0 && index < dataset->count);
    gp_source *source = dataset->source;
    int64_t place = dataset->first + index;
    GP_RETURN_IF_FAILED(source->class->input(source, place, dataset->raw, err));
    GP_RETURN_IF_FAILED(source->class->targets(source, place, 1, target, err));
    /* Checked when the file was opened; but a file can change under a long run. */
    GP_RETURN_IF_FAILED(check_classes(dataset, place, 1, target, counts, err));
    bool wide = dataset->spec.input_dtype == GP_F64;
    if (source->dtype == GP_U8)
        (wide ? bytes_to_f64 : bytes_to_f32)(dataset, input);
    else
        (wide ? f32_to_f64 : f32_to_f32)(dataset, input);
    return GP_OK;
}
