#include "data/transform.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/finite.h"
#include "base/memory.h"
#include "base/philox.h"

const char *gp_transform_name(gp_transform_kind kind) {
    static const char *const names[] = {
#define GP_TRANSFORM_NAME(suffix, name) name,
        GP_TRANSFORM_MAP(GP_TRANSFORM_NAME)
#undef GP_TRANSFORM_NAME
    };
    return names[kind];
}

typedef struct picture {
    int64_t height, width, channels;
} picture;

/* One transform, ready for pictures of one size. */
typedef struct step {
    gp_transform_kind kind;
    picture in, out;
    int64_t top, left;        /* where the result begins in the picture, pads counted: ≤ 0 in them */
    int64_t rows, columns;    /* random_crop: how many places it may begin at from there */
    double p;                 /* flips, erasing */
    double area[2], slant[2]; /* erasing: pixels; logarithms of height/width */
    float *fill;              /* one per channel; erasing: its value; normalize: the mean */
    float *std;
} step;

struct gp_transforms {
    step *steps;
    int count;
    picture in;
    size_t elements;
};

static gp_status expand(const gp_channel_values *values, const step *of, gp_place place, const char *what, float **out,
                        gp_error *err) {
    int64_t channels = of->in.channels;
    if (values->count != 1 && values->count != channels)
        return gp_fail_at(err, GP_CONFIG, place,
                          "%s: %s has %d values for pictures of %" PRId64 " channel%s: one for each, or one for all",
                          gp_transform_name(of->kind), what, values->count, channels, channels == 1 ? "" : "s");
    GP_RETURN_IF_FAILED(GP_NEW(out, channels, err));
    for (int64_t c = 0; c < channels; c++) (*out)[c] = (float)values->value[values->count == 1 ? 0 : c];
    return GP_OK;
}

/* torchvision pads what is too small for the crop, the odd pixel last, and rounds the place of the crop half to even.
 */
static int64_t center(int64_t size, int64_t crop) {
    int64_t spare = size - crop;
    if (spare < 0) return -(-spare / 2);
    return spare / 2 + (spare % 2 && spare / 2 % 2);
}

/* random_crop, pad: the picture with its pads, or a part of that. */
static gp_status make_window(const gp_transform_config *config, step *made, gp_error *err) {
    const int64_t *pad = config->pad;
    int64_t height = made->in.height + pad[1] + pad[3], width = made->in.width + pad[0] + pad[2];
    bool crops = config->kind == GP_TRANSFORM_RANDOM_CROP,
         padded = height != made->in.height || width != made->in.width;
    if (crops && (config->size[0] > height || config->size[1] > width))
        return gp_fail_at(err, GP_CONFIG, config->place,
                          "random_crop: a crop of %" PRId64 "x%" PRId64 " is larger than the %spicture of %" PRId64
                          "x%" PRId64,
                          config->size[0], config->size[1], padded ? "padded " : "", height, width);
    made->out.height = crops ? config->size[0] : height;
    made->out.width = crops ? config->size[1] : width;
    made->rows = height - made->out.height + 1;
    made->columns = width - made->out.width + 1;
    made->top = -pad[1];
    made->left = -pad[0];
    return expand(&config->fill, made, config->place, "fill", &made->fill, err);
}

static gp_status make_center_crop(const gp_transform_config *config, step *made, gp_error *err) {
    made->out.height = config->size[0];
    made->out.width = config->size[1];
    made->top = center(made->in.height, config->size[0]);
    made->left = center(made->in.width, config->size[1]);
    return GP_NEW(&made->fill, made->in.channels, err);
}

static gp_status make_normalize(const gp_transform_config *config, step *made, gp_error *err) {
    GP_RETURN_IF_FAILED(expand(&config->mean, made, config->place, "mean", &made->fill, err));
    return expand(&config->std, made, config->place, "std", &made->std, err);
}

static gp_status make_erasing(const gp_transform_config *config, step *made, gp_error *err) {
    for (int i = 0; i < 2; i++) {
        made->area[i] = config->scale[i] * (double)(made->in.height * made->in.width);
        made->slant[i] = log(config->ratio[i]);
    }
    return expand(&config->fill, made, config->place, "value", &made->fill, err);
}

