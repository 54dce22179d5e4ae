#include "session/sharing.h"

#include <string.h>

gp_status gp_bus_addresses_gather(gp_wire *wire, uint32_t tag, const gp_bus_addresses *own, gp_bus_addresses *all,
                                  const gp_cancel *cancel, gp_error *err) {
    if (wire->rank > 0) return gp_wire_send_now(wire, 0, tag, own, sizeof *own, cancel, err);
    all[0] = *own;
    for (int p = 1; p < wire->processes; p++) {
        GP_RETURN_IF_FAILED(gp_wire_receive_now(wire, p, tag, &all[p], sizeof all[p], cancel, err));
        for (int i = 0; i < GP_BUS_ADDRESSES; i++) all[p].of[i][GP_BUS_ADDRESS - 1] = '\0';
    }
    return GP_OK;
}

/* "": not known. */
static const char *address_of(const gp_device_spec *device, const gp_bus_addresses *its) {
    return device->kind->bus_address && device->index < GP_BUS_ADDRESSES ? its->of[device->index] : "";
}

int gp_sharing_find(const gp_device_spec *devices, int workers, const int *process, const int *machines,
                    const gp_bus_addresses *all, int *other) {
    for (int w = 0; w < workers; w++) {
        const char *address = address_of(&devices[w], &all[process[w]]);
        for (int v = w + 1; v < workers && address[0]; v++) {
            bool apart = process[v] != process[w];
            bool near = !machines || machines[process[v]] == machines[process[w]];
            *other = v;
            if (apart && near && strcmp(address, address_of(&devices[v], &all[process[v]])) == 0) return w;
        }
    }
    return -1;
}
