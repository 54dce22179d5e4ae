#include "profile/link_times.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "profile/median.h"

/* Messages of an exchange, by its call. A slow link gets no further than one that lasts long enough. */
static const size_t sizes[] = {1 << 16, 1 << 19, 1 << 22};
enum { SIZES = 3, FACTOR = 8 };

/* What process 0 asks for: the sizes count from 0. */
enum { CALL_ROUND = SIZES, CALL_END };

enum { MOST_ROUNDS = 200, FEWEST_ROUNDS = 3, WARM_ROUNDS = 8, MOST_EXCHANGES = 9, USUAL_EXCHANGES = 3 };
static const double round_seconds = 0.1, exchange_seconds = 0.4;

int gp_link_peer(const int *machines, int processes, gp_link_kind kind) {
    for (int p = 1; p < processes && kind != GP_LINK_PROCESS; p++)
        if ((machines[p] == machines[0]) == (kind == GP_LINK_HOST)) return p;
    return -1;
}

gp_profile_link gp_link_estimate(double *rounds, size_t round_count, double *exchanges, size_t exchange_count,
                                 double bytes) {
    double latency = gp_median_of(rounds, round_count).median / 2;
    double all = gp_median_of(exchanges, exchange_count).median, seconds = all - 2 * latency;
    if (seconds < all / 2) seconds = all / 2; /* the round trips were disturbed, or the bytes take next to nothing */
    if (!(seconds > 0)) seconds = 1e-9;       /* less than the clock can tell */
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
static gp_status go_round(side *s, gp_error *err) {
    static const uint64_t what = CALL_ROUND;
    begin_receive(s, s->in, sizeof what);
    GP_RETURN_IF_FAILED(call(s, &what, err));
    return wait_received(s, err);
}

/* Both send at the same time. The other process then says that it has everything. */
static gp_status exchange(side *s, uint64_t size, gp_error *err) {
    begin_receive(s, s->in, sizes[size]);
    GP_RETURN_IF_FAILED(call(s, &size, err));
    begin_send(s, s->out, sizes[size]);
    GP_RETURN_IF_FAILED(wait_received(s, err));
    begin_receive(s, s->in, sizeof size);
    GP_RETURN_IF_FAILED(wait_sent(s, err));
    return wait_received(s, err);
}

typedef struct asking {
    side side;
    uint64_t (*clock)(void);
    double rounds[MOST_ROUNDS], exchanges[MOST_EXCHANGES]; /* seconds */
    size_t round_count, exchange_count;
    uint64_t size;
} asking;

static double since(const asking *a, uint64_t from) {
    return (double)(a->clock() - from) * 1e-9;
}

static gp_status time_rounds(asking *a, gp_error *err) {
    for (int i = 0; i < WARM_ROUNDS; i++) GP_RETURN_IF_FAILED(go_round(&a->side, err));
    for (double all = 0; a->round_count < FEWEST_ROUNDS || (a->round_count < MOST_ROUNDS && all < round_seconds);) {
        uint64_t from = a->clock();
        GP_RETURN_IF_FAILED(go_round(&a->side, err));
        all += a->rounds[a->round_count++] = since(a, from);
    }
    return GP_OK;
}

static gp_status time_exchange(asking *a, double *out, gp_error *err) {
    uint64_t from = a->clock();
    GP_RETURN_IF_FAILED(exchange(&a->side, a->size, err));
    *out = since(a, from);
    return GP_OK;
}

/* The first exchange of a size is not counted: connections open, and grow faster. */
static gp_status time_exchanges(asking *a, gp_error *err) {
    double all = 0, first;
    for (a->size = 0;; a->size++) {
        GP_RETURN_IF_FAILED(time_exchange(a, &first, err));
        all += first;
        if (a->size + 1 == SIZES || all + first * FACTOR * USUAL_EXCHANGES > exchange_seconds) break;
    }
    do {
        GP_RETURN_IF_FAILED(time_exchange(a, &a->exchanges[a->exchange_count], err));
        all += a->exchanges[a->exchange_count++];
    } while (a->exchange_count < MOST_EXCHANGES && all < exchange_seconds);
    return GP_OK;
}

gp_status gp_link_ask(const gp_link_route *route, uint64_t (*clock)(void), gp_profile_link *out, gp_error *err) {
    static const uint64_t end = CALL_END;
    asking a = {.clock = clock ? clock : gp_clock};
    GP_RETURN_IF_FAILED(side_init(&a.side, route, err));
    gp_status status = time_rounds(&a, err);
    if (status == GP_OK) status = time_exchanges(&a, err);
    if (status == GP_OK) status = call(&a.side, &end, err);
    if (status == GP_OK)
        *out = gp_link_estimate(a.rounds, a.round_count, a.exchanges, a.exchange_count, (double)sizes[a.size]);
    return side_fini(&a.side, status);
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

static gp_status reply(side *s, gp_error *err) {
    begin_send(s, s->out, sizeof s->call);
    return wait_sent(s, err);
}

static gp_status answer_exchange(side *s, size_t bytes, gp_error *err) {
    begin_receive(s, s->in, bytes);
    begin_send(s, s->out, bytes);
    GP_RETURN_IF_FAILED(wait_received(s, err));
    GP_RETURN_IF_FAILED(wait_sent(s, err));
    return reply(s, err);
}

static gp_status answer(side *s, gp_error *err) {
    for (;;) {
        begin_receive(s, &s->call, sizeof s->call);
        GP_RETURN_IF_FAILED(wait_received(s, err));
        if (s->call == CALL_END) return GP_OK;
        if (s->call > CALL_END)
            return gp_fail(err, GP_INTERNAL, "process 0 measures links with a call that does not exist: %" PRIu64,
                           s->call);
        GP_RETURN_IF_FAILED(s->call == CALL_ROUND ? reply(s, err) : answer_exchange(s, sizes[s->call], err));
    }
}

gp_status gp_link_answer(const gp_link_route *route, gp_error *err) {
    side s;
    GP_RETURN_IF_FAILED(side_init(&s, route, err));
    return side_fini(&s, answer(&s, err));
}
