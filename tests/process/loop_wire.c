#include "process/loop_wire.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"

/* One side of a message, or a message that was copied: then `parcel` is NULL. */
typedef struct side {
    gp_parcel *parcel;
    char *copy;
    size_t bytes;
    uint64_t hash; /* of what is sent */
    uint32_t tag;
    int from, to;
    bool receives;
    bool arrived; /* and the sender does not know yet */
    struct side *next;
} side;

typedef struct end {
    gp_wire wire;
    loop_hub *hub;
    bool halted;
} end;

struct loop_hub {
    pthread_mutex_t lock;
    pthread_cond_t change;
    pthread_t thread;
    side *first; /* in the order in which they were posted */
    end *ends;   /* [rank] */
    int processes;
    uint64_t seed, delivered;
    uint32_t delay, draws;
    bool quit;
    loop_failed failed;
    void *context;
};

static uint32_t draw(loop_hub *its) {
    return gp_philox_draw(its->seed, (gp_philox){{its->draws++, 0, 0, 0}}).word[0];
}

static void *must(void *memory) {
    if (!memory) abort();
    return memory;
}

/* ---- posting ----------------------------------------------------------------------------------------------------- */

static void add(loop_hub *its, int rank, gp_parcel *parcel);

/* What it returns begins. */
static void end_parcel(loop_hub *its, int rank, gp_parcel *parcel) {
    gp_parcel *then = gp_parcel_end(parcel);
    if (then) add(its, rank, then);
}

static void append(loop_hub *its, side *one) {
    side **at = &its->first;
    while (*at) at = &(*at)->next;
    *at = one;
}

/* A parcel that is under way is its sender's or its receiver's no more. */
static void check_parcel(const loop_hub *its, const gp_parcel *parcel) {
    for (const side *at = its->first; at; at = at->next)
        if (at->parcel == parcel) abort();
}

/* `lock` is held. */
static void add(loop_hub *its, int rank, gp_parcel *parcel) {
    const end *own = &its->ends[rank];
    side *one = must(calloc(1, sizeof *one));
    *one = (side){.parcel = parcel, .bytes = parcel->bytes, .tag = parcel->tag, .receives = parcel->receives};
    one->from = parcel->receives ? parcel->rank : rank;
    one->to = parcel->receives ? rank : parcel->rank;
    if (!parcel->receives) one->hash = gp_hash_bytes(0, parcel->address, parcel->bytes);
    check_parcel(its, parcel);
    if (own->halted) {
        free(one);
        return;
    }
    bool copied = !parcel->receives && draw(its) % 3 == 0;
    if (copied) {
        one->copy = memcpy(must(malloc(parcel->bytes)), parcel->address, parcel->bytes);
        one->parcel = NULL;
    }
    append(its, one);
    if (copied) end_parcel(its, rank, parcel);
    pthread_cond_signal(&its->change);
}

static void post(gp_wire *wire, gp_parcel *parcel) {
    loop_hub *its = ((end *)wire)->hub;
    pthread_mutex_lock(&its->lock);
    add(its, wire->rank, parcel);
    pthread_mutex_unlock(&its->lock);
}

static void drop(side **at) {
    side *one = *at;
    *at = one->next;
    free(one->copy);
    free(one);
}

