#include "schedule/play_messages.h"

#include <stdlib.h>

#include "base/memory.h"

static int worker_of(const gp_play_request *request, int stage) {
    return gp_programs_worker(request->programs, stage);
}

static size_t event_of(const gp_messages *its, const gp_play_request *request, gp_wait event) {
    return gp_event_number(request->stages, request->programs->pieces, &event) - its->first_event;
}

/* A post, while messages are listed, stands in `first` as the number of its messages. */
typedef struct listed {
    size_t post;
    gp_message message;
} listed;

typedef struct lister {
    gp_messages *its;
    const gp_play_request *request;
    listed *items;
    size_t count, capacity;
} lister;

/* The parts of one member that a collector copies are one message. */
static gp_status list_parts(lister *l, const gp_instr *instr, gp_error *err) {
    const gp_play_request *request = l->request;
    int stage, last = -1, to = worker_of(request, instr->stage);
    double bytes;
    size_t collect = event_of(l->its, request, (gp_wait){instr->collective, instr->stage, GP_WAIT_COLLECTED});
    for (int i = 0; request->part(request->context, instr, i, &stage, &bytes); i++) {
        int from = worker_of(request, stage);
        if (!gp_links_are_messages(l->its->links, from, to)) continue;
        if (stage == last) {
            l->items[l->count - 1].message.bytes += bytes;
            continue;
        }
        last = stage;
        GP_RETURN_IF_FAILED(GP_GROW(&l->items, &l->capacity, l->count + 1, err));
        size_t post = event_of(l->its, request, (gp_wait){instr->collective, (uint16_t)stage, GP_WAIT_POSTED});
        l->items[l->count++] = (listed){post, {collect, from, to, bytes}};
        l->its->due[collect]++;
    }
    return GP_OK;
}

static gp_status list_all(lister *l, gp_error *err) {
    const gp_programs *programs = l->request->programs;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            if (programs->worker[w].instrs[pc].op == GP_INSTR_COLLECT)
                GP_RETURN_IF_FAILED(list_parts(l, &programs->worker[w].instrs[pc], err));
    return GP_OK;
}

/* Sorts them by their posts. */
static gp_status sort(const lister *l, gp_error *err) {
    gp_messages *its = l->its;
    GP_RETURN_IF_FAILED(GP_NEW(&its->items, l->count, err));
    for (size_t i = 0; i < l->count; i++) its->first[l->items[i].post + 1]++;
    for (size_t e = 0; e < its->events; e++) its->first[e + 1] += its->first[e];
    for (size_t i = l->count; i-- > 0;) its->items[--its->first[l->items[i].post + 1]] = l->items[i].message;
    for (size_t e = 0; e < its->events; e++) its->first[e] = its->first[e + 1];
    its->first[its->events] = l->count;
    return GP_OK;
}

static gp_status fill(gp_messages *its, const gp_play_request *request, gp_error *err) {
    size_t copies = request->stages->edge_count * (size_t)request->programs->pieces;
    lister l = {.its = its, .request = request};
    its->first_event = 2 * copies;
    its->events = gp_event_count(request->stages, request->programs->pieces) - its->first_event;
    GP_RETURN_IF_FAILED(GP_NEW(&its->free_at, gp_links_lanes(its->links), err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->first, its->events + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->due, its->events, err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->arrived, its->events, err));
    gp_status status = list_all(&l, err);
    if (status == GP_OK) status = sort(&l, err);
    free(l.items);
    return status;
}

gp_status gp_messages_init(gp_messages *messages, const gp_play_request *request, gp_error *err) {
    *messages = (gp_messages){.links = request->links};
    return request->links ? fill(messages, request, err) : GP_OK;
}

void gp_messages_fini(gp_messages *messages) {
    free(messages->free_at);
    free(messages->items);
    free(messages->first);
    free(messages->due);
    free(messages->arrived);
    *messages = (gp_messages){0};
}

bool gp_messages_has_edge(const gp_messages *messages, const gp_play_request *request, const gp_instr *instr) {
    if (!messages->links || !gp_instr_has_edge(instr)) return false;
    const gp_edge *edge = &request->stages->edges[instr->edge];
    return gp_links_are_messages(messages->links, worker_of(request, edge->from), worker_of(request, edge->to));
}

const gp_message *gp_messages_of(const gp_messages *messages, size_t event, size_t *count) {
    *count = 0;
    if (!messages->links || event < messages->first_event) return NULL;
    const size_t *first = &messages->first[event - messages->first_event];
    *count = first[1] - first[0];
    return &messages->items[first[0]];
}

bool gp_messages_queue(const gp_messages *messages, int from, int to) {
    const gp_link *link = gp_links_between(messages->links, from, to);
    return link && link->shared;
}

double gp_messages_take(gp_messages *messages, int from, int to, double time, double seconds) {
    int lane[2];
    gp_links_find_lanes(messages->links, from, to, lane);
    for (int i = 0; i < 2; i++)
        if (lane[i] >= 0 && messages->free_at[lane[i]] > time) time = messages->free_at[lane[i]];
    for (int i = 0; i < 2; i++)
        if (lane[i] >= 0) messages->free_at[lane[i]] = time + seconds;
    return time;
}

double gp_messages_seconds(const gp_messages *messages, int from, int to, double bytes) {
    return bytes / gp_links_between(messages->links, from, to)->bandwidth;
}

double gp_messages_latency(const gp_messages *messages, int from, int to) {
    return gp_links_between(messages->links, from, to)->latency;
}
