/* Pinned host memory between a stream and the host's own memory. What goes in is copied here first, so that the host
 * may have its memory back at once; what comes out waits here until the turn is finished. It grows block by block
 * while a step needs more, and keeps them for the next one. Belongs to one stream and turn; the stream's thread only.
 * Internal to device/cuda. */
#ifndef GP_DEVICE_CUDA_CUDA_STAGING_H
#define GP_DEVICE_CUDA_CUDA_STAGING_H

#include "device/cuda/cuda_api.h"

/* Of one block, and so of one copy; of all blocks of a turn: only then has a copy to wait for those before it. */
extern size_t gp_cuda_staging_block, gp_cuda_staging_most;

/* Zero-initialised: empty. */
typedef struct gp_cuda_staging {
    struct gp_cuda_staging_part {
        char *at;
        size_t bytes, used;
    } * parts;
    size_t part_count, part_capacity, now; /* parts[now] is being filled */
    size_t bytes;                          /* of all parts */
    struct gp_cuda_arrival {               /* that come out when the turn is finished */
        void *to;
        const void *at;
        size_t bytes;
    } * arrivals;
    size_t count, capacity;
} gp_cuda_staging;

/* What staging comes to take while a step stages so many bytes in large copies. Pure. */
size_t gp_cuda_staging_bytes(size_t staged);
/* Bytes for one copy, at most gp_cuda_staging_block; *out is NULL where the stream must be finished first. */
GP_MUST_USE gp_status gp_cuda_staging_take(gp_cuda_staging *staging, size_t bytes, void **out, gp_error *err);
/* That what lies at `at` goes to the host's memory when the turn is finished. */
GP_MUST_USE gp_status gp_cuda_staging_expect(gp_cuda_staging *staging, void *to, const void *at, size_t bytes,
                                             gp_error *err);
/* The turn is finished: hands out what has come, and is empty again. */
void gp_cuda_staging_deliver(gp_cuda_staging *staging);
/* Nothing is under way; what has not been handed out is lost. */
void gp_cuda_staging_fini(gp_cuda_staging *staging);

#endif