static void halt(gp_wire *wire) {
    end *own = (end *)wire;
    loop_hub *its = own->hub;
    pthread_mutex_lock(&its->lock);
    own->halted = true;
    for (side **at = &its->first; *at;) {
        bool mine = (*at)->parcel && ((*at)->receives ? (*at)->to : (*at)->from) == wire->rank;
        if (mine)
            drop(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&its->lock);
}

static const gp_wire_kind kind = {"a loop", post, halt};

/* ---- delivery ---------------------------------------------------------------------------------------------------- */

static bool belong(const side *a, const side *b) {
    return a->from == b->from && a->to == b->to && a->tag == b->tag;
}

/* The first of its kind, so that messages with equal ends and tags stay in order. */
static side **first_like(loop_hub *its, const side *one, bool receives) {
    side **at = &its->first;
    while (*at && ((*at)->arrived || !belong(*at, one) || (*at)->receives != receives)) at = &(*at)->next;
    return at;
}

static bool is_ready(loop_hub *its, side *one) {
    return one->arrived || (!one->receives && *first_like(its, one, false) == one && *first_like(its, one, true));
}

/* A send that has its receive, or has arrived, drawn among all of them; NULL: none. */
static side *pick(loop_hub *its) {
    int count = 0;
    side *chosen = NULL;
    for (side *at = its->first; at; at = at->next)
        if (is_ready(its, at) && draw(its) % (uint32_t)++count == 0) chosen = at;
    return chosen;
}

/* Tells the sender that its message has gone. Until then it must not have written to the memory. */
static gp_status release(loop_hub *its, side *sent, gp_error *err) {
    side **at = &its->first;
    while (*at != sent) at = &(*at)->next;
    int from = sent->from, to = sent->to;
    bool same = !sent->parcel || gp_hash_bytes(0, sent->parcel->address, sent->bytes) == sent->hash;
    gp_parcel *parcel = sent->parcel;
    drop(at);
    if (parcel) end_parcel(its, from, parcel);
    return same ? GP_OK
                : gp_fail(err, GP_INTERNAL, "process %d wrote to what it was still sending to process %d", from, to);
}

/* `lock` is held: nothing of it is taken back meanwhile. A sender that is not free at once may hear of it later. */
static gp_status deliver(loop_hub *its, side *sent, gp_error *err) {
    if (sent->arrived) return release(its, sent, err);
    side **to = first_like(its, sent, true);
    gp_parcel *receiver = (*to)->parcel;
    if (sent->bytes != receiver->bytes)
        return gp_fail(err, GP_IO, "process %d sent a message of another size than planned: %zu bytes, not %zu",
                       sent->from, sent->bytes, receiver->bytes);
    memcpy(receiver->address, sent->copy ? sent->copy : sent->parcel->address, sent->bytes);
    drop(to);
    end_parcel(its, sent->to, receiver);
    its->delivered++;
    sent->arrived = sent->parcel && draw(its) % 2 == 0;
    return sent->arrived ? GP_OK : release(its, sent, err);
}

static void *work(void *argument) {
    loop_hub *its = argument;
    gp_error err = {0};
    pthread_mutex_lock(&its->lock);
    while (!its->quit) {
        side *chosen = pick(its);
        if (!chosen) {
            pthread_cond_wait(&its->change, &its->lock);
            continue;
        }
        uint32_t wait = its->delay ? draw(its) % its->delay : 0;
        pthread_mutex_unlock(&its->lock);
        if (wait) usleep(wait);
        pthread_mutex_lock(&its->lock);
        chosen = pick(its); /* what was chosen may have been taken back */
        if (!chosen) continue;
        int rank = chosen->to;
        if (deliver(its, chosen, &err) == GP_OK) continue;
        pthread_mutex_unlock(&its->lock);
        its->failed(its->context, rank, &err);
        return NULL;
    }
    pthread_mutex_unlock(&its->lock);
    return NULL;
}

/* ---- open, close ------------------------------------------------------------------------------------------------- */

loop_hub *loop_open(int processes, uint64_t seed, uint32_t delay, loop_failed failed, void *context) {
    loop_hub *its = must(calloc(1, sizeof *its));
    its->ends = must(calloc((size_t)processes, sizeof *its->ends));
    its->processes = processes;
    its->seed = seed;
    its->delay = delay;
    its->failed = failed;
    its->context = context;
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->change, NULL);
    for (int r = 0; r < processes; r++)
        its->ends[r] =
            (end){.wire = {.kind = &kind, .rank = r, .processes = processes, .tags = UINT32_MAX}, .hub = its};
    if (gp_thread_start(&its->thread, 0, work, its) != 0) abort();
    return its;
}

void loop_close(loop_hub **hub) {
    if (!*hub) return;
    pthread_mutex_lock(&(*hub)->lock);
    (*hub)->quit = true;
    pthread_cond_signal(&(*hub)->change);
    pthread_mutex_unlock(&(*hub)->lock);
    pthread_join((*hub)->thread, NULL);
    while ((*hub)->first) drop(&(*hub)->first);
    pthread_mutex_destroy(&(*hub)->lock);
    pthread_cond_destroy(&(*hub)->change);
    free((*hub)->ends);
    free(*hub);
    *hub = NULL;
}

gp_wire *loop_wire_of(loop_hub *hub, int rank) {
    return &hub->ends[rank].wire;
}

uint64_t loop_delivered(loop_hub *hub) {
    pthread_mutex_lock(&hub->lock);
    uint64_t count = hub->delivered;
    pthread_mutex_unlock(&hub->lock);
    return count;
}

int loop_held(loop_hub *hub) {
    int count = 0;
    pthread_mutex_lock(&hub->lock);
    for (side *at = hub->first; at; at = at->next) count++;
    pthread_mutex_unlock(&hub->lock);
    return count;
}
