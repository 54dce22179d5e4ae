/* A wire: messages between the processes of a run.
 *
 * A message goes from one process to another, with a tag. Messages with equal ends and tags arrive in the order in
 * which they were sent. The receiver says beforehand how long a message is, so that no size from another process is
 * trusted. A parcel is the sender's or the receiver's side of a message. Its owner keeps it, and the memory that it
 * points to, until `done` has reached `value`.
 *
 * Bulk messages from one process to another may go one after another, in the order in which they are sent. So the first
 * ones arrive first, and other messages pass them. Each must have its receive without any other bulk message.
 *
 * Kinds of wires: MPI (process/mpi_wire.h), and one between the threads of a test. Functions are for any thread, if
 * nothing else is said. */
#ifndef GP_PROCESS_WIRE_H
#define GP_PROCESS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sync.h"

typedef struct gp_parcel gp_parcel;
struct gp_parcel {
    gp_signal done;            /* reaches `value` when the message has gone, or has arrived */
    atomic_uint_fast64_t over; /* and then this, when the wire does not touch the parcel any more */
    uint64_t value;
    void *address; /* a sent message is not written to */
    size_t bytes;
    uint32_t tag;
    int rank; /* of the other process */
    bool receives, bulk;
    gp_parcel *then; /* a receive that begins when this message has gone; NULL: none */
    gp_parcel *next; /* the wire's, and what follows */
    size_t moved;
    gp_parcel *before, *after; /* of process/deliveries.h */
    uint32_t number;
};

typedef struct gp_wire gp_wire;
typedef struct gp_wire_kind {
    const char *name;
    void (*post)(gp_wire *wire, gp_parcel *parcel);
    /* Ends what is under way, without finishing it: the wire uses no memory of a parcel any more. For a run that has
     * failed; nothing is sent afterwards. Any number of times; the trainer's thread. */
    void (*halt)(gp_wire *wire);
} gp_wire_kind;

/* What every kind begins with. */
struct gp_wire {
    const gp_wire_kind *kind;
    int rank, processes;
    uint32_t tags; /* tags are below it */
};

/* Before its first use. */
static inline void gp_parcel_init(gp_parcel *parcel) {
    gp_signal_init(&parcel->done);
    atomic_init(&parcel->over, 0);
    parcel->value = 0;
}
/* For kinds of wires: the message has gone, or has arrived. The kind begins the returned receive, if there is one. */
static inline gp_parcel *gp_parcel_end(gp_parcel *parcel) {
    uint64_t value = parcel->value;
    gp_parcel *then = parcel->then;
    gp_signal_raise(&parcel->done, value);
    atomic_store_explicit(&parcel->over, value, memory_order_release);
    return then;
}
static inline void gp_wire_post(gp_wire *wire, gp_parcel *parcel) {
    for (; parcel && parcel->bytes == 0; parcel = gp_parcel_end(parcel)) {}
    if (parcel) wire->kind->post(wire, parcel);
}
static inline void gp_parcel_fill(gp_parcel *parcel, uint64_t value, int rank, uint32_t tag, const void *address,
                                  size_t bytes, bool receives) {
    parcel->value = value;
    parcel->address = (void *)(uintptr_t)address;
    parcel->bytes = bytes;
    parcel->tag = tag;
    parcel->rank = rank;
    parcel->receives = receives;
    parcel->bulk = false;
    parcel->then = NULL;
}
/* Begins to send or receive; a message of no bytes is over at once. `value` is above that of the parcel's last use,
 * which must be over. Does not block. */
static inline void gp_wire_send(gp_wire *wire, gp_parcel *parcel, uint64_t value, int to, uint32_t tag,
                                const void *address, size_t bytes) {
    gp_parcel_fill(parcel, value, to, tag, address, bytes, false);
    gp_wire_post(wire, parcel);
}
/* The same for a bulk message. `then`: a receive that was filled, and begins when this message has gone: it may write
 * over its memory. NULL: none. */
static inline void gp_wire_send_bulk(gp_wire *wire, gp_parcel *parcel, uint64_t value, int to, uint32_t tag,
                                     const void *address, size_t bytes, gp_parcel *then) {
    gp_parcel_fill(parcel, value, to, tag, address, bytes, false);
    parcel->bulk = true;
    parcel->then = then;
    gp_wire_post(wire, parcel);
}
static inline void gp_wire_receive(gp_wire *wire, gp_parcel *parcel, uint64_t value, int from, uint32_t tag,
                                   void *address, size_t bytes) {
    gp_parcel_fill(parcel, value, from, tag, address, bytes, true);
    gp_wire_post(wire, parcel);
}
/* Blocks until the message has gone, or has arrived; or until the run was cancelled. */
GP_MUST_USE gp_status gp_parcel_wait(gp_parcel *parcel, const gp_cancel *cancel, gp_error *err);
/* Sends or receives one message, and waits for it. */
GP_MUST_USE gp_status gp_wire_send_now(gp_wire *wire, int to, uint32_t tag, const void *address, size_t bytes,
                                       const gp_cancel *cancel, gp_error *err);
GP_MUST_USE gp_status gp_wire_receive_now(gp_wire *wire, int from, uint32_t tag, void *address, size_t bytes,
                                          const gp_cancel *cancel, gp_error *err);

#endif