static gp_status make_step(const gp_transform_config *config, picture in, step *made, gp_error *err) {
    *made = (step){.kind = config->kind, .in = in, .out = in, .p = config->p};
    switch (config->kind) {
    case GP_TRANSFORM_RANDOM_CROP:
    case GP_TRANSFORM_PAD: return make_window(config, made, err);
    case GP_TRANSFORM_CENTER_CROP: return make_center_crop(config, made, err);
    case GP_TRANSFORM_NORMALIZE: return make_normalize(config, made, err);
    case GP_TRANSFORM_RANDOM_ERASING: return make_erasing(config, made, err);
    case GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
    case GP_TRANSFORM_RANDOM_VERTICAL_FLIP: break;
    }
    return GP_OK;
}

static gp_status count_elements(gp_transforms *self, picture of, gp_place place, gp_error *err) {
    size_t elements;
    if (!gp_size_mul((size_t)of.height, (size_t)of.width, &elements) ||
        !gp_size_mul(elements, (size_t)of.channels, &elements) || elements > SIZE_MAX / 16)
        return gp_fail_at(err, GP_CONFIG, place, "transform: a picture has more elements than can be counted");
    if (elements > self->elements) self->elements = elements;
    return GP_OK;
}

static gp_status make_steps(gp_transforms *self, const gp_transform_config *list, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&self->steps, count, err));
    picture at = self->in;
    GP_RETURN_IF_FAILED(count_elements(self, at, list[0].place, err));
    for (int i = 0; i < count; i++) {
        self->count++;
        GP_RETURN_IF_FAILED(make_step(&list[i], at, &self->steps[i], err));
        at = self->steps[i].out;
        GP_RETURN_IF_FAILED(count_elements(self, at, list[i].place, err));
    }
    return GP_OK;
}

gp_status gp_transforms_create(const gp_transform_config *list, int count, gp_shape input, const char *what,
                               gp_transforms **out, gp_error *err) {
    gp_transforms *self = NULL;
    char text[GP_SHAPE_TEXT];
    if (input.rank != 3)
        return gp_fail_at(err, GP_CONFIG, list[0].place,
                          "transform: takes pictures [C, height, width], but the samples of %s are %s", what,
                          gp_shape_text(text, input));
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->in = (picture){.height = input.dim[1], .width = input.dim[2], .channels = input.dim[0]};
    gp_status status = make_steps(self, list, count, err);
    if (status != GP_OK) {
        gp_transforms_destroy(&self);
        return status;
    }
    *out = self;
    return GP_OK;
}

void gp_transforms_destroy(gp_transforms **transforms) {
    if (!transforms || !*transforms) return;
    gp_transforms *self = *transforms;
    for (int i = 0; i < self->count; i++) {
        free(self->steps[i].fill);
        free(self->steps[i].std);
    }
    free(self->steps);
    free(self);
    *transforms = NULL;
}

gp_shape gp_transforms_output(const gp_transforms *transforms) {
    picture out = transforms->steps[transforms->count - 1].out;
    return (gp_shape){3, {out.channels, out.height, out.width}};
}

size_t gp_transforms_elements(const gp_transforms *transforms) {
    return transforms->elements;
}

/* Where a transform's random numbers come from: philox.h says how the counters are made. */
typedef struct source {
    uint64_t seed;
    uint32_t epoch;
    uint64_t sample;
    unsigned transform;
} source;

static gp_philox draw(const source *from, unsigned number) {
    gp_philox counter = {{(uint32_t)from->sample, (uint32_t)(from->sample >> 32), from->epoch,
                          number << 16 | from->transform << 8 | (unsigned)GP_RANDOM_AUGMENT}};
    return gp_philox_draw(from->seed, counter);
}

static int64_t below(uint32_t word, int64_t count) {
    return (int64_t)((uint64_t)word * (uint64_t)count >> 32);
}

static double between(uint32_t word, const double range[2]) {
    return range[0] + gp_philox_uniform(word) * (range[1] - range[0]);
}

static float *fill_pixels(float *to, int64_t pixels, const float *fill, int64_t channels) {
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < channels; c++) *to++ = fill[c];
    return to;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The part of the picture that begins at (top, left), filled where it lies outside. */
static float *take_window(const step *of, int64_t top, int64_t left, const float *from, float *to) {
    int64_t channels = of->in.channels;
    int64_t first = clamp(-left, 0, of->out.width); /* columns of the result: filled before, copied, filled after */
    int64_t end = clamp(of->in.width - left, first, of->out.width);
    float *at = to;
    for (int64_t row = top; row < top + of->out.height; row++) {
        if (row < 0 || row >= of->in.height) {
            at = fill_pixels(at, of->out.width, of->fill, channels);
            continue;
        }
        at = fill_pixels(at, first, of->fill, channels);
        if (end > first) {
            size_t elements = (size_t)((end - first) * channels);
            memcpy(at, from + (row * of->in.width + left + first) * channels, elements * sizeof *at);
            at += elements;
        }
        at = fill_pixels(at, of->out.width - end, of->fill, channels);
    }
    return to;
}

