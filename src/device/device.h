/* Devices: memory, streams, events, copies, and the ops that they run.
 *
 * A *device kind* (ref, cpu, cuda) is a table of functions. Its planning half (prepare) touches no device and may
 * be called from any thread; its running half works on an open device. A worker opens one device for itself alone, and
 * only that worker's thread calls it afterwards, but for the functions marked "any thread"; a device on_host may pass
 * from thread to thread between calls.
 *
 * Memories are separate: an address that `reserve` returned is given to the ops and copies of that device only;
 * the host reads and writes it through copies. Another worker's memory is reached by `pull`, and where it is of another
 * kind, by copy_in from a host's and `fetch` from any other; nothing else.
 * Streams are queues in order; on cpu and ref they are synchronous in the calling thread, and an event is recorded when
 * the call returns. Callers may not rely on that: they wait for events.
 */
#ifndef GP_DEVICE_DEVICE_H
#define GP_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/sync.h"
#include "device/op.h"

typedef struct gp_device gp_device; /* an open device: owned by the worker that opened it */
typedef struct gp_stream gp_stream; /* a queue of work on it */
typedef struct gp_event gp_event;   /* a place in a queue that others can wait for */
typedef struct gp_line gp_line;     /* one end of a line to another process; see line_open */
typedef struct gp_device_kind gp_device_kind;

/* What a worker asks for: an entry of pipeline.devices. */
typedef struct gp_device_spec {
    const gp_device_kind *kind;
    int index;     /* cuda:1 → 1; 0 for cpu and ref */
    int threads;   /* of a CPU device, ≥ 1 */
    size_t memory; /* bytes that may be used; 0: what the machine has */
} gp_device_spec;

/* The objects of a library with which one stream runs a prepared op; see bind. */
typedef struct gp_bound gp_bound;

/* A bound op: a prepared op with its addresses. */
typedef struct gp_device_op {
    const gp_prepared *prepared;
    gp_bound *bound;                 /* of `bind`; NULL: the op needs none */
    void *operands[GP_MAX_OPERANDS]; /* NULL: the operand is absent */
    void *workspace;
} gp_device_op;

enum { GP_RUN_MANY = 256 };

enum {
    GP_LINE_ID = 128, /* bytes that tell one line from all others */
    GP_LINE_ENDS =
        30, /* queues of one worker, if lines wait in them: its own, and one for each line that it sends on */
    GP_LINE_BLOCKS = 64, /* multiprocessors that waiting messages take in all */
    GP_BUS_ADDRESS = 32, /* bytes of a text */
};

/* Memory of a device. */
typedef struct gp_device_range {
    void *address;
    size_t bytes;
} gp_device_range;

struct gp_device_kind {
    const char *name;
    unsigned computes; /* bit gp_dtype: it has ops that compute in it */
    int64_t
        square_block; /* elements of the blocks that square_sum adds up; square_blocks has blocks of no other size */
    bool on_host;     /* its memory is the host's: any thread may read what an event that has happened stands behind */

    size_t beside; /* bytes that an open device takes of its memory beside what is reserved, about */
    /* NULL: none. Memory of the host that a stream pins to copy so many bytes in a step, about. Pure. */
    size_t (*pinned)(size_t staged);

    /* Planning: any thread, no device needed. `prepared` comes with desc set and everything else zero; the kind fills
     * the rest (flops, bytes and effort excepted). Where an operand's format is GP_FORMAT_ANY the kind chooses; where
     * it is a number the kind takes it as it is. Refuses with GP_UNSUPPORTED and a sentence what it cannot do; in
     * particular GP_OP_ACCUMULATE may be refused, and the planner then adds by an op of its own. */
    gp_status (*prepare)(gp_prepared *prepared, gp_error *err);
    void (*release)(gp_prepared *prepared);
    /* May be NULL. Before the first op is prepared: the process plans for this device of its own, and others like it;
     * −1: for those of other processes only. Planning opens no other device; only to measure one does. The first call
     * holds. */
    void (*plan_for)(int index);
    /* NULL: 1 for every op. For counted costs: how many times longer the operations of an op take than as many of a
     * large convolution or product do on as many threads; desc->threads 0 is one. Pure, the same on every machine; any
     * thread. */
    double (*effort)(const gp_op_desc *desc);
    /* What its ops come from and what chooses among them, with versions: "oneDNN 3.1.1, convolutions 1 for AVX2"; NULL:
     * loops of its own. */
    const char *(*libraries)(void);

