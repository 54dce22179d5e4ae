#include "profile/measure.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/machine_processors.h"
#include "base/memory.h"
#include "base/sync.h"
#include "profile/profile_file.h"
#include "profile/rounds.h"

typedef struct measure {
    gp_measure_request request; /* with a clock */
    uint64_t from;
    gp_bench *benches; /* those of the devices, then company */
    int open;
} measure;

static gp_status open_bench(measure *m, const gp_device_spec *spec, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_bench_open(&m->request, spec, &m->benches[m->open], err));
    m->open++;
    return GP_OK;
}

static gp_status open_benches(measure *m, gp_error *err) {
    const gp_measure_request *request = &m->request;
    GP_RETURN_IF_FAILED(GP_NEW(&m->benches, request->device_count + request->company_count, err));
    for (int d = 0; d < request->device_count; d++) GP_RETURN_IF_FAILED(open_bench(m, &request->devices[d], err));
    for (int c = 0; c < request->company_count; c++) GP_RETURN_IF_FAILED(open_bench(m, &request->company[c], err));
    return GP_OK;
}

static gp_status read_bench(const gp_bench *bench, gp_measure_mix mix, gp_profile_device *row, gp_error *err) {
    gp_bench_medians medians;
    GP_RETURN_IF_FAILED(gp_bench_find_medians(bench, &medians, err));
    gp_bench_add_layers(bench, medians.op, mix, row->layers);
    row->slowdown = medians.slowdown;
    row->spread = medians.width;
    free(medians.op);
    return GP_OK;
}

static int count_together(const measure *m) {
    int on_host = 0;
    for (int b = 0; b < m->open; b++) on_host += m->benches[b].spec.kind->on_host;
    return m->request.at_once || on_host == 0 ? on_host : 1;
}

static int more(int a, int b) {
    return a > b ? a : b;
}

/* Those that may be busy at the same time: of all benches, or of the one whose turn it is. The calling thread waits for
 * benches away from the host. */
static int busy_threads(const gp_measure_request *request) {
    int sum = 0, most = 0, away = 0;
    for (int b = 0; b < request->device_count + request->company_count; b++) {
        const gp_device_spec *spec =
            b < request->device_count ? &request->devices[b] : &request->company[b - request->device_count];
        away = more(away, !spec->kind->on_host);
        if (!spec->kind->on_host) continue;
        sum += more(spec->threads, 1);
        most = more(most, spec->threads);
    }
    return request->at_once ? sum + away : more(most, 1);
}

static gp_status run_measure(measure *m, gp_profile *profile, gp_measured *out, gp_error *err) {
    const gp_measure_request *request = &m->request;
    GP_RETURN_IF_FAILED(open_benches(m, err));
    GP_RETURN_IF_FAILED(gp_rounds_run(request, m->benches, m->open, m->from, out, err));
    profile->taken = (int64_t)time(NULL);
    for (int d = 0; d < request->device_count; d++)
        GP_RETURN_IF_FAILED(read_bench(&m->benches[d], request->mix, &profile->devices[d], err));
    GP_RETURN_IF_FAILED(gp_measure_copies(m->benches, request->device_count, profile, err));
    gp_profile_round(profile);
    profile->identity.together = count_together(m);
    out->seconds = (double)(request->clock() - m->from) * 1e-9;
    return GP_OK;
}

gp_status gp_profile_measure(const gp_measure_request *request, gp_profile *profile, gp_measured *out, gp_error *err) {
    measure m = {.request = *request};
    if (!m.request.clock) m.request.clock = gp_clock;
    m.from = m.request.clock();
    /* The pools of devices with several threads wait as they do in a run. */
    uint32_t before = gp_wait_spins();
    gp_wait_spin(gp_machine_spin(busy_threads(request)));
    gp_status status = run_measure(&m, profile, out, err);
    for (int b = 0; b < m.open; b++) gp_bench_close(&m.benches[b]);
    free(m.benches);
    gp_wait_spin(before);
    return status;
}
