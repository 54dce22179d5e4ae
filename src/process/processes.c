#include "process/processes.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "process/launch.h"
#include "process/handshake.h"
#include "process/mpi_wire.h"
#include "process/start_limit.h"

enum { SPEAKS_BEFORE = 2 /* seconds */ };

struct gp_processes {
    gp_wire *wire;
    int *machines;  /* [process] */
    int processors; /* of the own machine, for all of its processes */
    gp_deliveries *deliveries;
    gp_guard *guard;
    bool begun;
};

static void fail(void *context, const gp_error *cause) {
    gp_processes *its = context;
    gp_error copy = *cause;
    gp_guard_fail(its->guard, &copy);
}

/* A launcher may have bound each process to processors of its own. */
static gp_status count_processors(gp_processes *its, gp_error *err) {
    cpu_set_t own, *all = NULL, together;
    gp_wire *wire = its->wire;
    CPU_ZERO(&own);
    CPU_ZERO(&together);
    (void)sched_getaffinity(0, sizeof own, &own);
    GP_RETURN_IF_FAILED(GP_NEW(&all, wire->processes, err));
    gp_mpi_gather(wire, &own, (int)sizeof own, all);
    for (int p = 0; p < wire->processes; p++)
        if (its->machines[p] == its->machines[wire->rank]) CPU_OR(&together, &together, &all[p]);
    its->processors = CPU_COUNT(&together);
    free(all);
    return GP_OK;
}

/* *count: of what gp_guard_listen is to look at; 0: all processes are on one machine, and see one network there. */
static gp_status gather_networks(const gp_processes *its, gp_guard_network **out, int *count, gp_error *err) {
    gp_guard_network own;
    int processes = its->wire->processes;
    bool near = true;
    gp_guard_describe_network(&own);
    GP_RETURN_IF_FAILED(GP_NEW(out, processes, err));
    gp_mpi_gather(its->wire, &own, (int)sizeof own, *out);
    GP_RETURN_IF_FAILED(gp_handshake_check_networks(*out, processes, err));
    for (int p = 1; p < processes; p++) near = near && its->machines[p] == 0 && (*out)[p].space == (*out)[0].space;
    *count = near ? 0 : processes;
    return GP_OK;
}

/* Process 0 says where it listens, or that it cannot. It speaks of connections that do not come before the limit ends
 * it; the limit ends the others. */
static gp_status connect_guards(gp_processes *its, gp_start_limit *limit, gp_error *err) {
    gp_guard_door door = {0};
    gp_guard_listener listener = {.count = 0};
    gp_guard_network *networks = NULL;
    int count = 0, rank = its->wire->rank;
    gp_status status = gather_networks(its, &networks, &count, err);
    if (status == GP_OK && rank == 0) status = gp_guard_listen(networks, count, &door, &listener, err);
    free(networks);
    gp_mpi_broadcast(its->wire, 0, &door, (int)sizeof door);
    if (status == GP_OK) status = gp_handshake_check_door(&door, err);
    GP_RETURN_IF_FAILED(status);
    double left = gp_start_limit_left(limit) - SPEAKS_BEFORE;
    double seconds = rank > 0 ? 2 * GP_START_SECONDS : left > 1 ? left : 1;
    return gp_guard_start(&door, &listener, rank, its->wire->processes, seconds, &its->guard, err);
}

static gp_status meet(gp_processes *its, gp_start_limit *limit, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&its->machines, its->wire->processes, err));
    gp_mpi_machines(its->wire, its->machines);
    GP_RETURN_IF_FAILED(gp_handshake_check_machines(its->machines, its->wire->processes, err));
    GP_RETURN_IF_FAILED(count_processors(its, err));
    GP_RETURN_IF_FAILED(connect_guards(its, limit, err));
    GP_RETURN_IF_FAILED(gp_deliveries_create(its->wire->rank, its->wire->processes, &its->deliveries, err));
    gp_mpi_set_deliveries(its->wire, its->deliveries);
    gp_guard_set_deliveries(its->guard, its->deliveries);
    return gp_mpi_start(its->wire, err);
}

uint64_t gp_processes_task(int argc, char **argv) {
    uint64_t task = 0;
    for (int i = 1; i < argc; i++) task = gp_hash_bytes(task, argv[i], strlen(argv[i]) + 1);
    return task;
}

static gp_status compare_tasks(gp_processes *its, uint64_t task, gp_error *err) {
    uint64_t *all = NULL;
    int other = 1;
    GP_RETURN_IF_FAILED(GP_NEW(&all, its->wire->processes, err));
    gp_mpi_gather(its->wire, &task, (int)sizeof task, all);
    while (other < its->wire->processes && all[other] == all[0]) other++;
    free(all);
    if (other == its->wire->processes) return GP_OK;
    return gp_fail(err, GP_USAGE, "process %d was started with other arguments than process 0; all need the same",
                   other);
}

