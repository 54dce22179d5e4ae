#include "balance/measure.h"

#include <stdlib.h>

#include "balance/copies.h"
#include "base/memory.h"
#include "trace/recorder.h"

typedef struct measure {
    const gp_measure_request *request;
    uint64_t (*clock)(void);
    uint64_t from;
    gp_bench *benches; /* [device] */
    int open;
} measure;

static double elapsed(const measure *m) {
    return (double)(m->clock() - m->from) * 1e-9;
}

static bool is_late(const void *context) {
    const measure *m = context;
    return elapsed(m) >= m->request->seconds;
}

static gp_status open_benches(measure *m, gp_error *err) {
    const gp_measure_request *request = m->request;
    GP_RETURN_IF_FAILED(GP_NEW(&m->benches, request->device_count, err));
    for (int d = 0; d < request->device_count; d++) {
        const gp_device_spec *spec = &request->devices[d];
        const gp_bench_request bench = {.graph = request->graph,
                                        .spec = *spec,
                                        .update = request->update,
                                        .clip_norm = request->clip_norm,
                                        .real = GP_F32,
                                        .samples = request->samples,
                                        .memory = request->memory,
                                        .clock = m->clock};
        GP_RETURN_IF_FAILED(gp_bench_open(&bench, &m->benches[d], err));
        m->open++;
    }
    return GP_OK;
}

static gp_status find_width(const measure *m, double *out, gp_error *err) {
    *out = 0;
    for (int d = 0; d < m->open; d++) {
        double width;
        GP_RETURN_IF_FAILED(gp_bench_width(&m->benches[d], &width, err));
        if (width > *out) *out = width;
    }
    return GP_OK;
}

/* Few rounds say little where neighbours are noisy: then it may take longer. */
static bool is_over(const measure *m, int rounds) {
    double times = elapsed(m) / m->request->seconds;
    return times >= (rounds < GP_MEASURE_FEW_ROUNDS ? 3 : 1);
}

/* How narrow it is by now is looked at ever more seldom: that takes time too. */
static gp_status run_rounds(measure *m, gp_measured *out, gp_error *err) {
    int look = GP_MEASURE_ROUNDS;
    for (out->rounds = 0;;) {
        for (int d = 0; d < m->open; d++)
            GP_RETURN_IF_FAILED(gp_bench_round(&m->benches[d], out->rounds == 0, is_late, m, err));
        out->rounds++;
        bool late = is_over(m, out->rounds);
        if (!late && out->rounds < look) continue;
        look += look / 4;
        GP_RETURN_IF_FAILED(find_width(m, &out->width, err));
        if (late || out->width <= GP_MEASURE_NARROW) return GP_OK;
    }
}

static gp_status run_measure(measure *m, gp_profile *profile, gp_measured *out, gp_error *err) {
    GP_RETURN_IF_FAILED(open_benches(m, err));
    GP_RETURN_IF_FAILED(run_rounds(m, out, err));
    for (int d = 0; d < m->open; d++) {
        gp_profile_device *row = &profile->devices[d];
        GP_RETURN_IF_FAILED(gp_bench_layers(&m->benches[d], m->request->mix, row->layers, err));
        GP_RETURN_IF_FAILED(gp_bench_slowdown(&m->benches[d], &row->slowdown, err));
    }
    GP_RETURN_IF_FAILED(gp_measure_copies(m->benches, m->open, profile, err));
    gp_profile_round(profile);
    out->seconds = elapsed(m);
    return GP_OK;
}

gp_status gp_profile_measure(const gp_measure_request *request, gp_profile *profile, gp_measured *out, gp_error *err) {
    measure m = {.request = request, .clock = request->clock ? request->clock : gp_clock};
    m.from = m.clock();
    gp_status status = run_measure(&m, profile, out, err);
    for (int d = 0; d < m.open; d++) gp_bench_close(&m.benches[d]);
    free(m.benches);
    return status;
}
