#include "process/deliveries.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const double quiet = 1;    /* seconds without a movement, after which it asks */
static const double most = 0.5;   /* seconds that count between two answers: either process may have been stopped */
static const double rate = 1.0e6; /* bytes in a second that any network carries */
static const double rest = 0.25;  /* seconds between two rounds of questions that found nothing begun, at first */
enum { RESTS = 10 };              /* later ones are longer: up to this part of the timeout */

/* How many messages of one process, tag and direction have begun. */
typedef struct tally {
    uint64_t key;   /* process, direction, tag; as key_of has it */
    uint32_t count; /* 0: the place is free */
} tally;

/* What is asked of another process. */
typedef struct inquiry {
    gp_delivery_question question;
    size_t bytes[GP_DELIVERY_ITEMS];
    uint64_t begun;               /* items that all answers since `since` have called begun */
    size_t skipped;               /* unfinished messages before the first item */
    double asked, answered, late; /* late: seconds for which items have counted as begun by both */
    double rests;                 /* before all items are asked about once more */
    bool open;                    /* the last question has no answer yet */
} inquiry;

struct gp_deliveries {
    int rank, processes;
    pthread_mutex_t lock;    /* the rest */
    gp_parcel *first, *last; /* that have begun, and are not over */
    tally *tallies;          /* open addressing */
    size_t used, capacity;   /* capacity: a power of 2 */
    bool stopped;
    uint64_t moves, seen; /* seen: when the guard's thread looked last */
    double since;         /* it has seen no movement */
    inquiry *inquiries;   /* [process] */
    uint32_t serial;
};

gp_status gp_deliveries_create(int rank, int processes, gp_deliveries **out, gp_error *err) {
    gp_deliveries *its = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    *its = (gp_deliveries){.rank = rank, .processes = processes, .capacity = 256};
    pthread_mutex_init(&its->lock, NULL);
    gp_status status = GP_NEW(&its->tallies, its->capacity, err);
    if (status == GP_OK) status = GP_NEW(&its->inquiries, processes, err);
    if (status == GP_OK)
        *out = its;
    else
        gp_deliveries_destroy(&its);
    return status;
}

