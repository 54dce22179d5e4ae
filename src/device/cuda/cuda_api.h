/* What the CUDA device asks of the machine: the runtime's calls, launches of own kernels, plans of libraries, in one
 * table of functions. The device's own code (this folder) knows no header of the toolkit; what does lies in toolkit/
 * and fills the real table. The tests put tables of their own here: one that works on host memory and proves the order
 * of what was enqueued, one whose calls fail.
 *
 * Addresses are device memory unless a name says host. All calls are for the thread that they are made in, on the
 * device that it last gave to `use`; what is enqueued may go on after the call. Every function that can fail returns a
 * status and a sentence that names the call and the toolkit's own cause: GP_DEVICE, or GP_MEMORY where memory is out.
 */
#ifndef GP_DEVICE_CUDA_CUDA_API_H
#define GP_DEVICE_CUDA_CUDA_API_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/kernels/kernels.h"
#include "device/device.h"
#include "device/op.h"

/* By the toolkit's names, so that cudaStream_t and cudaEvent_t are addresses of these. */
typedef struct CUstream_st gp_cuda_stream;
typedef struct CUevent_st gp_cuda_event;
/* By NCCL's name: a member of a group of devices that exchange messages. */
typedef struct ncclComm gp_cuda_comm;
/* Formats of this kind. Weights of convolutions, [out,in/groups,kh,kw], stored as [out,kh,kw,in/groups]: what tensor
 * cores want. */
enum { GP_CUDA_FORMAT_CHANNELS_LAST = 1 };

/* A library's way of doing one descriptor: immutable once made, owned by the prepared op, any thread. */
typedef struct gp_cuda_plan gp_cuda_plan;
/* What a library needs of its own to enqueue on one stream (handles); its thread only. */
typedef struct gp_cuda_library gp_cuda_library;

/* `rows` runs of `width` bytes, each `pitch` bytes behind the one before. */
typedef struct gp_cuda_range {
    const void *at;
    size_t width, pitch, rows;
} gp_cuda_range;

enum {
    GP_CUDA_MAX_READS = 8, /* of most kernels */
    GP_CUDA_MAX_WRITES = 4,
    GP_CUDA_MAX_ARGS = 32764 /* bytes: what CUDA carries from sm_70 on */
};

/* One launch of one own kernel, with all memory that it touches. What it writes it may also read. */
typedef struct gp_cuda_launch {
    gp_cuda_kernel kernel;
    uint32_t grid[3];
    uint32_t block;   /* threads, ≤ 1024, in one dimension */
    const void *args; /* the kernel's struct; copied by the call */
    size_t args_bytes;
    const gp_cuda_range *read, *write; /* borrowed until the call returns */
    int reads, writes;
    /* Where they lie if there are no more: a launch that has any is not copied. */
    gp_cuda_range own_read[GP_CUDA_MAX_READS], own_write[GP_CUDA_MAX_WRITES];
} gp_cuda_launch;

typedef struct gp_cuda_memory {
    size_t free, total; /* bytes of the device; other programs change `free` at any time */
    size_t own;         /* bytes that this process holds there; 0: not known */
} gp_cuda_memory;

typedef enum gp_cuda_direction { GP_CUDA_IN, GP_CUDA_OUT, GP_CUDA_WITHIN } gp_cuda_direction;

