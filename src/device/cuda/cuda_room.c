#include "device/cuda/cuda_room.h"

#include <pthread.h>

#include "base/memory.h"

/* Held while memory is measured and taken, so that no worker of this process counts another's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the libraries took meanwhile. What is free counts other programs too: of that difference no more is believed
 * than handles can come to. */
static size_t taken_between(const gp_cuda_memory *before, const gp_cuda_memory *after) {
    enum { MOST = 1 << 30 };
    if (before->own && after->own) return after->own > before->own ? after->own - before->own : 0;
    size_t taken = after->free < before->free ? before->free - after->free : 0;
    return taken < MOST ? taken : MOST;
}

static gp_status open_measured(gp_cuda_room *room, gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err) {
    gp_cuda_memory before, after;
    GP_RETURN_IF_FAILED(gp_cuda->memory(&before, err));
    GP_RETURN_IF_FAILED(gp_cuda->library_open(stream, out, err));
    gp_status status = gp_cuda->memory(&after, err);
    if (status != GP_OK) {
        gp_cuda->library_close(*out);
        *out = NULL;
        return status;
    }
    room->taken += taken_between(&before, &after);
    return GP_OK;
}

gp_status gp_cuda_room_library(gp_cuda_room *room, gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err) {
    pthread_mutex_lock(&lock);
    gp_status status = open_measured(room, stream, out, err);
    pthread_mutex_unlock(&lock);
    return status;
}

static gp_status check(const gp_cuda_room *room, size_t bytes, gp_error *err) {
    char asked[32], beside[32], taken[32], may[32], total[32];
    gp_cuda_memory memory;
    size_t all = room->taken > GP_CUDA_BESIDE ? room->taken : GP_CUDA_BESIDE, later = all - room->taken;
    GP_RETURN_IF_FAILED(gp_cuda->memory(&memory, err));
    gp_bytes_text(asked, bytes);
    gp_bytes_text(taken, room->taken);
    if (room->limit && (all > room->limit || bytes > room->limit - all))
        return gp_fail(
            err, GP_MEMORY,
            "cuda:%d: needs %s, and %s for libraries and their code (%s of it is already used), but may use only %s",
            room->index, asked, gp_bytes_text(beside, all), taken, gp_bytes_text(may, room->limit));
    if (bytes > memory.free || memory.free - bytes < later)
        return gp_fail(
            err, GP_MEMORY,
            "cuda:%d: needs %s, and %s for code that libraries load later, but only %s of %s are free; the context, "
            "libraries (%s for this worker), other workers and other programs use the rest",
            room->index, asked, gp_bytes_text(beside, later), gp_bytes_text(may, memory.free),
            gp_bytes_text(total, memory.total), taken);
    return GP_OK;
}

gp_status gp_cuda_room_allocate(const gp_cuda_room *room, size_t bytes, void **out, gp_error *err) {
    pthread_mutex_lock(&lock);
    gp_status status = check(room, bytes, err);
    if (status == GP_OK) status = gp_cuda->allocate(bytes ? bytes : 1, out, err);
    pthread_mutex_unlock(&lock);
    return status;
}
