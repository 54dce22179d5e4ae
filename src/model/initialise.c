#include "base/philox.h"
#include "model/graph.h"

enum { LANES = 4 };

static void store(void *out, gp_dtype real, int64_t element, double value) {
    if (real == GP_F64)
        ((double *)out)[element] = value;
    else
        ((float *)out)[element] = (float)value;
}

static void fill_uniform(const gp_param *param, uint64_t seed, gp_dtype real, int64_t elements, void *out) {
    uint64_t name = gp_hash_text(param->name);
    for (int64_t first = 0; first < elements; first += LANES) {
        gp_philox counter = {{(uint32_t)(first / LANES), (uint32_t)name, (uint32_t)(name >> 32), GP_RANDOM_INITIAL}};
        gp_philox draw = gp_philox_draw(seed, counter);
        for (int lane = 0; lane < LANES && first + lane < elements; lane++)
            store(out, real, first + lane, (2 * gp_philox_uniform(draw.word[lane]) - 1) * param->spec.value);
    }
}

void gp_param_initialise(const gp_param *param, uint64_t seed, gp_dtype real, void *out) {
    int64_t elements = 1;
    for (int i = 0; i < param->spec.shape.rank; i++) elements *= param->spec.shape.dim[i];
    switch (param->spec.init) {
    case GP_INIT_CONSTANT:
        for (int64_t i = 0; i < elements; i++) store(out, real, i, param->spec.value);
        break;
    case GP_INIT_UNIFORM: fill_uniform(param, seed, real, elements, out); break;
    }
}
