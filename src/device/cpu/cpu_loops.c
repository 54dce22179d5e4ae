#include "device/cpu/cpu_loops.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

/* Defined by loops/table.c, in each of its versions. */
#define DECLARE(version) extern const gp_cpu_loops gp_cpu_loops_##version;
GP_CPU_VERSIONS(DECLARE)

#define ADDRESS(version) &gp_cpu_loops_##version,
static const gp_cpu_loops *const versions[GP_CPU_VERSION_COUNT] = {GP_CPU_VERSIONS(ADDRESS)};

const gp_cpu_loops *gp_cpu_loops_of(int version) {
    assert(version >= 0 && version < GP_CPU_VERSION_COUNT);
    return versions[version];
}

#if defined(__x86_64__)
static bool has(dnnl_cpu_isa_t effective, dnnl_cpu_isa_t set) {
    return ((unsigned)effective & (unsigned)set) == (unsigned)set;
}

int gp_cpu_loops_usable(void) {
    dnnl_cpu_isa_t effective = dnnl_get_effective_cpu_isa();
    if (!has(effective, dnnl_cpu_isa_avx2)) return GP_CPU_VERSION_plain + 1;
    return has(effective, dnnl_cpu_isa_avx512_core) ? GP_CPU_VERSION_avx512 + 1 : GP_CPU_VERSION_avx2 + 1;
}
#else
int gp_cpu_loops_usable(void) {
    return GP_CPU_VERSION_plain + 1;
}
#endif

static pthread_once_t choose_once = PTHREAD_ONCE_INIT;
static const gp_cpu_loops *chosen;

static void choose(void) {
    chosen = versions[gp_cpu_loops_usable() - 1];
}

const gp_cpu_loops *gp_cpu_loops_chosen(void) {
    pthread_once(&choose_once, choose);
    return chosen;
}

gp_status gp_cpu_loop_run(const gp_cpu_call *call, gp_error *err) {
    const gp_cpu_loop *loop = call->loops->loop[call->prepared->desc.kind];
    if (loop->run) return loop->run(call, err);
    if (loop->compute)
        loop->compute(call);
    else
        gp_cpu_spans(call, loop->span, NULL);
    return GP_OK;
}
