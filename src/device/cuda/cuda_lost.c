#include "device/cuda/cuda_lost.h"

#include <time.h>

long gp_cuda_lost_patience = 20000;

/* Bit i: device i. Those beyond are not looked at. */
static atomic_uint_least64_t watched;
enum { WATCHED = 64 };

void gp_cuda_lost_watch(int index) {
    if (index < WATCHED) atomic_fetch_or(&watched, UINT64_C(1) << index);
}

/* What failed late comes out at every later call; what a call did wrong itself does not. */
bool gp_cuda_lost(int index) {
    gp_cuda_memory unused;
    gp_error ignored;
    return gp_cuda->use(index, &ignored) != GP_OK || gp_cuda->memory(&unused, &ignored) != GP_OK;
}

static bool is_any_lost(void) {
    uint64_t all = atomic_load(&watched);
    for (int index = 0; index < WATCHED; index++)
        if (all >> index & 1 && gp_cuda_lost(index)) return true;
    return false;
}

bool gp_cuda_lost_wait(gp_cuda_event *event, int index) {
    enum { SPINS = 2000 };
    const struct timespec pause = {.tv_nsec = 20000};
    gp_error ignored;
    for (long turn = 1;; turn++) {
        bool done = false;
        if (gp_cuda->event_done(event, &done, &ignored) != GP_OK || done) return true;
        if (turn >= SPINS) nanosleep(&pause, NULL);
        if (turn % gp_cuda_lost_patience) continue;
        if (is_any_lost()) return false;
        (void)gp_cuda->use(index, &ignored);
    }
}
