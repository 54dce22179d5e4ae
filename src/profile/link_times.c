#include "profile/link_times.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "profile/median.h"

/* Long messages, by their call. A slow link gets no further than one that lasts long enough. */
static const size_t sizes[] = {1 << 16, 1 << 19, 1 << 22};
enum { SIZES = 3, FACTOR = 8 };

/* What process 0 asks for: the sizes count from 0. */
enum { CALL_SHORT = SIZES, CALL_END };

enum { MOST_SHORT = 200, FEWEST_SHORT = 3, WARM_SHORT = 8, MOST_LONG = 9, USUAL_LONG = 3 };
static const double short_seconds = 0.1, long_seconds = 0.4;

int gp_link_peer(const int *machines, int processes, gp_link_kind kind) {
    for (int p = 1; p < processes && kind != GP_LINK_PROCESS; p++)
        if ((machines[p] == machines[0]) == (kind == GP_LINK_HOST)) return p;
    return -1;
}

gp_profile_link gp_link_estimate(double *short_rounds, size_t short_count, double *long_rounds, size_t long_count,
                                 double bytes) {
    double latency = gp_median_of(short_rounds, short_count).median / 2;
    double one_way = gp_median_of(long_rounds, long_count).median / 2, seconds = one_way - latency;
    if (seconds < one_way / 2) seconds = one_way / 2; /* short messages were disturbed, or bytes take almost nothing */
    if (!(seconds > 0)) seconds = 1e-9;               /* less than the clock can tell */
    return (gp_profile_link){.known = true, .latency = latency, .per_byte = seconds / bytes};
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A side of the route; both have a sending and a receiving parcel. */
typedef struct side {
    const gp_link_route *route;
    gp_parcel sent, received;
    uint64_t sends, receives; /* messages so far */
    uint64_t call;            /* that has come */
    unsigned char *out, *in;  /* of the largest size */
} side;

static gp_status side_init(side *s, const gp_link_route *route, gp_error *err) {
    size_t largest = sizes[SIZES - 1];
    *s = (side){.route = route};
    gp_parcel_init(&s->sent);
    gp_parcel_init(&s->received);
    GP_RETURN_IF_FAILED(GP_NEW(&s->out, 2 * largest, err));
    s->in = s->out + largest;
    memset(s->out, 1, 2 * largest); /* memory that nothing has written to costs its first write */
    return GP_OK;
}

static void begin_send(side *s, const void *bytes, size_t count) {
    gp_wire_send(s->route->wire, &s->sent, ++s->sends, s->route->peer, s->route->tag, bytes, count);
}

static void begin_receive(side *s, void *bytes, size_t count) {
    gp_wire_receive(s->route->wire, &s->received, ++s->receives, s->route->peer, s->route->tag, bytes, count);
}

static gp_status wait_sent(side *s, gp_error *err) {
    return gp_parcel_wait(&s->sent, s->route->cancel, err);
}

static gp_status wait_received(side *s, gp_error *err) {
    return gp_parcel_wait(&s->received, s->route->cancel, err);
}

/* The wire uses none of its memory afterwards. */
static gp_status side_fini(side *s, gp_status status) {
    if (status != GP_OK) s->route->wire->kind->halt(s->route->wire);
    free(s->out);
    return status;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static gp_status call(side *s, const uint64_t *what, gp_error *err) {
    begin_send(s, what, sizeof *what);
    return wait_sent(s, err);
}

/* The answer is awaited before the call goes, as receives of a run are. */
static gp_status go_short(side *s, gp_error *err) {
    static const uint64_t what = CALL_SHORT;
    begin_receive(s, s->in, sizeof what);
    GP_RETURN_IF_FAILED(call(s, &what, err));
    return wait_received(s, err);
}

static gp_status go_long(side *s, uint64_t size, gp_error *err) {
    begin_receive(s, s->in, sizes[size]);
    GP_RETURN_IF_FAILED(call(s, &size, err));
    begin_send(s, s->out, sizes[size]);
    GP_RETURN_IF_FAILED(wait_sent(s, err));
    return wait_received(s, err);
}

typedef struct asking {
    side side;
    uint64_t (*clock)(void);
    double shorts[MOST_SHORT], longs[MOST_LONG]; /* seconds there and back */
    size_t short_count, long_count;
    uint64_t size;
} asking;

static double since(const asking *a, uint64_t from) {
    return (double)(a->clock() - from) * 1e-9;
}

static gp_status time_shorts(asking *a, gp_error *err) {
    for (int i = 0; i < WARM_SHORT; i++) GP_RETURN_IF_FAILED(go_short(&a->side, err));
    for (double all = 0; a->short_count < FEWEST_SHORT || (a->short_count < MOST_SHORT && all < short_seconds);) {
        uint64_t from = a->clock();
        GP_RETURN_IF_FAILED(go_short(&a->side, err));
        all += a->shorts[a->short_count++] = since(a, from);
    }
    return GP_OK;
}

static gp_status time_long(asking *a, double *out, gp_error *err) {
    uint64_t from = a->clock();
    GP_RETURN_IF_FAILED(go_long(&a->side, a->size, err));
    *out = since(a, from);
    return GP_OK;
}

/* The first of a size is not counted: connections open, and grow faster. */
static gp_status time_longs(asking *a, gp_error *err) {
    double all = 0, first;
    for (a->size = 0;; a->size++) {
        GP_RETURN_IF_FAILED(time_long(a, &first, err));
        all += first;
        if (a->size + 1 == SIZES || all + first * FACTOR * USUAL_LONG > long_seconds) break;
    }
    do {
        GP_RETURN_IF_FAILED(time_long(a, &a->longs[a->long_count], err));
        all += a->longs[a->long_count++];
    } while (a->long_count < MOST_LONG && all < long_seconds);
    return GP_OK;
}

gp_status gp_link_ask(const gp_link_route *route, uint64_t (*clock)(void), gp_profile_link *out, gp_error *err) {
    static const uint64_t end = CALL_END;
    asking a = {.clock = clock ? clock : gp_clock};
    GP_RETURN_IF_FAILED(side_init(&a.side, route, err));
    gp_status status = time_shorts(&a, err);
    if (status == GP_OK) status = time_longs(&a, err);
    if (status == GP_OK) status = call(&a.side, &end, err);
    if (status == GP_OK) *out = gp_link_estimate(a.shorts, a.short_count, a.longs, a.long_count, (double)sizes[a.size]);
    return side_fini(&a.side, status);
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

static gp_status reply(side *s, size_t bytes, gp_error *err) {
    begin_send(s, s->out, bytes);
    return wait_sent(s, err);
}

static gp_status answer_long(side *s, size_t bytes, gp_error *err) {
    begin_receive(s, s->in, bytes);
    GP_RETURN_IF_FAILED(wait_received(s, err));
    return reply(s, bytes, err);
}

static gp_status answer(side *s, gp_error *err) {
    for (;;) {
        begin_receive(s, &s->call, sizeof s->call);
        GP_RETURN_IF_FAILED(wait_received(s, err));
        if (s->call == CALL_END) return GP_OK;
        if (s->call > CALL_END)
            return gp_fail(err, GP_INTERNAL, "process 0 measures links with a call that does not exist: %" PRIu64,
                           s->call);
        GP_RETURN_IF_FAILED(s->call == CALL_SHORT ? reply(s, sizeof s->call, err)
                                                  : answer_long(s, sizes[s->call], err));
    }
}

gp_status gp_link_answer(const gp_link_route *route, gp_error *err) {
    side s;
    GP_RETURN_IF_FAILED(side_init(&s, route, err));
    return side_fini(&s, answer(&s, err));
}
