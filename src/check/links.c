/* What a program asks of links, which is only said: it depends on what carries messages.
 *
 * Queued: what one worker sends to another one goes over one link, first in, first out, and without room. A message
 * stays in the link until the memory that it goes to is free, and those behind it wait. The worker goes on. Blocking: a
 * send blocks its worker until the receive begins (MPI_Ssend and MPI_Recv). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check/facts.h"

/* A message on its way from one worker to another. */
typedef struct message {
    int from, to; /* workers */
    size_t send, recv;
    int edge, micro;
} message;

static int compare_messages(const void *a, const void *b) {
    const message *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->send < y->send ? -1 : x->send > y->send;
}

static int compare_more(const void *a, const void *b) {
    const gp_claim_wait *x = &((const gp_more_wait *)a)->after, *y = &((const gp_more_wait *)b)->after;
    if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
    return x->pc < y->pc ? -1 : x->pc > y->pc;
}

static gp_status find_messages(const gp_facts *f, message **out, size_t *count) {
    size_t capacity = 0;
    for (int e = 0; e < (int)f->claim->edge_count; e++)
        for (int m = 0; m < f->program->micro_batches; m++) {
            const gp_fact_copy *copy = gp_facts_copy(f, e, m);
            int from = gp_facts_worker(f, f->claim->edges[e].from), to = gp_facts_worker(f, f->claim->edges[e].to);
            if (copy->send == GP_NOWHERE || from == to) continue;
            GP_RETURN_IF_FAILED(GP_GROW(out, &capacity, *count + 1, f->err));
            (*out)[(*count)++] = (message){from, to, (size_t)copy->send, (size_t)copy->recv, e, m};
        }
    if (*count > 0) qsort(*out, *count, sizeof **out, compare_messages);
    return GP_OK;
}

/* The last instruction of its worker, in the program's order, that frees the memory of a message; −1: it is free. */
static int64_t freed_by(const gp_facts *f, const int64_t *last, const message *its) {
    return last[(size_t)its->edge * (size_t)f->program->micro_batches + (size_t)its->micro];
}

/* A receive waits for what frees the memory of each message before its own on the link. */
static gp_status find_links(const gp_facts *f, const gp_freed *freed, const message *messages, size_t count,
                            gp_more_wait **out, size_t *out_count) {
    size_t capacity = 0, places = gp_size_times(f->claim->edge_count, (size_t)f->program->micro_batches);
    int64_t *last = NULL, before = GP_NOWHERE;
    GP_RETURN_IF_FAILED(GP_NEW(&last, places, f->err));
    for (size_t i = 0; i < places; i++) last[i] = GP_NOWHERE;
    for (size_t i = 0; i < freed->count; i++) {
        const gp_freed_by *it = &freed->items[i];
        int64_t *at = &last[(size_t)it->edge * (size_t)f->program->micro_batches + (size_t)it->micro];
        if ((int64_t)it->pc > *at) *at = (int64_t)it->pc;
    }
    gp_status status = GP_OK;
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        const message *it = &messages[i];
        if (i == 0 || it->from != it[-1].from || it->to != it[-1].to) before = GP_NOWHERE;
        if (freed_by(f, last, it) > before) before = freed_by(f, last, it);
        if (before == GP_NOWHERE) continue;
        status = GP_GROW(out, &capacity, *out_count + 1, f->err);
        if (status == GP_OK) (*out)[(*out_count)++] = (gp_more_wait){{it->to, it->recv}, {it->to, (size_t)before}};
    }
    free(last);
    if (*out_count > 0) qsort(*out, *out_count, sizeof **out, compare_more);
    return status;
}

/* A send waits for what stands before its receive. */
static gp_status find_meetings(const gp_facts *f, const message *messages, size_t count, gp_more_wait **out,
                               size_t *out_count) {
    size_t capacity = 0;
    for (size_t i = 0; i < count; i++) {
        if (messages[i].recv == 0) continue;
        GP_RETURN_IF_FAILED(GP_GROW(out, &capacity, *out_count + 1, f->err));
        (*out)[(*out_count)++] =
            (gp_more_wait){{messages[i].from, messages[i].send}, {messages[i].to, messages[i].recv - 1}};
    }
    if (*out_count > 0) qsort(*out, *out_count, sizeof **out, compare_more);
    return GP_OK;
}

/* If the program does not come to its end with these waits, too, and nothing is said yet, `why` says why. */
static gp_status try_with(const gp_facts *f, const gp_more_wait *more, size_t count, char why[GP_ERROR_TEXT]) {
    gp_happens *order = NULL;
    gp_error failed = {0};
    gp_status status = gp_happens_create(f->claim, f->program, more, count, false, &order, &failed);
    gp_happens_destroy(&order);
    if (status == GP_PROGRAM && !why[0]) snprintf(why, GP_ERROR_TEXT, "%s", failed.text);
    if (status == GP_OK || status == GP_PROGRAM) return GP_OK;
    return gp_fail(f->err, status, "%s", failed.text);
}

gp_status gp_check_links(const gp_facts *f, const gp_freed *freed, char queued[GP_ERROR_TEXT],
                         char blocking[GP_ERROR_TEXT]) {
    gp_more_wait *links = NULL, *meetings = NULL;
    message *messages = NULL;
    size_t count = 0, link_count = 0, meeting_count = 0;
    gp_status status = find_messages(f, &messages, &count);
    if (status == GP_OK) status = find_links(f, freed, messages, count, &links, &link_count);
    if (status == GP_OK) status = try_with(f, links, link_count, queued);
    if (status == GP_OK) status = find_meetings(f, messages, count, &meetings, &meeting_count);
    if (status == GP_OK) status = try_with(f, meetings, meeting_count, blocking);
    free(links);
    free(meetings);
    free(messages);
    return status;
}