gp_status gp_processes_open(uint64_t task, gp_processes **out, gp_error *err) {
    gp_processes *its = NULL;
    int count, rank;
    gp_launch_find(&count, &rank);
    if (gp_mpi_is_built()) GP_RETURN_IF_FAILED(gp_launch_check(gp_mpi_library(), err));
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    gp_start_limit *limit = gp_start_limit_begin(rank, GP_START_SECONDS);
    gp_status status = gp_mpi_open(fail, its, &its->wire, err);
    if (status == GP_OK && its->wire->processes != count)
        status =
            gp_fail(err, GP_UNSUPPORTED,
                    "the launcher started %d processes, but MPI knows %d: they do not see one another; with Slurm, "
                    "try srun --mpi=pmix",
                    count, its->wire->processes);
    if (status == GP_OK) status = compare_tasks(its, task, err);
    if (status == GP_OK) status = meet(its, limit, err);
    gp_start_limit_end(&limit);
    if (status != GP_OK) {
        gp_guard_stop(&its->guard);
        if (its->wire) gp_mpi_close(&its->wire, false);
        gp_deliveries_destroy(&its->deliveries);
        free(its->machines);
        free(its);
    } else {
        *out = its;
    }
    return status;
}

bool gp_processes_end(gp_processes *its, gp_status *status, gp_error *err) {
    gp_error cause = {.status = *status};
    if (*status != GP_OK) {
        cause = *err;
        cause.status = *status;
        gp_guard_fail(its->guard, &cause);
    } else {
        (void)gp_guard_cause(its->guard, &cause);
    }
    *status = cause.status;
    *err = cause;
    bool speaks = gp_guard_speaks(its->guard), lost = gp_guard_has_lost(its->guard);
    bool well = *status == GP_OK || *status == GP_INTERRUPTED; /* all messages have arrived */
    if (well && its->wire->rank == 0) gp_guard_finish(its->guard, *status);
    gp_mpi_close(&its->wire, !lost && (well || (!its->begun && *status != GP_LOST)));
    return speaks;
}

void gp_processes_close(gp_processes **processes) {
    gp_processes *its = *processes;
    if (!its) return;
    gp_guard_stop(&its->guard);
    gp_deliveries_destroy(&its->deliveries);
    free(its->machines);
    free(its);
    *processes = NULL;
}

void gp_processes_saved(gp_processes *processes, gp_status status) {
    if (processes->wire->rank == 0) gp_guard_finish(processes->guard, status);
}

void gp_processes_begin_run(gp_processes *processes) {
    processes->begun = true;
}

const char *gp_processes_host(const gp_processes *processes, int rank) {
    return gp_guard_host(processes->guard, rank);
}

const int *gp_processes_machines(const gp_processes *processes) {
    return processes->machines;
}

int gp_processes_processors(const gp_processes *processes) {
    return processes->processors;
}

gp_wire *gp_processes_wire(gp_processes *processes) {
    return processes->wire;
}

const char *gp_processes_library(void) {
    return gp_mpi_library();
}

bool gp_processes_are_built(void) {
    return gp_mpi_is_built();
}

void gp_processes_set_timeout(gp_processes *processes, double seconds) {
    gp_guard_set_timeout(processes->guard, seconds);
}

void gp_processes_watch(gp_processes *processes, gp_cancel *cancel) {
    gp_guard_watch(processes->guard, cancel);
}

gp_status gp_processes_cancel_init(gp_processes *processes, gp_cancel *cancel, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cancel_init(cancel, err));
    gp_processes_watch(processes, cancel);
    return GP_OK;
}

void gp_processes_cancel_fini(gp_processes *processes, gp_cancel *cancel) {
    gp_processes_watch(processes, NULL);
    gp_cancel_fini(cancel);
}

void gp_processes_set_look(gp_processes *processes, gp_guard_look look, void *context) {
    gp_guard_set_look(processes->guard, look, context);
}

void gp_processes_fail(gp_processes *processes, const gp_error *err) {
    fail(processes, err);
}

static gp_status tell_all(gp_processes *processes, uint32_t tag, const void *bytes, size_t count,
                          const gp_cancel *cancel, gp_error *err) {
    gp_wire *wire = processes->wire;
    for (int p = 1; p < wire->processes; p++)
        GP_RETURN_IF_FAILED(gp_wire_send_now(wire, p, tag, bytes, count, cancel, err));
    return GP_OK;
}

gp_status gp_processes_tell(gp_processes *processes, uint32_t tag, const void *bytes, size_t count, gp_error *err) {
    gp_cancel cancel;
    GP_RETURN_IF_FAILED(gp_processes_cancel_init(processes, &cancel, err));
    gp_status status = tell_all(processes, tag, bytes, count, &cancel, err);
    gp_processes_cancel_fini(processes, &cancel);
    return status;
}

gp_status gp_processes_hear(gp_processes *processes, uint32_t tag, void *bytes, size_t count, gp_error *err) {
    gp_cancel cancel;
    GP_RETURN_IF_FAILED(gp_processes_cancel_init(processes, &cancel, err));
    gp_status status = gp_wire_receive_now(processes->wire, 0, tag, bytes, count, &cancel, err);
    gp_processes_cancel_fini(processes, &cancel);
    return status;
}

void gp_processes_ask_stop(gp_processes *processes) {
    gp_guard_ask_stop(processes->guard);
}

bool gp_processes_are_asked(gp_processes *processes) {
    return gp_guard_is_asked(processes->guard);
}
