#include "schedule/sharing.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

static bool is_before(const gp_job_entry *a, const gp_job_entry *b) {
    return a->key < b->key || (a->key == b->key && a->job.who < b->job.who);
}

static void push(gp_job_heap *heap, gp_job_entry entry) {
    int at = heap->count++;
    for (; at > 0 && is_before(&entry, &heap->items[(at - 1) / 2]); at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = entry;
}

static gp_job_entry pop(gp_job_heap *heap) {
    gp_job_entry top = heap->items[0], last = heap->items[--heap->count];
    int at = 0;
    for (int child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && is_before(&heap->items[child + 1], &heap->items[child])) child++;
        if (!is_before(&heap->items[child], &last)) break;
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = last;
    return top;
}

gp_status gp_sharing_init(gp_sharing *sharing, int processors, int most, gp_error *err) {
    *sharing = (gp_sharing){.processors = processors};
    GP_RETURN_IF_FAILED(GP_NEW(&sharing->waiting.items, most, err));
    return GP_NEW(&sharing->running.items, most, err);
}

void gp_sharing_fini(gp_sharing *sharing) {
    free(sharing->waiting.items);
    free(sharing->running.items);
    *sharing = (gp_sharing){0};
}

void gp_sharing_add(gp_sharing *sharing, const gp_job *job) {
    push(&sharing->waiting, (gp_job_entry){job->time, *job});
}

static double speed(const gp_sharing *sharing) {
    return sharing->threads > sharing->processors ? (double)sharing->processors / sharing->threads : 1;
}

/* When the first of the jobs under way ends, if no other begins before. */
static double first_end(const gp_sharing *sharing) {
    if (sharing->running.count == 0) return INFINITY;
    double left = sharing->running.items[0].key - sharing->progress;
    return left > 0 ? sharing->now + left / speed(sharing) : sharing->now;
}

static double first_begin(const gp_sharing *sharing) {
    return sharing->waiting.count == 0 ? INFINITY : sharing->waiting.items[0].key;
}

double gp_sharing_peek(const gp_sharing *sharing) {
    double end = first_end(sharing), begin = first_begin(sharing);
    return end <= begin ? end : begin;
}

bool gp_sharing_next(gp_sharing *sharing, gp_job *job, double *end) {
    double ends = first_end(sharing), begins = first_begin(sharing);
    if (ends <= begins) {
        gp_job_entry over = pop(&sharing->running);
        sharing->now = ends;
        sharing->progress = over.key;
        sharing->threads -= over.job.threads;
        *job = over.job;
        *end = ends;
        return true;
    }
    gp_job_entry entry = pop(&sharing->waiting);
    if (sharing->running.count > 0 && begins > sharing->now)
        sharing->progress += (begins - sharing->now) * speed(sharing);
    if (begins > sharing->now) sharing->now = begins;
    sharing->threads += entry.job.threads;
    entry.key = sharing->progress + entry.job.seconds;
    push(&sharing->running, entry);
    *job = entry.job;
    return false;
}
