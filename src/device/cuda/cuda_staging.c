#include "device/cuda/cuda_staging.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

size_t gp_cuda_staging_block = (size_t)16 << 20;
size_t gp_cuda_staging_most = (size_t)512 << 20;

/* The first blocks are small: most streams carry little. */
static size_t next_size(size_t all, size_t bytes) {
    size_t size = gp_cuda_staging_block / 256;
    while (size < bytes || (size < all && size < gp_cuda_staging_block)) size *= 2;
    return size;
}

static gp_status add_part(gp_cuda_staging *staging, size_t bytes, gp_error *err) {
    void *block;
    size_t size = next_size(staging->bytes, bytes);
    GP_RETURN_IF_FAILED(GP_GROW(&staging->parts, &staging->part_capacity, staging->part_count + 1, err));
    GP_RETURN_IF_FAILED(gp_cuda->host_allocate(size, &block, err));
    staging->parts[staging->part_count++] = (struct gp_cuda_staging_part){block, size, 0};
    staging->bytes += size;
    return GP_OK;
}

static bool is_used(const gp_cuda_staging *staging) {
    for (size_t i = 0; i < staging->part_count; i++)
        if (staging->parts[i].used > 0) return true;
    return staging->count > 0;
}

size_t gp_cuda_staging_bytes(size_t staged) {
    size_t all = 0;
    if (staged > gp_cuda_staging_most) staged = gp_cuda_staging_most;
    while (all < staged) {
        size_t piece = staged - all < gp_cuda_staging_block ? staged - all : gp_cuda_staging_block;
        all += next_size(all, piece);
    }
    return all;
}

gp_status gp_cuda_staging_take(gp_cuda_staging *staging, size_t bytes, void **out, gp_error *err) {
    size_t size = gp_align_up(bytes, GP_ALIGNMENT);
    assert(bytes <= gp_cuda_staging_block);
    *out = NULL;
    while (staging->now < staging->part_count &&
           staging->parts[staging->now].bytes - staging->parts[staging->now].used < size)
        staging->now++;
    if (staging->now == staging->part_count) {
        if (is_used(staging) && staging->bytes + size > gp_cuda_staging_most) return GP_OK;
        GP_RETURN_IF_FAILED(add_part(staging, size, err));
    }
    struct gp_cuda_staging_part *part = &staging->parts[staging->now];
    *out = part->at + part->used;
    part->used += size;
    return GP_OK;
}

gp_status gp_cuda_staging_expect(gp_cuda_staging *staging, void *to, const void *at, size_t bytes, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&staging->arrivals, &staging->capacity, staging->count + 1, err));
    staging->arrivals[staging->count++] = (struct gp_cuda_arrival){to, at, bytes};
    return GP_OK;
}

void gp_cuda_staging_deliver(gp_cuda_staging *staging) {
    for (size_t i = 0; i < staging->count; i++) {
        const struct gp_cuda_arrival *arrival = &staging->arrivals[i];
        memcpy(arrival->to, arrival->at, arrival->bytes);
    }
    for (size_t i = 0; i < staging->part_count; i++) staging->parts[i].used = 0;
    staging->count = staging->now = 0;
}

void gp_cuda_staging_fini(gp_cuda_staging *staging) {
    for (size_t i = 0; i < staging->part_count; i++) gp_cuda->host_release(staging->parts[i].at);
    free(staging->parts);
    free(staging->arrivals);
    memset(staging, 0, sizeof *staging);
}
