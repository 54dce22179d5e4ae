/* Generated samples. */
#include "data/source.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/philox.h"

enum { LEVELS = 1 << 16, LANES = 8, INPUT = 0, TARGET = 1 };

typedef struct synthetic_source {
    gp_source source;
    uint64_t seed;
    int64_t classes;
    int64_t elements, targets; /* of one sample */
    float *normal;             /* LEVELS quantiles, ascending */
} synthetic_source;

static gp_philox draw(const synthetic_source *self, int64_t sample, int64_t block, unsigned part) {
    uint64_t place = (uint64_t)sample;
    gp_philox counter = {
        {(uint32_t)block, (uint32_t)place, (uint32_t)(place >> 32), part << 8 | (unsigned)GP_RANDOM_SYNTHETIC}};
    return gp_philox_draw(self->seed, counter);
}

/* The distribution's quantile at `share`, by Newton's method from a value somewhat nearer to 0. */
static double quantile(double share, double x) {
    const double root_two = 1.4142135623730951, root_two_pi = 2.5066282746310002;
    for (int i = 0; i < 6; i++) x -= (0.5 * erfc(-x / root_two) - share) * root_two_pi * exp(0.5 * x * x);
    return x;
}

static void fill_normal(float *normal) {
    double x = 0;
    for (int i = LEVELS / 2 - 1; i >= 0; i--) {
        x = quantile((i + 0.5) / LEVELS, x);
        normal[i] = (float)x;
        normal[LEVELS - 1 - i] = -(float)x;
    }
}

static gp_status generate_input(const gp_source *source, int64_t index, void *to, gp_error *err) {
    const synthetic_source *self = (const synthetic_source *)source;
    const float *normal = self->normal;
    float *x = to;
    (void)err;
    for (int64_t first = 0; first < self->elements; first += LANES) {
        gp_philox drawn = draw(self, index, first / LANES, INPUT);
        float lanes[LANES];
        for (int i = 0; i < LANES; i++) lanes[i] = normal[drawn.word[i / 2] >> (i % 2 * 16) & (LEVELS - 1)];
        int64_t count = self->elements - first < LANES ? self->elements - first : LANES;
        for (int64_t i = 0; i < count; i++) x[first + i] = lanes[i];
    }
    return GP_OK;
}

static gp_status generate_targets(const gp_source *source, int64_t first, int64_t samples, void *to, gp_error *err) {
    const synthetic_source *self = (const synthetic_source *)source;
    (void)err;
    for (int64_t n = 0; n < samples; n++) {
        gp_philox drawn = {{0}};
        for (int64_t t = 0; t < self->targets; t++) {
            if (t % 4 == 0) drawn = draw(self, first + n, t / 4, TARGET);
            int64_t at = n * self->targets + t;
            if (source->target_dtype == GP_I64)
                ((int64_t *)to)[at] = (int64_t)((uint64_t)drawn.word[t % 4] * (uint64_t)self->classes >> 32);
            else
                ((float *)to)[at] = (float)gp_philox_uniform(drawn.word[t % 4]);
        }
    }
    return GP_OK;
}

static void close_source(gp_source *source) {
    synthetic_source *self = (synthetic_source *)source;
    free(self->normal);
    free(self);
}

static const gp_source_class synthetic_class = {generate_input, generate_targets, NULL, close_source};

gp_status gp_synthetic_open(int64_t samples, uint64_t seed, const gp_sample_spec *spec, gp_source **out,
                            gp_error *err) {
    synthetic_source *self = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    gp_status status = GP_NEW(&self->normal, LEVELS, err);
    if (status == GP_OK &&
        (!gp_shape_elements(spec->input, &self->elements) || !gp_shape_elements(spec->target, &self->targets) ||
         self->elements / LANES > UINT32_MAX || self->targets / 4 > UINT32_MAX))
        status = gp_fail(err, GP_UNSUPPORTED, "a synthetic sample has more elements than counters number");
    if (status == GP_OK && spec->target_dtype == GP_I64 && spec->classes > UINT32_MAX)
        status = gp_fail(err, GP_UNSUPPORTED, "synthetic targets have at most %u classes", UINT32_MAX);
    if (status != GP_OK) {
        close_source(&self->source);
        return status;
    }
    fill_normal(self->normal);
    self->seed = seed;
    self->classes = spec->classes;
    self->source = (gp_source){.class = &synthetic_class,
                               .input_path = "synthetic data",
                               .target_path = "synthetic data",
                               .samples = samples,
                               .held = LEVELS * sizeof *self->normal,
                               .dtype = GP_F32,
                               .input = spec->input,
                               .has_target = true,
                               .target_dtype = spec->target_dtype,
                               .target = spec->target,
                               .fixed_shape = true};
    *out = &self->source;
    return GP_OK;
}
