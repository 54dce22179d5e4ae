#include "process/mpi_wire.h"

#ifdef GP_MPI

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

enum {
    CHUNK = 1 << 30, /* bytes of one message of MPI, whose counts are ints */
    QUICK = 64,      /* rounds without result before the carrier sleeps between them */
    NAP = 20000,     /* nanoseconds that it sleeps, at first; twice as long each time, up to: */
    LONG_NAP = 80000,
    /* Bytes of bulk messages under way to one process, above which no further one begins: to another machine, and to
     * one on the same machine, where a receiver hears of each message as soon as it has come
     * (bench/results/2026-11-24-buckets.txt). */
    FAR_BULK = 4 << 20,
    NEAR_BULK = 64 << 20,
};

/* Bulk messages to one process. MPI may tell the receiver of one only when all that were begun have arrived. */
typedef struct bulk_queue {
    gp_parcel *first, *last; /* that have not begun */
    size_t bytes;            /* of those that have */
    size_t most;             /* FAR_BULK or NEAR_BULK */
} bulk_queue;

typedef struct mpi_wire {
    gp_wire wire;
    MPI_Comm comm;
    gp_wire_failed failed;
    void *context;
    pthread_t thread;
    gp_deliveries *deliveries; /* NULL: none */
    bool started;
    bool broken; /* messages were under way when the carrier ended; its own until it is joined */

    pthread_mutex_t lock;
    pthread_cond_t change;
    gp_parcel *first, *last; /* posted, and not begun; lock, as the next */
    bool quit, halted;

    /* The carrier's. */
    MPI_Request *requests; /* under way, `count` of them */
    gp_parcel **owners;    /* [request] */
    int *indices;          /* [request] those that are over */
    MPI_Status *statuses;
    size_t count, capacity;
    bulk_queue *bulk; /* [process] */
} mpi_wire;

static mpi_wire *of(gp_wire *wire) {
    return (mpi_wire *)wire;
}

/* ---- the carrier ------------------------------------------------------------------------------------------------- */

static gp_status explain(int code, const char *what, gp_error *err) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return gp_fail(err, GP_IO, "%s: MPI says: %s", what, text);
}

static gp_status make_room(mpi_wire *its, size_t more, gp_error *err) {
    if (its->count + more <= its->capacity) return GP_OK;
    size_t capacity = 2 * its->capacity > its->count + more ? 2 * its->capacity : its->count + more;
    MPI_Request *requests = realloc(its->requests, capacity * sizeof *requests);
    if (requests) its->requests = requests;
    gp_parcel **owners = realloc(its->owners, capacity * sizeof *owners);
    if (owners) its->owners = owners;
    int *indices = realloc(its->indices, capacity * sizeof *indices);
    if (indices) its->indices = indices;
    MPI_Status *statuses = realloc(its->statuses, capacity * sizeof *statuses);
    if (statuses) its->statuses = statuses;
    if (!requests || !owners || !indices || !statuses)
        return gp_fail(err, GP_MEMORY, "out of memory: %zu messages", capacity);
    its->capacity = capacity;
    return GP_OK;
}

/* In messages of at most CHUNK bytes. */
static gp_status begin_parcel(mpi_wire *its, gp_parcel *parcel, gp_error *err) {
    size_t chunks = (parcel->bytes + CHUNK - 1) / CHUNK;
    GP_RETURN_IF_FAILED(make_room(its, chunks, err));
    parcel->moved = 0;
    if (its->deliveries) gp_deliveries_begin(its->deliveries, parcel);
    for (size_t c = 0; c < chunks; c++) {
        char *address = (char *)parcel->address + c * CHUNK;
        size_t left = parcel->bytes - c * CHUNK;
        int bytes = left < CHUNK ? (int)left : CHUNK, tag = (int)parcel->tag;
        MPI_Request *request = &its->requests[its->count];
        int code = parcel->receives ? MPI_Irecv(address, bytes, MPI_BYTE, parcel->rank, tag, its->comm, request)
                                    : MPI_Isend(address, bytes, MPI_BYTE, parcel->rank, tag, its->comm, request);
        if (code != MPI_SUCCESS) return explain(code, "a message could not begin", err);
        its->owners[its->count++] = parcel;
    }
    return GP_OK;
}

static void append(gp_parcel **first, gp_parcel **last, gp_parcel *parcel) {
    parcel->next = NULL;
    if (*last)
        (*last)->next = parcel;
    else
        *first = parcel;
    *last = parcel;
}

/* Begins what may begin now. */
static gp_status begin_bulk(mpi_wire *its, bulk_queue *queue, gp_error *err) {
    while (queue->first && queue->bytes < queue->most) {
        gp_parcel *parcel = queue->first;
        queue->first = parcel->next;
        if (!queue->first) queue->last = NULL;
        queue->bytes += parcel->bytes;
        GP_RETURN_IF_FAILED(begin_parcel(its, parcel, err));
    }
    return GP_OK;
}