    /* Running. */
    gp_status (*open)(const gp_device_spec *spec, gp_device **out, gp_error *err);
    void (*close)(gp_device *device);
    /* NULL: devices of one kind are alike. Which one of its machine a device is, "0000:65:00.0", without opening it.
     * GP_DEVICE: there is none with this index. Any thread. */
    gp_status (*bus_address)(int index, char text[GP_BUS_ADDRESS], gp_error *err);
    /* One block of device memory; freed with unreserve. The bytes are not cleared. */
    gp_status (*reserve)(gp_device *device, size_t bytes, void **out, gp_error *err);
    void (*unreserve)(gp_device *device, void *block);
    /* `copies`: for copies alone, which come before computations where the device has priorities. */
    gp_status (*stream_create)(gp_device *device, bool copies, gp_stream **out, gp_error *err);
    /* What is under way there is over when it returns. */
    void (*stream_destroy)(gp_stream *stream);
    /* `timed`: for event_elapsed. */
    gp_status (*event_create)(gp_device *device, bool timed, gp_event **out, gp_error *err);
    void (*event_destroy)(gp_event *event);
    gp_status (*event_record)(gp_event *event, gp_stream *stream, gp_error *err);
    /* Later work of `stream` waits for the event, which may belong to another device. Recorded before this call. */
    gp_status (*stream_wait)(gp_stream *stream, const gp_event *event, gp_error *err);
    /* Blocks the calling thread, any, until the event has happened; returns early where the run is cancelled. Recorded
     * before this call. */
    gp_status (*event_finish)(const gp_event *event, const gp_cancel *cancel, gp_error *err);
    /* Blocks the calling thread until all work of the stream is done; returns early where the run is cancelled. */
    gp_status (*stream_finish)(gp_stream *stream, const gp_cancel *cancel, gp_error *err);
    /* Enqueue. copy_in: the host's memory is the caller's again when the call returns. copy_out: it is written by the
     * time that the stream, or the turn that it was enqueued in, is finished. */
    gp_status (*copy_in)(gp_stream *stream, void *device_to, const void *host_from, size_t bytes, gp_error *err);
    gp_status (*copy_out)(gp_stream *stream, void *host_to, const void *device_from, size_t bytes, gp_error *err);
    /* Enqueues a copy from memory of `from`, a device of the same kind, into memory of the stream's device. */
    gp_status (*pull)(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                      gp_error *err);
    /* Copies from memory of `device` to the host's, what an event that has happened stands behind, and blocks the
     * calling thread, any, until it is there or the run is cancelled. NULL where on_host. */
    gp_status (*fetch)(gp_device *device, void *host_to, const void *address, size_t bytes, const gp_cancel *cancel,
                       gp_error *err);
    /* All three NULL: no op needs a bound object. bind makes the objects that an op's runs use, so that no run
     * allocates. One stream's thread uses them, for any addresses, until unbind. *out may be NULL: the op needs none.
     * bound_bytes: what bind takes of the host's memory, about; any thread. */
    gp_status (*bind)(const gp_prepared *prepared, gp_bound **out, gp_error *err);
    void (*unbind)(gp_bound *bound);
    size_t (*bound_bytes)(const gp_prepared *prepared);
    /* Enqueues an op. */
    gp_status (*run)(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err);

