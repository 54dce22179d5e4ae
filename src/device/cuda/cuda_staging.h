/* Pinned host memory between a stream and the host's own memory: what goes in is copied here first, so that the host
 * may have its memory back at once; what comes out waits here until the stream is finished. Belongs to one stream; its
 * thread only. Internal to device/cuda. */
#ifndef GP_DEVICE_CUDA_CUDA_STAGING_H
#define GP_DEVICE_CUDA_CUDA_STAGING_H

#include "device/cuda/cuda_api.h"

enum { GP_CUDA_STAGING_BYTES = 64 << 20 };

/* Zero-initialised: empty. */
typedef struct gp_cuda_staging {
    char *block;
    size_t bytes, used;
    size_t wanted;           /* what the block would have had to hold since it was last empty */
    struct gp_cuda_arrival { /* that come out when the stream is finished */
        void *to;
        size_t at, bytes;
    } * arrivals;
    size_t count, capacity;
} gp_cuda_staging;

/* Bytes for one copy, at most GP_CUDA_STAGING_BYTES; *out is NULL where the stream must be finished first. The block
 * then grows to what was wanted, up to that size, so that it does not happen again in the next step. */
GP_MUST_USE gp_status gp_cuda_staging_take(gp_cuda_staging *staging, size_t bytes, void **out, gp_error *err);
/* That what lies at `at` goes to the host's memory when the stream is finished. */
GP_MUST_USE gp_status gp_cuda_staging_expect(gp_cuda_staging *staging, void *to, const void *at, size_t bytes,
                                             gp_error *err);
/* The stream is finished: hands out what has come, and is empty again. */
void gp_cuda_staging_deliver(gp_cuda_staging *staging);
/* Nothing is under way; what has not been handed out is lost. */
void gp_cuda_staging_fini(gp_cuda_staging *staging);

#endif
