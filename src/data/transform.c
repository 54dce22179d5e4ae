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

/* Pixels are moved as words of 4 bytes: each channel of F32 is one, a class is two. */
enum { WORD = 4, CLASS_WORDS = sizeof(int64_t) / WORD };

struct gp_transforms {
    step *steps;
    int count;
    picture in;
    size_t bytes;
    gp_shape target;      /* of the source, for one sample */
    int64_t target_words; /* of a pixel of the target; 0: the target does not move */
    int64_t ignore;       /* what a padded class becomes */
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

static gp_status count_bytes(gp_transforms *self, picture of, gp_place place, gp_error *err) {
    int64_t words = of.channels > self->target_words ? of.channels : self->target_words;
    size_t elements;
    if (!gp_size_mul((size_t)of.height, (size_t)of.width, &elements) ||
        !gp_size_mul(elements, (size_t)words, &elements) || elements > SIZE_MAX / 16)
        return gp_fail_at(err, GP_CONFIG, place, "transform: a picture has more elements than can be counted");
    if (elements * WORD > self->bytes) self->bytes = elements * WORD;
    return GP_OK;
}

static gp_status make_steps(gp_transforms *self, const gp_transform_config *list, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&self->steps, count, err));
    picture at = self->in;
    GP_RETURN_IF_FAILED(count_bytes(self, at, list[0].place, err));
    for (int i = 0; i < count; i++) {
        self->count++;
        GP_RETURN_IF_FAILED(make_step(&list[i], at, &self->steps[i], err));
        at = self->steps[i].out;
        GP_RETURN_IF_FAILED(count_bytes(self, at, list[i].place, err));
    }
    return GP_OK;
}

/* Whether the window of a step can lie elsewhere than its picture, and beyond it. */
static bool moves(const step *its) {
    if (its->kind == GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP || its->kind == GP_TRANSFORM_RANDOM_VERTICAL_FLIP)
        return its->p > 0;
    return its->top != 0 || its->left != 0 || its->rows > 1 || its->columns > 1 || its->out.height != its->in.height ||
           its->out.width != its->in.width;
}

static bool pads(const step *its) {
    int64_t rows = its->rows > 1 ? its->rows : 1, columns = its->columns > 1 ? its->columns : 1;
    return its->top < 0 || its->left < 0 || its->top + rows - 1 + its->out.height > its->in.height ||
           its->left + columns - 1 + its->out.width > its->in.width;
}

/* Words of a pixel of targets that have the picture's height and width; 0: they have not. */
static int64_t words_of_target(const gp_source *source, picture in) {
    gp_shape target = source->target;
    bool classes = source->target_dtype == GP_I64;
    if (!source->has_target || (target.rank != 2 && (target.rank != 3 || classes))) return 0;
    const int64_t *plane = target.dim + target.rank - 2;
    if (plane[0] != in.height || plane[1] != in.width) return 0;
    return classes ? CLASS_WORDS : target.rank == 3 ? target.dim[0] : 1;
}

/* [h,w,c] with few channels, read as [c,h,w]. */
static bool looks_channels_last(gp_shape input) {
    enum { MOST = 4 };
    return input.dim[2] <= MOST && input.dim[0] > MOST && input.dim[1] > MOST;
}

gp_status gp_transforms_create(const gp_transform_config *list, int count, const gp_source *source, int64_t ignore,
                               gp_transforms **out, gp_error *err) {
    gp_transforms *self = NULL;
    char text[GP_SHAPE_TEXT];
    gp_shape input = source->input;
    if (input.rank != 3)
        return gp_fail_at(err, GP_CONFIG, list[0].place,
                          "transform: takes pictures [C, height, width], but the samples of %s are %s",
                          source->input_path, gp_shape_text(text, input));
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->in = (picture){.height = input.dim[1], .width = input.dim[2], .channels = input.dim[0]};
    self->target = source->target;
    self->target_words = words_of_target(source, self->in);
    self->ignore = ignore;
    gp_status status = make_steps(self, list, count, err);
    if (status != GP_OK) {
        gp_transforms_destroy(&self);
        if (status != GP_CONFIG || !looks_channels_last(input)) return status;
        const gp_error cause = *err;
        return gp_fail(err, status,
                       "%s; samples %s look as if channels came last; they come first: x.permute(0, 3, 1, "
                       "2).contiguous()",
                       cause.text, gp_shape_text(text, input));
    }
    *out = self;
    return GP_OK;
}

