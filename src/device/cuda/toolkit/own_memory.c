#include "device/cuda/toolkit/own_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static gp_nvml_calls calls;
static bool is_open;

/* The driver numbers processes as the first namespace does, whose inode is the same on every Linux. */
static bool has_the_drivers_numbers(void) {
    static const char first[] = "pid:[4026531836]";
    char link[64];
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link);
    return length == (ssize_t)strlen(first) && memcmp(link, first, (size_t)length) == 0;
}

static bool find(void *library, const char *name, void *member) {
    void *function = dlsym(library, name);
    if (function) memcpy(member, &function, sizeof function);
    return function != NULL;
}

static void open_library(void) {
    if (!has_the_drivers_numbers()) return;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    is_open = find(library, "nvmlInit_v2", &calls.init) &&
              find(library, "nvmlDeviceGetHandleByPciBusId_v2", &calls.device) &&
              find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &calls.processes) && calls.init() == 0;
}

const gp_nvml_calls *gp_nvml_open(void) {
    (void)pthread_once(&once, open_library);
    return is_open ? &calls : NULL;
}

size_t gp_nvml_held(const gp_nvml_calls *nvml, const char *bus, unsigned pid) {
    enum { MOST = 256 };
    gp_nvml_process process[MOST];
    void *device = NULL;
    unsigned count = MOST;
    size_t held = 0;
    if (nvml->device(bus, &device) != 0 || nvml->processes(device, &count, process) != 0 || count > MOST) return 0;
    for (unsigned i = 0; i < count; i++) {
        if (process[i].pid != pid) continue;
        if (process[i].used == ~0ULL) return 0;
        held += process[i].used; /* once for each instance of a divided GPU */
    }
    return held;
}
