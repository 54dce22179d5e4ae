/* What the device's own files know of an open device and of its streams. Internal to device/cuda.
 *
 * The worker that opened the device owns them; its thread only, where a field names no lock. */
#ifndef GP_DEVICE_CUDA_CUDA_DEVICE_H
#define GP_DEVICE_CUDA_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_room.h"
#include "device/cuda/cuda_staging.h"

struct gp_device {
    int index;
    pthread_mutex_t fetching; /* guards `fetches`, which is made when it is first needed */
    gp_stream *fetches;
    gp_cuda_room room;
    uint64_t asked;         /* bit i: whether device i can be reached was asked, and made so where it can */
    size_t reserved;        /* blocks */
    bool left;              /* work that will not end uses them: nothing is given back */
    pthread_mutex_t lining; /* guards `lines`: those that are open */
    gp_line *lines;
};

struct gp_stream {
    gp_device *device;
    gp_cuda_stream *handle;
    gp_cuda_library *library;
    gp_cuda_event *end; /* of what was enqueued when it was last asked */
    int turn;
    gp_cuda_event *turned; /* the end of the other turn; NULL: there was none */
    gp_cuda_staging staging[2];
    _Atomic uint32_t *noted; /* pinned */
    gp_stream *before;       /* of those that did not end */
};

#endif
