/* What a worker takes of a GPU's memory: its arena, what the libraries take for its stream, and code. The libraries'
 * part is measured while their handles are made: by this process's own count if the driver tells it, else by what is
 * free. Code is loaded when it is first used. The context is the process's: it is taken before anything is measured,
 * and no worker's `memory` counts it. Belongs to one open device; its worker's thread only. Internal to device/cuda. */
#ifndef GP_DEVICE_CUDA_CUDA_ROOM_H
#define GP_DEVICE_CUDA_CUDA_ROOM_H

#include "device/cuda/cuda_api.h"

/* Beside the arena, as planned without a device: an estimate. What is measured counts where it is more. */
enum { GP_CUDA_BESIDE = 256 << 20 };

/* Zero-initialised but for index and limit: nothing is taken. */
typedef struct gp_cuda_room {
    int index;
    size_t limit; /* bytes that may be taken; 0: what is free */
    size_t taken; /* by libraries, as measured */
} gp_cuda_room;

/* Both on the device in use. */
GP_MUST_USE gp_status gp_cuda_room_library(gp_cuda_room *room, gp_cuda_stream *stream, gp_cuda_library **out,
                                           gp_error *err);
/* GP_MEMORY with the numbers where there is no room for the bytes and for what stands beside them. */
GP_MUST_USE gp_status gp_cuda_room_allocate(const gp_cuda_room *room, size_t bytes, void **out, gp_error *err);

#endif