static gp_status begin(mpi_wire *its, gp_parcel *parcel, gp_error *err) {
    if (!parcel->bulk) return begin_parcel(its, parcel, err);
    bulk_queue *queue = &its->bulk[parcel->rank];
    append(&queue->first, &queue->last, parcel);
    return begin_bulk(its, queue, err);
}

static gp_status end_parcel(mpi_wire *its, gp_parcel *parcel, gp_error *err) {
    bulk_queue *queue = parcel->bulk ? &its->bulk[parcel->rank] : NULL;
    if (queue) queue->bytes -= parcel->bytes;
    if (its->deliveries) gp_deliveries_end(its->deliveries, parcel);
    gp_parcel *then = gp_parcel_end(parcel);
    if (then) GP_RETURN_IF_FAILED(begin(its, then, err));
    return queue ? begin_bulk(its, queue, err) : GP_OK;
}

static gp_status check_size(const gp_parcel *parcel, MPI_Status *status, int *count, gp_error *err) {
    MPI_Get_count(status, MPI_BYTE, count);
    size_t left = parcel->bytes - parcel->moved;
    if (*count > 0 && (size_t)*count <= left && (*count == CHUNK || (size_t)*count == left % CHUNK)) return GP_OK;
    return gp_fail(err, GP_IO, "process %d sent a message of another size than planned: %d bytes, not %zu",
                   parcel->rank, *count, left);
}

static gp_status end_request(mpi_wire *its, int index, MPI_Status *status, gp_error *err) {
    gp_parcel *parcel = its->owners[index];
    int count = 0;
    if (parcel->receives) {
        GP_RETURN_IF_FAILED(check_size(parcel, status, &count, err));
    } else {
        size_t left = parcel->bytes - parcel->moved;
        count = left < CHUNK ? (int)left : CHUNK; /* which of its chunks does not matter */
    }
    parcel->moved += (size_t)count;
    its->owners[index] = NULL;
    if (parcel->moved == parcel->bytes) return end_parcel(its, parcel, err);
    if (its->deliveries) gp_deliveries_move(its->deliveries);
    return GP_OK;
}

/* The order of what is left does not matter. */
static void drop_ended(mpi_wire *its) {
    size_t kept = 0;
    for (size_t i = 0; i < its->count; i++) {
        if (!its->owners[i]) continue;
        its->owners[kept] = its->owners[i];
        its->requests[kept++] = its->requests[i];
    }
    its->count = kept;
}

static gp_status test_requests(mpi_wire *its, bool *any, gp_error *err) {
    int ended = 0;
    int code = MPI_Testsome((int)its->count, its->requests, &ended, its->indices, its->statuses);
    *any = ended > 0;
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return explain(code, "a message was not delivered", err);
    for (int i = 0; i < ended; i++) {
        int own = code == MPI_ERR_IN_STATUS ? its->statuses[i].MPI_ERROR : MPI_SUCCESS;
        if (own != MPI_SUCCESS && own != MPI_ERR_PENDING) return explain(own, "a message was not delivered", err);
        GP_RETURN_IF_FAILED(end_request(its, its->indices[i], &its->statuses[i], err));
    }
    if (ended > 0) drop_ended(its);
    return GP_OK;
}

/* The posted parcels; waits for some while nothing is under way. False: the carrier is to end. */
static bool take_posted(mpi_wire *its, gp_parcel **out) {
    pthread_mutex_lock(&its->lock);
    while (!its->first && its->count == 0 && !its->quit && !its->halted) pthread_cond_wait(&its->change, &its->lock);
    bool go_on = !its->halted && !(its->quit && !its->first && its->count == 0);
    *out = its->first;
    its->first = its->last = NULL;
    pthread_mutex_unlock(&its->lock);
    return go_on;
}