/* One class or one row of numbers for each sample belongs to no pixel, unless the row is a picture. */
static bool is_dense(gp_shape target, gp_shape input) {
    int64_t elements = 1, pixels = input.dim[1] * input.dim[2], last = target.rank - 1;
    for (int d = 0; d < target.rank; d++) elements *= target.dim[d];
    if (target.rank == 1) return elements > 1 && (elements == pixels || elements == pixels * input.dim[0]);
    return target.rank > 1 && (target.dim[last] > 1 || target.dim[last - 1] > 1);
}

gp_status gp_transforms_check_target(const gp_transforms *transforms, const gp_transform_config *list,
                                     const gp_source *source, gp_error *err) {
    const bool follows = transforms->target_words > 0;
    char target[GP_SHAPE_TEXT], input[GP_SHAPE_TEXT];
    if (!source->has_target || (!follows && !is_dense(source->target, source->input))) return GP_OK;
    for (int i = 0; i < transforms->count; i++) {
        const step *its = &transforms->steps[i];
        const char *name = gp_transform_name(its->kind);
        if (!follows && moves(its))
            return gp_fail_at(err, GP_CONFIG, list[i].place,
                              "%s: it moves the pictures of %s, which are %s, but targets %s cannot move with them: "
                              "give targets of %" PRId64 "x%" PRId64 ", or leave out %s",
                              name, source->input_path, gp_shape_text(input, source->input),
                              gp_shape_text(target, source->target), transforms->in.height, transforms->in.width, name);
        if (follows && source->target_dtype != GP_I64 && pads(its))
            return gp_fail_at(err, GP_CONFIG, list[i].place,
                              "%s: it pads the pictures of %s, and the targets %s, which are numbers, move with them: "
                              "no number says that a padded pixel does not count; take a transform that does not pad",
                              name, source->input_path, gp_shape_text(target, source->target));
    }
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

gp_shape gp_transforms_target(const gp_transforms *transforms) {
    gp_shape target = transforms->target;
    picture out = transforms->steps[transforms->count - 1].out;
    if (transforms->target_words == 0) return target;
    target.dim[target.rank - 2] = out.height;
    target.dim[target.rank - 1] = out.width;
    return target;
}

bool gp_transforms_moves_target(const gp_transforms *transforms) {
    return transforms->target_words > 0;
}

bool gp_transforms_pads_target(const gp_transforms *transforms) {
    bool padded = false;
    for (int i = 0; i < transforms->count; i++) padded |= pads(&transforms->steps[i]);
    return padded && transforms->target_words > 0;
}

size_t gp_transforms_bytes(const gp_transforms *transforms) {
    return transforms->bytes;
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

/* Copies words one after another: the compiler makes moves of them, whatever their type. */
static char *copy_pixel(char *to, const char *from, int64_t words) {
    for (int64_t w = 0; w < words; w++) memcpy(to + w * WORD, from + w * WORD, WORD);
    return to + words * WORD;
}

static char *fill_pixels(char *to, int64_t pixels, const void *fill, int64_t words) {
    for (int64_t p = 0; p < pixels; p++) to = copy_pixel(to, fill, words);
    return to;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* A plane of pixels, a picture or a target, on its way through the transforms. */
typedef struct plane {
    int64_t words;    /* of a pixel */
    const void *fill; /* of a padded pixel */
    char *from, *to;
} plane;

/* The part that begins at (top, left), filled where it lies outside. */
static char *take_window(const step *of, int64_t top, int64_t left, plane its) {
    int64_t first = clamp(-left, 0, of->out.width); /* columns of the result: filled before, copied, filled after */
    int64_t end = clamp(of->in.width - left, first, of->out.width);
    char *at = its.to;
    for (int64_t row = top; row < top + of->out.height; row++) {
        if (row < 0 || row >= of->in.height) {
            at = fill_pixels(at, of->out.width, its.fill, its.words);
            continue;
        }
        at = fill_pixels(at, first, its.fill, its.words);
        if (end > first) {
            size_t bytes = (size_t)((end - first) * its.words) * WORD;
            memcpy(at, its.from + (row * of->in.width + left + first) * its.words * WORD, bytes);
            at += bytes;
        }
        at = fill_pixels(at, of->out.width - end, its.fill, its.words);
    }
    return its.to;
}

static char *crop_at_random(const step *of, const source *random, plane its) {
    gp_philox drawn = draw(random, 0);
    return take_window(of, of->top + below(drawn.word[0], of->rows), of->left + below(drawn.word[1], of->columns), its);
}

static char *flip_horizontally(const step *of, plane its) {
    int64_t width = of->in.width;
    char *at = its.to;
    for (int64_t row = 0; row < of->in.height; row++)
        for (int64_t column = width - 1; column >= 0; column--)
            at = copy_pixel(at, its.from + (row * width + column) * its.words * WORD, its.words);
    return its.to;
}

static char *flip_vertically(const step *of, plane its) {
    int64_t bytes = of->in.width * its.words * WORD, height = of->in.height;
    for (int64_t row = 0; row < height; row++)
        memcpy(its.to + row * bytes, its.from + (height - 1 - row) * bytes, (size_t)bytes);
    return its.to;
}

/* What a transform does to the places of pixels. Returns the buffer that holds the result. */
static void *move(const step *of, const source *random, plane its) {
    switch (of->kind) {
    case GP_TRANSFORM_RANDOM_CROP: return crop_at_random(of, random, its);
    case GP_TRANSFORM_CENTER_CROP:
    case GP_TRANSFORM_PAD: return take_window(of, of->top, of->left, its);
    case GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
    case GP_TRANSFORM_RANDOM_VERTICAL_FLIP: break;
    case GP_TRANSFORM_NORMALIZE:
    case GP_TRANSFORM_RANDOM_ERASING: return its.from;
    }
    if (gp_philox_uniform(draw(random, 0).word[0]) >= of->p) return its.from;
    return of->kind == GP_TRANSFORM_RANDOM_VERTICAL_FLIP ? flip_vertically(of, its) : flip_horizontally(of, its);
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
            fill_pixels((char *)(values + (row * in->width + left) * in->channels), (int64_t)width, of->fill,
                        in->channels);
        break;
    }
    return values;
}

static float *apply(const step *of, const source *random, float *from, float *to) {
    plane its = {of->in.channels, of->fill, (char *)from, (char *)to};
    if (of->kind == GP_TRANSFORM_NORMALIZE) return normalize(of, from);
    if (of->kind != GP_TRANSFORM_RANDOM_ERASING) return move(of, random, its);
    return gp_philox_uniform(draw(random, 0).word[0]) >= of->p ? from : erase(of, random, from);
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

void *gp_transforms_move_target(const gp_transforms *transforms, uint64_t seed, int64_t epoch, int64_t sample,
                                void *from, void *to) {
    source random = {.seed = seed, .epoch = (uint32_t)epoch, .sample = (uint64_t)sample};
    for (int i = 0; i < transforms->count; i++) {
        random.transform = (unsigned)i;
        void *result =
            move(&transforms->steps[i], &random, (plane){transforms->target_words, &transforms->ignore, from, to});
        if (result != from) {
            to = from;
            from = result;
        }
    }
    return from;
}
