#include "device/cuda/cuda_line.h"

#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "device/cuda/cuda_device.h"

enum { SENDER, RECEIVER, MEMBERS };

struct gp_line {
    gp_device *device;
    bool sends;
    pthread_mutex_t lock; /* held during calls for `comm`; none of them waits for the other end */
    gp_cuda_comm *comm;   /* NULL: aborted */
    gp_line *next;        /* of the device */
};

/* About 10 seconds. */
long gp_cuda_line_patience = 500000;

bool gp_cuda_has_lines(void) {
    return gp_cuda && gp_cuda->comm_id;
}

gp_status gp_cuda_line_id(char id[GP_LINE_ID], gp_error *err) {
    return gp_cuda->comm_id(id, err);
}

/* ---- waiting for the member itself ------------------------------------------------------------------------------- */

static gp_status aborted(gp_error *err) {
    return gp_fail(err, GP_CANCELLED, "cancelled");
}

static gp_status ask(gp_line *line, bool *busy, gp_error *err) {
    pthread_mutex_lock(&line->lock);
    gp_status status = line->comm ? gp_cuda->comm_busy(line->comm, busy, err) : aborted(err);
    pthread_mutex_unlock(&line->lock);
    return status;
}

/* Until the last call is over; `patience` polls at most, 0: any number. */
static gp_status wait_while_busy(gp_line *line, const gp_cancel *cancel, long patience, gp_error *err) {
    enum { SPINS = 2000 };
    const struct timespec pause = {.tv_nsec = 20000};
    bool busy = true;
    for (long turn = 1;; turn++) {
        GP_RETURN_IF_FAILED(ask(line, &busy, err));
        if (!busy) return GP_OK;
        if ((cancel && gp_cancelled(cancel)) || turn == patience) return aborted(err);
        if (turn >= SPINS) nanosleep(&pause, NULL);
    }
}

gp_status gp_cuda_lines_check(const gp_device *device, gp_error *err) {
    gp_device *its = (gp_device *)(uintptr_t)device;
    gp_status status = GP_OK;
    pthread_mutex_lock(&its->lining);
    for (gp_line *line = its->lines; line && status == GP_OK; line = line->next) {
        bool busy;
        pthread_mutex_lock(&line->lock);
        if (line->comm) status = gp_cuda->comm_busy(line->comm, &busy, err);
        pthread_mutex_unlock(&line->lock);
    }
    pthread_mutex_unlock(&its->lining);
    return status;
}

/* ---- open, close ------------------------------------------------------------------------------------------------- */

static void add_line(gp_line *line) {
    pthread_mutex_lock(&line->device->lining);
    line->next = line->device->lines;
    line->device->lines = line;
    pthread_mutex_unlock(&line->device->lining);
}

static void remove_line(gp_line *line) {
    pthread_mutex_lock(&line->device->lining);
    gp_line **at = &line->device->lines;
    while (*at && *at != line) at = &(*at)->next;
    if (*at) *at = line->next;
    pthread_mutex_unlock(&line->device->lining);
}

void gp_cuda_line_abort(gp_line *line) {
    pthread_mutex_lock(&line->lock);
    if (line->comm) gp_cuda->comm_abort(line->comm);
    line->comm = NULL;
    pthread_mutex_unlock(&line->lock);
}

static void free_line(gp_line *line) {
    gp_cuda_line_abort(line);
    pthread_mutex_destroy(&line->lock);
    free(line);
}

gp_status gp_cuda_line_open(gp_device *device, const char id[GP_LINE_ID], bool sends, int blocks,
                            const gp_cancel *cancel, gp_line **out, gp_error *err) {
    gp_line *line;
    GP_RETURN_IF_FAILED(gp_cuda->use(device->index, err));
    GP_RETURN_IF_FAILED(GP_NEW(&line, 1, err));
    if (pthread_mutex_init(&line->lock, NULL) != 0) {
        free(line);
        return gp_fail(err, GP_MEMORY, "cuda:%d: the lock of a line cannot be made", device->index);
    }
    line->device = device;
    line->sends = sends;
    gp_status status = gp_cuda->comm_create(id, sends ? SENDER : RECEIVER, MEMBERS, blocks, &line->comm, err);
    if (status == GP_OK) status = wait_while_busy(line, cancel, 0, err);
    if (status != GP_OK) {
        free_line(line);
        return status;
    }
    add_line(line);
    *out = line;
    return GP_OK;
}

/* Without waiting for the other end for long, since that may have failed. */
static gp_status finish(gp_line *line, gp_error *err) {
    pthread_mutex_lock(&line->lock);
    gp_status status = line->comm ? gp_cuda->comm_finish(line->comm, err) : aborted(err);
    pthread_mutex_unlock(&line->lock);
    return status == GP_OK ? wait_while_busy(line, NULL, gp_cuda_line_patience, err) : status;
}

void gp_cuda_line_close(gp_line *line) {
    gp_error ignored;
    if (!line) return;
    remove_line(line);
    if (finish(line, &ignored) == GP_OK) {
        gp_cuda->comm_destroy(line->comm);
        line->comm = NULL;
    }
    free_line(line);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static gp_status enqueue(gp_line *line, gp_stream *stream, const gp_device_range *range, gp_error *err) {
    if (range->bytes == 0) return GP_OK;
    if (line->sends) return gp_cuda->comm_send(line->comm, RECEIVER, range->address, range->bytes, stream->handle, err);
    return gp_cuda->comm_receive(line->comm, SENDER, range->address, range->bytes, stream->handle, err);
}

/* A group that has begun must end, whatever happened in it. Caller holds the lock. */
static gp_status enqueue_all(gp_line *line, gp_stream *stream, const gp_device_range *ranges, int count,
                             gp_error *err) {
    gp_error later;
    GP_RETURN_IF_FAILED(gp_cuda->group_begin(err));
    gp_status status = GP_OK;
    for (int i = 0; i < count && status == GP_OK; i++) status = enqueue(line, stream, &ranges[i], err);
    gp_status ended = gp_cuda->group_end(status == GP_OK ? err : &later);
    return status == GP_OK ? ended : status;
}

gp_status gp_cuda_line_carry(gp_line *line, gp_stream *stream, const gp_device_range *ranges, int count,
                             const gp_cancel *cancel, gp_error *err) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += ranges[i].bytes;
    if (bytes == 0) return GP_OK;
    pthread_mutex_lock(&line->lock);
    gp_status status = line->comm ? enqueue_all(line, stream, ranges, count, err) : aborted(err);
    pthread_mutex_unlock(&line->lock);
    /* It stands in the queue when the member is no longer busy, and not before. */
    return status == GP_OK ? wait_while_busy(line, cancel, 0, err) : status;
}