typedef struct gp_cuda_api {
    /* Devices. count: GP_DEVICE where there is no driver; 0 devices is no error. */
    gp_status (*count)(int *out, gp_error *err);
    /* As bus_address of device.h. */
    gp_status (*bus_address)(int index, char text[GP_BUS_ADDRESS], gp_error *err);
    gp_status (*use)(int index, gp_error *err);
    gp_status (*memory)(gp_cuda_memory *out, gp_error *err);
    /* Whether the device in use may read memory of device `other` directly, made so where the topology has it. */
    gp_status (*reach)(int other, bool *out, gp_error *err);

    /* Memory: of the device in use; of the host, pinned, any device. Freeing waits for nothing: see stream_finish. */
    gp_status (*allocate)(size_t bytes, void **out, gp_error *err);
    void (*release)(void *block);
    gp_status (*host_allocate)(size_t bytes, void **out, gp_error *err);
    void (*host_release)(void *block);

    /* Streams of the device in use; urgent ones have the higher priority. */
    gp_status (*stream_create)(bool urgent, gp_cuda_stream **out, gp_error *err);
    void (*stream_destroy)(gp_cuda_stream *stream);
    gp_status (*event_create)(bool timed, gp_cuda_event **out, gp_error *err);
    void (*event_destroy)(gp_cuda_event *event);
    gp_status (*event_record)(gp_cuda_event *event, gp_cuda_stream *stream, gp_error *err);
    /* Later work of the stream waits for the event, which may be of another device. */
    gp_status (*event_wait)(gp_cuda_stream *stream, gp_cuda_event *event, gp_error *err);
    /* Whether the event has happened; an error of work before it comes out here. */
    gp_status (*event_done)(gp_cuda_event *event, bool *out, gp_error *err);
    /* Milliseconds between two timed events that have happened. */
    gp_status (*event_elapsed)(gp_cuda_event *from, gp_cuda_event *to, float *out, gp_error *err);

    /* Copies; host memory is pinned. copy_peer: from a device that is reached, or through the driver's staging. */
    gp_status (*copy)(void *to, const void *from, size_t bytes, gp_cuda_direction direction, gp_cuda_stream *stream,
                      gp_error *err);
    gp_status (*copy_peer)(void *to, int to_index, const void *from, int from_index, size_t bytes,
                           gp_cuda_stream *stream, gp_error *err);

    /* Writes a number to pinned memory when all that the stream was given before is done; the host may look at any
     * time. May leave it undone where the driver cannot. */
    gp_status (*note)(_Atomic uint32_t *host_at, uint32_t number, gp_cuda_stream *stream, gp_error *err);

    gp_status (*launch)(const gp_cuda_launch *launch, gp_cuda_stream *stream, gp_error *err);

    /* Libraries. plan_create needs no device and no driver; fills prepared's workspace, storage and context.
     * Chosen by the descriptor alone. GP_UNSUPPORTED where no engine does it with the same bits each time. */
    gp_status (*plan_create)(gp_prepared *prepared, gp_error *err);
    /* May be NULL. As plan_for of device.h. */
    void (*plan_for)(int index);
    void (*plan_destroy)(gp_cuda_plan *plan);
    /* Makes the handles that what was planned so far needs, so that their memory can be measured. */
    gp_status (*library_open)(gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err);
    void (*library_close)(gp_cuda_library *library);
    gp_status (*plan_run)(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                          void *workspace, gp_error *err);

    /* Messages between processes (NCCL); all NULL: the program was built without. comm_create begins to join the group
     * of that id as member `rank`, on the device in use; a message takes so many `blocks` at most. What a call has
     * begun goes on until comm_busy says that it is over; until then nothing else but comm_busy and comm_abort is
     * called for it. An error of the member or of its group comes out there, at any time. */
    gp_status (*comm_id)(char id[GP_LINE_ID], gp_error *err);
    gp_status (*comm_create)(const char id[GP_LINE_ID], int rank, int ranks, int blocks, gp_cuda_comm **out,
                             gp_error *err);
    gp_status (*comm_busy)(gp_cuda_comm *comm, bool *out, gp_error *err);
    /* What stands between the two is enqueued as one, by group_end. One thread's. */
    gp_status (*group_begin)(gp_error *err);
    gp_status (*group_end)(gp_error *err);
    gp_status (*comm_send)(gp_cuda_comm *comm, int to, const void *address, size_t bytes, gp_cuda_stream *stream,
                           gp_error *err);
    gp_status (*comm_receive)(gp_cuda_comm *comm, int from, void *address, size_t bytes, gp_cuda_stream *stream,
                              gp_error *err);
    /* Takes leave of the group: busy until all that was sent has arrived. comm_destroy comes afterwards; comm_abort
     * comes at any time instead, ends what is under way, and gives all back. */
    gp_status (*comm_finish)(gp_cuda_comm *comm, gp_error *err);
    void (*comm_destroy)(gp_cuda_comm *comm);
    void (*comm_abort)(gp_cuda_comm *comm);

    /* "CUDA 13.0, cuDNN 9.19.0"; static storage. NULL: there are none. */
    const char *(*libraries)(void);

    /* Names what follows in the timelines of the toolkit's profilers, until mark_end of the same thread; they nest.
     * mark_begin: whether a profiler may be listening. */
    bool (*mark_begin)(const char *name);
    void (*mark_end)(void);
    /* The capture range of the toolkit's profilers. */
    gp_status (*capture)(bool begins, gp_error *err);
} gp_cuda_api;

/* The table in use; NULL: the program was built without the toolkit. Set before the first device is opened, by tests
 * only. */
extern const gp_cuda_api *gp_cuda;

#endif