    /* May be NULL. Enqueues several updates of parameters of one kind (sgd, adam), of which none writes what another
     * reads or writes: as if one after the other, in fewer launches. At most GP_RUN_MANY. */
    gp_status (*run_many)(gp_stream *stream, const gp_device_op *ops, int count, const gp_op_args *args, gp_error *err);
    /* NULL where what is enqueued is done when the call returns: then the host's clock tells the time. Nanoseconds of
     * the device between two timed events that have happened. */
    gp_status (*event_elapsed)(const gp_event *from, const gp_event *to, double *out, gp_error *err);
    /* Both NULL where what is enqueued is done when the call returns. What a stream is given belongs to a turn, 0 or 1,
     * so that the end of one can be waited for while the other is under way: 0 at first, the other one from each
     * stream_turn on; what was given to that one before is finished. turn_finish: as stream_finish, for the turn that
     * the stream is not in. After stream_finish it is 0 again. */
    gp_status (*stream_turn)(gp_stream *stream, gp_error *err);
    gp_status (*turn_finish)(gp_stream *stream, const gp_cancel *cancel, gp_error *err);
    /* All three NULL where what is enqueued is done when the call returns. stream_note enqueues that from here on
     * stream_noted, any thread, tells this number; at first it tells 0. What was noted last is told even of a device
     * that is lost: one where work failed after it was enqueued, and which does nothing more. `lost`: any thread. */
    gp_status (*stream_note)(gp_stream *stream, uint32_t number, gp_error *err);
    uint32_t (*stream_noted)(const gp_stream *stream);
    bool (*lost)(const gp_device *device);
    /* Both may be NULL. Name what the calling thread enqueues between them, for profilers of the device; they nest.
     * mark_begin: whether a profiler may be listening. */
    bool (*mark_begin)(const char *name);
    void (*mark_end)(void);
    /* May be NULL. Tells the device's profiler, if one is listening, that its capture begins or ends. A profiler sees
     * all devices of the process; any thread. */
    gp_status (*capture)(const gp_device_spec *spec, bool begins, gp_error *err);
    /* All NULL: no lines lead to devices of other processes. A line carries messages one way, from a device to another
     * of the same kind, in the order in which they were sent. has_lines: whether the program was built with them; any
     * thread, no device needed. */
    bool (*has_lines)(void);
    /* Makes what both ends of a new line are opened with. */
    gp_status (*line_id)(char id[GP_LINE_ID], gp_error *err);
    /* One end. Blocks until the other end is opened too, or the run is cancelled. `blocks`: multiprocessors of the
     * device that a message takes at most while it waits; the same at both ends. */
    gp_status (*line_open)(gp_device *device, const char id[GP_LINE_ID], bool sends, int blocks,
                           const gp_cancel *cancel, gp_line **out, gp_error *err);
    /* Enqueues one message, which is sent or received. Both ends give as many ranges of the same sizes. In the queue it
     * is over when its memory has been sent, or written; that may take until the other end has reached it. */
    gp_status (*line_carry)(gp_line *line, gp_stream *stream, const gp_device_range *ranges, int count,
                            const gp_cancel *cancel, gp_error *err);
    /* Ends messages under way without finishing them, so that queues come to their end. Later calls fail. Any thread,
     * any number of times; line_carry may be running. */
    void (*line_abort)(gp_line *line);
    /* Its messages are over, or it was aborted. */
    void (*line_close)(gp_line *line);
};

/* GP_INTERNAL if an operand that is present has no address, or an absent one has. */
GP_MUST_USE gp_status gp_device_op_check(const gp_device_op *op, gp_error *err);
/* Binds an op, enqueues it once, and unbinds it. The prepared op says how many operands there are. */
GP_MUST_USE gp_status gp_device_run(const gp_device_kind *kind, gp_stream *stream, const gp_prepared *prepared,
                                    void *const operands[], void *workspace, const gp_op_args *args, gp_error *err);

/* Bytes of the spec's memory that may be reserved, what stands beside them left out; 0: no limit. */
static inline size_t gp_device_room(const gp_device_spec *spec) {
    if (spec->memory == 0) return 0;
    return spec->memory > spec->kind->beside ? spec->memory - spec->kind->beside : 1;
}

/* What the ops of these devices come from, each kind once: "oneDNN 3.1.1, convolutions 1 for AVX2"; "" for own loops.
 * Other texts may give other bits. Written to `text`, which is returned. */
enum { GP_LIBRARIES_TEXT = 256 };
const char *gp_device_libraries(const gp_device_spec *devices, int count, char text[GP_LIBRARIES_TEXT]);

/* Operations and bytes of an op for counted costs: those of gp_op_count, the operations times the kind's effort. kind
 * NULL: effort 1. */
void gp_device_count(const gp_device_kind *kind, const gp_op_desc *desc, double *flops, double *bytes);

/* Prepared ops by descriptor: each descriptor is prepared once per device kind. Owned by the plan; any thread. */
typedef struct gp_op_cache gp_op_cache;
GP_MUST_USE gp_status gp_op_cache_create(gp_op_cache **out, gp_error *err);
void gp_op_cache_destroy(gp_op_cache **cache);
/* *out lives as long as the cache. GP_UNSUPPORTED where the kind cannot do it. */
GP_MUST_USE gp_status gp_op_prepare(gp_op_cache *cache, const gp_device_kind *kind, const gp_op_desc *desc,
                                    const gp_prepared **out, gp_error *err);

#endif