void gp_deliveries_destroy(gp_deliveries **deliveries) {
    gp_deliveries *its = *deliveries;
    if (!its) return;
    pthread_mutex_destroy(&its->lock);
    free(its->tallies);
    free(its->inquiries);
    free(its);
    *deliveries = NULL;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static uint64_t key_of(int rank, uint32_t tag, bool receives) {
    return (uint64_t)rank << 32 | tag | (receives ? GP_DELIVERY_RECEIVES : 0);
}

/* Its place, or the free one that it would have. */
static tally *find(tally *tallies, size_t capacity, uint64_t key) {
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
    while (tallies[at].count > 0 && tallies[at].key != key) at = (at + 1) & (capacity - 1);
    return &tallies[at];
}

static bool grow(gp_deliveries *its) {
    size_t capacity = 2 * its->capacity;
    tally *more = calloc(capacity, sizeof *more);
    if (!more) return false;
    for (size_t i = 0; i < its->capacity; i++)
        if (its->tallies[i].count > 0) *find(more, capacity, its->tallies[i].key) = its->tallies[i];
    free(its->tallies);
    its->tallies = more;
    its->capacity = capacity;
    return true;
}

/* Counts go round after 2³² messages: 0 stands for a free place. */
static uint32_t next_number(uint32_t number) {
    return number == UINT32_MAX ? 1 : number + 1;
}

/* Whether so many have begun; `number` may have gone round. */
static bool has_begun(const gp_deliveries *its, uint64_t key, uint32_t number) {
    uint32_t count = find(its->tallies, its->capacity, key)->count;
    return count > 0 && count - number < UINT32_MAX / 2;
}

/* ---- the carrier ------------------------------------------------------------------------------------------------- */

/* Without memory for the counts nothing is watched any more; the run goes on. */
void gp_deliveries_begin(gp_deliveries *its, gp_parcel *parcel) {
    pthread_mutex_lock(&its->lock);
    if (!its->stopped && 2 * its->used >= its->capacity && !grow(its)) its->stopped = true;
    if (!its->stopped) {
        uint64_t key = key_of(parcel->rank, parcel->tag, parcel->receives);
        tally *of = find(its->tallies, its->capacity, key);
        its->used += of->count == 0;
        of->key = key;
        of->count = parcel->number = next_number(of->count);
        parcel->before = its->last;
        parcel->after = NULL;
        *(its->last ? &its->last->after : &its->first) = parcel;
        its->last = parcel;
        its->moves++;
    }
    pthread_mutex_unlock(&its->lock);
}

void gp_deliveries_end(gp_deliveries *its, gp_parcel *parcel) {
    pthread_mutex_lock(&its->lock);
    if (!its->stopped) {
        *(parcel->before ? &parcel->before->after : &its->first) = parcel->after;
        *(parcel->after ? &parcel->after->before : &its->last) = parcel->before;
        its->moves++;
    }
    pthread_mutex_unlock(&its->lock);
}

void gp_deliveries_move(gp_deliveries *its) {
    pthread_mutex_lock(&its->lock);
    its->moves++;
    pthread_mutex_unlock(&its->lock);
}

void gp_deliveries_stop(gp_deliveries *its) {
    pthread_mutex_lock(&its->lock);
    its->stopped = true;
    its->first = its->last = NULL;
    pthread_mutex_unlock(&its->lock);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void forget(gp_deliveries *its, double now) {
    its->seen = its->moves;
    its->since = now;
    for (int p = 0; p < its->processes; p++) its->inquiries[p] = (inquiry){.open = false};
}

static gp_delivery_item item_of(const gp_parcel *parcel) {
    return (gp_delivery_item){parcel->tag | (parcel->receives ? GP_DELIVERY_RECEIVES : 0), parcel->number};
}

/* Messages with that process, the oldest first, without those skipped. False: there are none. */
static bool list_unfinished(gp_deliveries *its, int with, inquiry *out) {
    size_t skip = out->skipped;
    uint32_t count = 0;
    for (const gp_parcel *at = its->first; at && count < GP_DELIVERY_ITEMS; at = at->after) {
        if (at->rank != with) continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        out->bytes[count] = at->bytes;
        out->question.item[count++] = item_of(at);
    }
    out->question.count = count;
    return count > 0;
}

/* Without an answer for as long as the timeout it is asked again: the question, or the answer, may have been dropped.
 * While the other process has begun none of the messages, rounds of questions become rare: it computes. */
static bool ask_process(gp_deliveries *its, int process, double now, double timeout) {
    inquiry *of = &its->inquiries[process];
    if (process == its->rank || now - of->asked <= (of->open ? timeout : 0)) return false;
    bool any = list_unfinished(its, process, of);
    if (!any && of->skipped > 0) {
        if (now - of->asked <= of->rests) return false;
        of->rests = fmin(fmax(2 * of->rests, rest), timeout / RESTS);
        of->skipped = 0;
        any = list_unfinished(its, process, of);
    }
    if (!any) return false;
    of->question.serial = ++its->serial;
    of->asked = now;
    of->open = true;
    return true;
}

bool gp_deliveries_ask(gp_deliveries *its, double now, double timeout, int *to, gp_delivery_question *out) {
    bool asks = false;
    pthread_mutex_lock(&its->lock);
    if (its->moves != its->seen || its->since <= 0) forget(its, now);
    bool still = !its->stopped && its->first && now - its->since >= quiet;
    for (int p = 0; p < its->processes && still && !asks; p++) {
        asks = ask_process(its, p, now, timeout);
        if (!asks) continue;
        *to = p;
        *out = its->inquiries[p].question;
    }
    pthread_mutex_unlock(&its->lock);
    return asks;
}

bool gp_deliveries_answer(gp_deliveries *its, int from, const gp_delivery_question *question, gp_delivery_answer *out) {
    if (from < 0 || from >= its->processes || question->count < 1 || question->count > GP_DELIVERY_ITEMS) return false;
    *out = (gp_delivery_answer){.serial = question->serial};
    pthread_mutex_lock(&its->lock);
    for (uint32_t i = 0; i < question->count; i++) {
        const gp_delivery_item *item = &question->item[i];
        bool sends = item->tag & GP_DELIVERY_RECEIVES; /* what the other one receives, this one sends */
        uint64_t key = key_of(from, item->tag & ~GP_DELIVERY_RECEIVES, !sends);
        out->begun |= (uint64_t)has_begun(its, key, item->number) << i;
    }
    pthread_mutex_unlock(&its->lock);
    return true;
}

/* ---- hearing ----------------------------------------------------------------------------------------------------- */

static gp_status judge(const gp_deliveries *its, int other, const inquiry *of, uint64_t begun, double timeout,
                       gp_error *err) {
    double bytes = 0;
    int first = 0;
    for (int i = 0; i < (int)of->question.count; i++)
        if (begun >> i & 1) bytes += (double)of->bytes[i];
    if (of->late <= timeout + bytes / rate) return GP_OK;
    while (!(of->begun >> first & 1)) first++;
    bool receives = of->question.item[first].tag & GP_DELIVERY_RECEIVES;
    return gp_fail(err, GP_LOST,
                   "process %d has waited for %.0f s %s process %d, which %s it: MPI does not deliver it; the "
                   "connection of MPI between the two may be broken",
                   its->rank, floor(of->late), receives ? "for a message of" : "for the end of a message to", other,
                   receives ? "has sent" : "receives");
}

/* Only what has been begun by both since the first such answer counts. If none of the items is, the next ones follow.
 */
static gp_status take_answer(const gp_deliveries *its, int from, inquiry *of, uint64_t begun, double now,
                             double timeout, gp_error *err) {
    bool first = of->begun == 0;
    of->begun = first ? begun : of->begun & begun;
    if (of->begun == 0) {
        of->late = 0;
        of->skipped += of->question.count;
        return GP_OK;
    }
    if (!first) of->late += fmin(now - of->answered, most);
    of->answered = now;
    of->rests = 0;
    return judge(its, from, of, begun, timeout, err);
}

gp_status gp_deliveries_hear(gp_deliveries *its, int from, const gp_delivery_answer *answer, double now, double timeout,
                             gp_error *err) {
    gp_status status = GP_OK;
    if (from < 0 || from >= its->processes) return GP_OK;
    pthread_mutex_lock(&its->lock);
    inquiry *of = &its->inquiries[from];
    bool fits = !its->stopped && its->moves == its->seen && of->open && answer->serial == of->question.serial;
    if (fits) {
        of->open = false;
        uint64_t all = UINT64_MAX >> (GP_DELIVERY_ITEMS - of->question.count);
        status = take_answer(its, from, of, answer->begun & all, now, timeout, err);
    }
    pthread_mutex_unlock(&its->lock);
    return status;
}