/* Sleeps longer the longer nothing comes to its end, so that workers have the processors. */
static void rest(int rounds) {
    struct timespec nap = {0, NAP};
    for (int i = QUICK; i < rounds && nap.tv_nsec < LONG_NAP; i++) nap.tv_nsec *= 2;
    if (rounds < QUICK)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

static gp_status carry(mpi_wire *its, gp_error *err) {
    gp_parcel *posted;
    for (int idle = 0; take_posted(its, &posted);) {
        bool any = posted != NULL;
        while (posted) {
            gp_parcel *parcel = posted;
            posted = parcel->next;
            GP_RETURN_IF_FAILED(begin(its, parcel, err));
        }
        bool ended = false;
        if (its->count > 0) GP_RETURN_IF_FAILED(test_requests(its, &ended, err));
        idle = any || ended ? 0 : idle + 1;
        if (idle > 0 && its->count > 0) rest(idle);
    }
    return GP_OK;
}

/* A receive that no message has met can be taken back. Any other request belongs to MPI until the process ends: then
 * MPI is not called any more, since it would use memory that is gone. */
static void give_up(mpi_wire *its) {
    for (size_t i = 0; i < its->count && !its->broken; i++) {
        int over = 0;
        its->broken = !its->owners[i] || !its->owners[i]->receives || MPI_Cancel(&its->requests[i]) != MPI_SUCCESS ||
                      MPI_Test(&its->requests[i], &over, MPI_STATUS_IGNORE) != MPI_SUCCESS || !over;
    }
    its->count = 0;
}

static void *work(void *argument) {
    mpi_wire *its = argument;
    gp_error err = {0};
    gp_status status = carry(its, &err);
    its->broken = status != GP_OK;
    if (its->deliveries) gp_deliveries_stop(its->deliveries);
    give_up(its);
    if (status != GP_OK) its->failed(its->context, &err);
    return NULL;
}

/* ---- posting ----------------------------------------------------------------------------------------------------- */

static void post(gp_wire *wire, gp_parcel *parcel) {
    mpi_wire *its = of(wire);
    pthread_mutex_lock(&its->lock);
    append(&its->first, &its->last, parcel);
    pthread_cond_signal(&its->change);
    pthread_mutex_unlock(&its->lock);
}

static void end_carrier(mpi_wire *its, bool halt) {
    pthread_mutex_lock(&its->lock);
    its->quit = true;
    its->halted = its->halted || halt;
    bool started = its->started;
    its->started = false;
    pthread_cond_signal(&its->change);
    pthread_mutex_unlock(&its->lock);
    if (started) pthread_join(its->thread, NULL);
}

static void halt(gp_wire *wire) {
    end_carrier(of(wire), true);
}

static const gp_wire_kind kind = {"MPI", post, halt};

/* ---- open, close ------------------------------------------------------------------------------------------------- */

bool gp_mpi_is_built(void) {
    return true;
}

const char *gp_mpi_library(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}

gp_status gp_mpi_open(gp_wire_failed failed, void *context, gp_wire **out, gp_error *err) {
    mpi_wire *its = NULL;
    int has = MPI_THREAD_SINGLE, found = 0, *most = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &has);
    if (code != MPI_SUCCESS || has < MPI_THREAD_SERIALIZED) {
        free(its);
        return gp_fail(err, GP_UNSUPPORTED, "MPI could not be started%s",
                       code == MPI_SUCCESS ? ": it does not support threads (MPI_THREAD_SERIALIZED)" : "");
    }
    MPI_Comm_size(MPI_COMM_WORLD, &its->wire.processes);
    if (GP_NEW(&its->bulk, its->wire.processes, err) != GP_OK) {
        free(its);
        return GP_MEMORY;
    }
    for (int p = 0; p < its->wire.processes; p++) its->bulk[p].most = FAR_BULK;
    MPI_Comm_dup(MPI_COMM_WORLD, &its->comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(its->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(its->comm, &its->wire.rank);
    MPI_Comm_get_attr(its->comm, MPI_TAG_UB, (void *)&most, &found);
    its->wire.tags = found && most ? (uint32_t)*most : 32767;
    its->wire.kind = &kind;
    its->failed = failed;
    its->context = context;
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->change, NULL);
    *out = &its->wire;
    return GP_OK;
}

void gp_mpi_broadcast(gp_wire *wire, int from, void *bytes, int count) {
    MPI_Bcast(bytes, count, MPI_BYTE, from, of(wire)->comm);
}

void gp_mpi_gather(gp_wire *wire, const void *own, int count, void *all) {
    MPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, of(wire)->comm);
}

void gp_mpi_machines(gp_wire *wire, int *out) {
    MPI_Comm machine;
    int first = wire->rank;
    MPI_Comm_split_type(of(wire)->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Bcast(&first, 1, MPI_INT, 0, machine);
    MPI_Comm_free(&machine);
    gp_mpi_gather(wire, &first, (int)sizeof first, out);
    for (int p = 0; p < wire->processes; p++)
        if (out[p] == first) of(wire)->bulk[p].most = NEAR_BULK;
}

void gp_mpi_set_deliveries(gp_wire *wire, gp_deliveries *deliveries) {
    of(wire)->deliveries = deliveries;
}

gp_status gp_mpi_start(gp_wire *wire, gp_error *err) {
    mpi_wire *its = of(wire);
    int failed = gp_thread_start(&its->thread, 0, work, its);
    if (failed)
        return gp_fail(err, GP_MEMORY, "the thread that carries messages could not be started: %s", strerror(failed));
    its->started = true;
    return GP_OK;
}

void gp_mpi_close(gp_wire **wire, bool finish) {
    mpi_wire *its = of(*wire);
    end_carrier(its, !finish);
    if (finish && !its->broken) {
        MPI_Comm_free(&its->comm);
        MPI_Finalize();
    }
    free(its->requests);
    free(its->owners);
    free(its->indices);
    free(its->statuses);
    free(its->bulk);
    pthread_mutex_destroy(&its->lock);
    pthread_cond_destroy(&its->change);
    free(its);
    *wire = NULL;
}

#endif
