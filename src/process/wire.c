#include "process/wire.h"

#include <sched.h>

/* The wire's thread may be between the two. */
gp_status gp_parcel_wait(gp_parcel *parcel, const gp_cancel *cancel, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_signal_wait(&parcel->done, parcel->value, cancel, err));
    while (atomic_load_explicit(&parcel->over, memory_order_acquire) < parcel->value) sched_yield();
    return GP_OK;
}

gp_status gp_wire_send_now(gp_wire *wire, int to, uint32_t tag, const void *address, size_t bytes,
                           const gp_cancel *cancel, gp_error *err) {
    gp_parcel parcel;
    gp_parcel_init(&parcel);
    gp_wire_send(wire, &parcel, 1, to, tag, address, bytes);
    gp_status status = gp_parcel_wait(&parcel, cancel, err);
    if (status != GP_OK) wire->kind->halt(wire); /* the parcel ends with this call */
    return status;
}

gp_status gp_wire_receive_now(gp_wire *wire, int from, uint32_t tag, void *address, size_t bytes,
                              const gp_cancel *cancel, gp_error *err) {
    gp_parcel parcel;
    gp_parcel_init(&parcel);
    gp_wire_receive(wire, &parcel, 1, from, tag, address, bytes);
    gp_status status = gp_parcel_wait(&parcel, cancel, err);
    if (status != GP_OK) wire->kind->halt(wire);
    return status;
}
