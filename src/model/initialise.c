/* Initial values of parameters, from counters. */
#include <math.h>

#include "base/philox.h"
#include "model/graph.h"

enum { LANES = 4 };

static void store(void *out, gp_dtype dtype, int64_t element, double value) {
    if (dtype == GP_F64)
        ((double *)out)[element] = value;
    else
        ((float *)out)[element] = (float)value;
}

static void make_uniform(const gp_philox *draw, double values[LANES]) {
    for (int lane = 0; lane < LANES; lane++) values[lane] = 2 * gp_philox_uniform(draw->word[lane]) - 1;
}

/* Box and Muller: two words make two numbers. All 32 bits count, so that the tails reach 6.6. */
static void make_normal(const gp_philox *draw, double values[LANES]) {
    const double turn = 2 * 3.14159265358979323846 * 0x1p-32;
    for (int lane = 0; lane < LANES; lane += 2) {
        double radius = sqrt(-2 * log(((double)draw->word[lane] + 1) * 0x1p-32));
        values[lane] = radius * cos(turn * (double)draw->word[lane + 1]);
        values[lane + 1] = radius * sin(turn * (double)draw->word[lane + 1]);
    }
}

static void fill(const gp_param *param, uint64_t seed, gp_dtype dtype, int64_t elements, void *out) {
    uint64_t name = gp_hash_text(param->name);
    for (int64_t first = 0; first < elements; first += LANES) {
        gp_philox counter = {{(uint32_t)(first / LANES), (uint32_t)name, (uint32_t)(name >> 32), GP_RANDOM_INITIAL}};
        gp_philox draw = gp_philox_draw(seed, counter);
        double values[LANES];
        if (param->spec.init == GP_INIT_NORMAL)
            make_normal(&draw, values);
        else
            make_uniform(&draw, values);
        for (int lane = 0; lane < LANES && first + lane < elements; lane++)
            store(out, dtype, first + lane, values[lane] * param->spec.value);
    }
}

void gp_param_initialise(const gp_param *param, uint64_t seed, gp_dtype dtype, void *out) {
    int64_t elements = 1;
    for (int i = 0; i < param->spec.shape.rank; i++) elements *= param->spec.shape.dim[i];
    if (param->spec.init != GP_INIT_CONSTANT) {
        fill(param, seed, dtype, elements, out);
        return;
    }
    for (int64_t i = 0; i < elements; i++) store(out, dtype, i, param->spec.value);
}
