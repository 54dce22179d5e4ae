/* What stands for the wire over MPI in a program that is built without MPI (process/mpi_wire.h). */
#include "process/mpi_wire.h"

#ifndef GP_MPI

#include <string.h>

bool gp_mpi_is_built(void) {
    return false;
}

const char *gp_mpi_library(void) {
    return "";
}

gp_status gp_mpi_open(gp_wire_failed failed, void *context, gp_wire **out, gp_error *err) {
    (void)failed;
    (void)context;
    (void)out;
    return gp_fail(err, GP_UNSUPPORTED,
                   "this program was built without MPI, and cannot run as several processes: install an MPI "
                   "(scripts/setup.sh --mpi), and build again");
}

void gp_mpi_broadcast(gp_wire *wire, int from, void *bytes, int count) {
    (void)wire;
    (void)from;
    (void)bytes;
    (void)count;
}

void gp_mpi_gather(gp_wire *wire, const void *own, int count, void *all) {
    (void)wire;
    memcpy(all, own, (size_t)count);
}

void gp_mpi_machines(gp_wire *wire, int *out) {
    (void)wire;
    *out = 0;
}

void gp_mpi_set_deliveries(gp_wire *wire, gp_deliveries *deliveries) {
    (void)wire;
    (void)deliveries;
}

gp_status gp_mpi_start(gp_wire *wire, gp_error *err) {
    (void)wire;
    return gp_fail(err, GP_UNSUPPORTED, "no MPI");
}

void gp_mpi_close(gp_wire **wire, bool finish) {
    (void)wire;
    (void)finish;
}

#endif
