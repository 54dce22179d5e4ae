#include "session/devices.h"

#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"
#include "device/ref/ref.h"

gp_status gp_device_spec_find(const gp_device_config *config, gp_device_spec *out, gp_error *err) {
    static const gp_device_kind *const kinds[] = {&gp_cpu_kind, &gp_cuda_kind, &gp_ref_kind};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(config->kind, kinds[i]->name) != 0) continue;
        if (kinds[i] == &gp_cuda_kind && !gp_cuda_built()) break;
        *out = (gp_device_spec){kinds[i], config->index, config->threads, config->memory};
        return GP_OK;
    }
    return gp_fail_at(
        err, GP_UNSUPPORTED, config->place,
        "device %s:%d: this program was built without CUDA; build it on a machine where CMake finds the CUDA toolkit",
        config->kind, config->index);
}

void gp_bus_addresses_find(gp_bus_addresses *out) {
    gp_error none = {0};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < GP_BUS_ADDRESSES && gp_cuda_built(); i++) {
        if (gp_cuda_kind.bus_address(i, out->of[i], &none) == GP_OK) continue;
        out->of[i][0] = '\0';
        return;
    }
}
