#include "device/cuda/cuda_staging.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { LEAST_BLOCK = 1 << 16 };

/* A larger block takes the place of the last one, which nothing uses. */
static gp_status make_room(gp_cuda_staging *staging, gp_error *err) {
    size_t size = LEAST_BLOCK, wanted = staging->wanted;
    if (wanted <= staging->bytes) return GP_OK;
    while (size < wanted && size < GP_CUDA_STAGING_BYTES) size *= 2;
    if (size == staging->bytes) return GP_OK;
    if (staging->block) gp_cuda->host_release(staging->block);
    staging->block = NULL;
    staging->bytes = 0;
    void *block;
    GP_RETURN_IF_FAILED(gp_cuda->host_allocate(size, &block, err));
    staging->block = block;
    staging->bytes = size;
    return GP_OK;
}

gp_status gp_cuda_staging_take(gp_cuda_staging *staging, size_t bytes, void **out, gp_error *err) {
    size_t size = gp_align_up(bytes, GP_ALIGNMENT);
    assert(bytes <= GP_CUDA_STAGING_BYTES);
    *out = NULL;
    if (staging->used == 0) {
        if (staging->wanted < size) staging->wanted = size;
        GP_RETURN_IF_FAILED(make_room(staging, err));
        staging->wanted = 0;
    }
    staging->wanted += size;
    if (staging->bytes - staging->used < size) return GP_OK;
    *out = staging->block + staging->used;
    staging->used += size;
    return GP_OK;
}

gp_status gp_cuda_staging_expect(gp_cuda_staging *staging, void *to, const void *at, size_t bytes, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&staging->arrivals, &staging->capacity, staging->count + 1, err));
    staging->arrivals[staging->count++] =
        (struct gp_cuda_arrival){to, (size_t)((const char *)at - staging->block), bytes};
    return GP_OK;
}

void gp_cuda_staging_deliver(gp_cuda_staging *staging) {
    for (size_t i = 0; i < staging->count; i++) {
        const struct gp_cuda_arrival *arrival = &staging->arrivals[i];
        memcpy(arrival->to, staging->block + arrival->at, arrival->bytes);
    }
    staging->count = staging->used = 0;
}

void gp_cuda_staging_fini(gp_cuda_staging *staging) {
    if (staging->block) gp_cuda->host_release(staging->block);
    free(staging->arrivals);
    memset(staging, 0, sizeof *staging);
}