static float *crop_at_random(const step *of, const source *random, const float *from, float *to) {
    gp_philox drawn = draw(random, 0);
    return take_window(of, of->top + below(drawn.word[0], of->rows), of->left + below(drawn.word[1], of->columns), from,
                       to);
}

static float *flip_horizontally(const step *of, const float *from, float *to) {
    int64_t channels = of->in.channels, width = of->in.width;
    float *at = to;
    for (int64_t row = 0; row < of->in.height; row++)
        for (int64_t column = width - 1; column >= 0; column--)
            for (int64_t c = 0; c < channels; c++) *at++ = from[(row * width + column) * channels + c];
    return to;
}

static float *flip_vertically(const step *of, const float *from, float *to) {
    int64_t elements = of->in.width * of->in.channels, height = of->in.height;
    for (int64_t row = 0; row < height; row++)
        memcpy(to + row * elements, from + (height - 1 - row) * elements, (size_t)elements * sizeof *to);
    return to;
}

static float *normalize(const step *of, float *values) {
    float *at = values;
    for (int64_t p = 0; p < of->in.height * of->in.width; p++)
        for (int64_t c = 0; c < of->in.channels; c++, at++) *at = (*at - of->fill[c]) / of->std[c];
    return values;
}

/* Ten attempts at a rectangle that is smaller than the picture both ways; else nothing is erased. */
static float *erase(const step *of, const source *random, float *values) {
    enum { ATTEMPTS = 10 };
    const picture *in = &of->in;
    for (unsigned attempt = 1; attempt <= ATTEMPTS; attempt++) {
        gp_philox drawn = draw(random, attempt);
        double area = between(drawn.word[0], of->area), ratio = exp(between(drawn.word[1], of->slant));
        double height = nearbyint(sqrt(area * ratio)), width = nearbyint(sqrt(area / ratio));
        if (!(height < (double)in->height && width < (double)in->width)) continue;
        int64_t top = below(drawn.word[2], in->height - (int64_t)height + 1);
        int64_t left = below(drawn.word[3], in->width - (int64_t)width + 1);
        for (int64_t row = top; row < top + (int64_t)height; row++)
            fill_pixels(values + (row * in->width + left) * in->channels, (int64_t)width, of->fill, in->channels);
        break;
    }
    return values;
}

static float *apply(const step *of, const source *random, float *from, float *to) {
    switch (of->kind) {
    case GP_TRANSFORM_RANDOM_CROP: return crop_at_random(of, random, from, to);
    case GP_TRANSFORM_CENTER_CROP:
    case GP_TRANSFORM_PAD: return take_window(of, of->top, of->left, from, to);
    case GP_TRANSFORM_NORMALIZE: return normalize(of, from);
    case GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
    case GP_TRANSFORM_RANDOM_VERTICAL_FLIP:
    case GP_TRANSFORM_RANDOM_ERASING: break;
    }
    if (gp_philox_uniform(draw(random, 0).word[0]) >= of->p) return from;
    if (of->kind == GP_TRANSFORM_RANDOM_ERASING) return erase(of, random, from);
    return of->kind == GP_TRANSFORM_RANDOM_VERTICAL_FLIP ? flip_vertically(of, from, to)
                                                         : flip_horizontally(of, from, to);
}

float *gp_transforms_apply(const gp_transforms *transforms, uint64_t seed, int64_t epoch, int64_t sample, float *from,
                           float *to, const char **blamed) {
    source random = {.seed = seed, .epoch = (uint32_t)epoch, .sample = (uint64_t)sample};
    for (int i = 0; i < transforms->count; i++) {
        const step *its = &transforms->steps[i];
        random.transform = (unsigned)i;
        float *result = apply(its, &random, from, to);
        if (result != from) {
            to = from;
            from = result;
        }
        if (blamed && gp_nonfinite_find(GP_F32, from, its->out.height * its->out.width * its->out.channels).count > 0) {
            *blamed = gp_transform_name(its->kind);
            break;
        }
    }
    return from;
}
