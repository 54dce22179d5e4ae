/* The wire over MPI, and what else a run takes from it: how many processes there are, and a few bytes for all.
 *
 * A thread of its own, the carrier, makes all calls of MPI from open to close. It tests what is under way, and sleeps a
 * little where nothing has come to its end; it sleeps altogether while nothing is under way. So MPI_THREAD_SERIALIZED
 * is enough. The main thread opens and closes. */
#ifndef GP_PROCESS_MPI_WIRE_H
#define GP_PROCESS_MPI_WIRE_H

#include "process/deliveries.h"

/* Called once by the carrier's thread when a message has failed; nothing more is carried. */
typedef void (*gp_wire_failed)(void *context, const gp_error *cause);

/* Whether the program was built with MPI; "Open MPI 4.1.4" where it was, else "". */
bool gp_mpi_is_built(void);
const char *gp_mpi_library(void);
/* Starts MPI, which the process does once. GP_UNSUPPORTED: the program was built without it, or MPI has not the
 * threads. */
GP_MUST_USE gp_status gp_mpi_open(gp_wire_failed failed, void *context, gp_wire **out, gp_error *err);
/* What `from` has at `bytes` gets to all processes: before the carrier starts. Collective. */
void gp_mpi_broadcast(gp_wire *wire, int from, void *bytes, int count);
/* all[process]: what each has at `own`, `count` bytes. Before the carrier starts. Collective. */
void gp_mpi_gather(gp_wire *wire, const void *own, int count, void *all);
/* out[process]: the first process on its machine. Sets the limits of bulk messages, which are larger within a machine.
 * Before the carrier starts. Collective. */
void gp_mpi_machines(gp_wire *wire, int *out);
/* What the carrier begins and ends is counted there from its start on. Borrowed until the wire is closed. */
void gp_mpi_set_deliveries(gp_wire *wire, gp_deliveries *deliveries);
/* Starts the carrier. */
GP_MUST_USE gp_status gp_mpi_start(gp_wire *wire, gp_error *err);
/* Joins the carrier. `finish`: all processes do so now, and MPI ends too, if no message is under way; else MPI is left
 * as it is, and the process must end. */
void gp_mpi_close(gp_wire **wire, bool finish);

#endif
