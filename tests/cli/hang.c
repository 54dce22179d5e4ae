/* A library to be loaded before a program's own (LD_PRELOAD). In the process whose rank is GP_HANG_RANK the computation
 * of oneDNN number GP_HANG_AT, counted from 1, never ends. If GP_HANG_AT is "TERM", it gets that signal while MPI
 * starts. If it is "STOP", it is stopped where it takes the first connection of another process's guard. If it is
 * "END", it is stopped where MPI ends. If it is "LOSE N", message number N that it sends over MPI never arrives. Any
 * thread may call. */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <oneapi/dnnl/dnnl.h>

enum { NOWHERE = 1 << 20 /* added to a tag: no message is received there */ };

static long at, lost; /* 0: never */
static bool ends, stops_late;
static atomic_bool stops;
static atomic_long computations, messages;

/* NULL: no launcher has started the process. */
static const char *own_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : getenv("PMI_RANK");
}

__attribute__((constructor)) static void begin(void) {
    const char *own = own_rank(), *rank = getenv("GP_HANG_RANK"), *number = getenv("GP_HANG_AT");
    if (!own || !rank || !number || strcmp(own, rank) != 0) return;
    at = strtol(number, NULL, 10);
    ends = strcmp(number, "TERM") == 0;
    stops_late = strcmp(number, "END") == 0;
    atomic_store(&stops, strcmp(number, "STOP") == 0);
    (void)sscanf(number, "LOSE %ld", &lost);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    if (ends) raise(SIGTERM);
    return ((__typeof__(&MPI_Init_thread))dlsym(RTLD_NEXT, "MPI_Init_thread"))(argc, argv, required, provided);
}

int MPI_Finalize(void) {
    if (stops_late) raise(SIGSTOP);
    return ((__typeof__(&MPI_Finalize))dlsym(RTLD_NEXT, "MPI_Finalize"))();
}

/* Libraries ask for the address of the other end; the guard does not. */
int accept4(int listening, struct sockaddr *address, socklen_t *length, int flags) {
    if (!address && atomic_exchange(&stops, false)) raise(SIGSTOP);
    return ((__typeof__(&accept4))dlsym(RTLD_NEXT, "accept4"))(listening, address, length, flags);
}

/* The types of Open MPI are pointers; those of MPICH fit into them. */
int MPI_Isend(const void *bytes, int count, void *type, int to, int tag, void *comm, void **request);
int MPI_Isend(const void *bytes, int count, void *type, int to, int tag, void *comm, void **request) {
    bool goes = lost == 0 || atomic_fetch_add(&messages, 1) + 1 != lost;
    return ((__typeof__(&MPI_Isend))dlsym(RTLD_NEXT, "MPI_Isend"))(bytes, count, type, to, goes ? tag : tag + NOWHERE,
                                                                   comm, request);
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int nargs,
                                     const dnnl_exec_arg_t *args) {
    if (at > 0 && atomic_fetch_add(&computations, 1) + 1 == at)
        for (;;) pause();
    return ((__typeof__(&dnnl_primitive_execute))dlsym(RTLD_NEXT, "dnnl_primitive_execute"))(primitive, stream, nargs,
                                                                                             args);
}
