#include "process/handshake.h"

gp_status gp_handshake_check_door(const gp_guard_door *door, gp_error *err) {
    if (door->port == 0) return gp_fail(err, GP_IO, "process 0 cannot listen");
    if (door->port > 0 && door->port <= UINT16_MAX && door->count >= 1 && door->count <= GP_GUARD_ADDRESSES)
        return GP_OK;
    return gp_fail(err, GP_INTERNAL, "process 0 says that it listens at port %d, at %d addresses", door->port,
                   door->count);
}

gp_status gp_handshake_check_networks(const gp_guard_network *all, int processes, gp_error *err) {
    for (int p = 0; p < processes; p++)
        if (all[p].count < 0 || all[p].count > GP_GUARD_ADDRESSES)
            return gp_fail(err, GP_INTERNAL, "process %d says that its network has %d addresses", p, all[p].count);
    return GP_OK;
}

gp_status gp_handshake_check_machines(const int *machines, int processes, gp_error *err) {
    for (int p = 0; p < processes; p++) {
        int first = machines[p];
        if (first < 0 || first > p || machines[first] != first)
            return gp_fail(err, GP_INTERNAL, "process %d says that process %d is the first one on its machine", p,
                           first);
    }
    return GP_OK;
}
