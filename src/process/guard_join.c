/* How guards find one another: the others connect to process 0 and say the secret, process 0 answers, and they say that
 * they have got the answer. Only then a connection counts: a process that waits too long for the answer closes its
 * connection, and tries again. What it has said before may still come; its newest attempt holds. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "process/guard_internal.h"

enum {
    KNOCKS = 64,       /* connections at a time that have not said who they are */
    HELLO_SECONDS = 5, /* until they have, and until process 0 has answered */
    WAY_SECONDS = 16,  /* for an address to be reached, at most */
    BEATS = 4,         /* signs of life in a second */
};

void gp_guard_tell(gp_guard_peer *to, gp_guard_kind kind, gp_status status, int rank, const void *text, size_t length) {
    unsigned char message[GP_GUARD_ROOM];
    if (to->socket < 0) return;
    size_t bytes = gp_guard_write(message, kind, status, rank, text, length);
    ssize_t sent = send(to->socket, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && sent < (ssize_t)bytes) shutdown(to->socket, SHUT_RDWR);
}

static void set_options(int socket) {
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Time that passes while the process itself is not stopped. It is looked at several times a second. */
typedef struct patience {
    double before, left;
} patience;

static bool is_patient(patience *its) {
    double now = gp_now(), step = now - its->before;
    its->before = now;
    if (step < 1) its->left -= step;
    return its->left > 0;
}

static bool wait_ready(int socket, short events, double until, patience *its) {
    struct pollfd at = {socket, events, 0};
    do {
        if (poll(&at, 1, 100) > 0) return true;
    } while (is_patient(its) && gp_now() < until);
    return false;
}

void gp_guard_name_host(char out[GP_HOST_TEXT]) {
    memset(out, 0, GP_HOST_TEXT);
    gethostname(out, GP_HOST_TEXT - 1);
    gp_make_printable(out);
}

static void say_hello(gp_guard_peer *to, const gp_guard_door *door, int rank) {
    gp_guard_hello its;
    memset(&its, 0, sizeof its);
    memcpy(its.secret, door->secret, sizeof its.secret);
    gp_guard_name_host(its.host);
    its.pid = (int)getpid();
    its.attempt = to->attempt;
    set_options(to->socket);
    gp_guard_tell(to, GP_GUARD_HELLO, GP_OK, rank, &its, sizeof its);
}

static void take_name(gp_guard_peer *its, const gp_guard_hello *from) {
    memcpy(its->host, from->host, sizeof its->host);
    its->host[sizeof its->host - 1] = '\0';
    gp_make_printable(its->host);
    its->pid = from->pid;
    its->heard = gp_now();
}

/* In a time that does not depend on the bytes. */
static bool is_secret(const unsigned char *said, const unsigned char *secret) {
    volatile unsigned char other = 0;
    for (int i = 0; i < GP_GUARD_SECRET; i++) other = (unsigned char)(other | (said[i] ^ secret[i]));
    return other == 0;
}

static bool is_hello(const gp_guard_message *message, const gp_guard_door *door, gp_guard_hello *out) {
    if (message->kind != GP_GUARD_HELLO) return false;
    memcpy(out, message->text, sizeof *out);
    return is_secret(out->secret, door->secret);
}

/* False: the connection has ended. */
static bool take_bytes(int socket, gp_guard_input *input) {
    ssize_t got = recv(socket, input->bytes + input->filled, sizeof input->bytes - input->filled, MSG_DONTWAIT);
    if (got > 0) input->filled += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- process 0 --------------------------------------------------------------------------------------------------- */

/* A connection that has not said yet who it is. Some are no processes of the run, and may say nothing at all: so all of
 * them are heard at once, and the oldest one makes room for the next. */
typedef struct knock {
    int socket;
    double until;
    gp_guard_input input;
} knock;

typedef struct entrance {
    const gp_guard_door *door;
    const gp_guard_listener *listener;
    knock *knocks; /* the oldest first */
    int count, joined;
    int strangers;         /* connections that were not of the run */
    struct pollfd *polled; /* of the listener, the knocks, the peers */
} entrance;

static void close_peer(gp_guard_peer *its) {
    close(its->socket);
    its->socket = -1;
    its->input.filled = 0;
}

/* Bytes of a process that was answered have come. What follows READY is the thread's. */
static void hear_answered(entrance *at, gp_guard_peer *its) {
    gp_guard_message message;
    gp_guard_found found = gp_guard_next(&its->input, &message);
    if (found == GP_GUARD_NOTHING) return;
    its->joined = found == GP_GUARD_MESSAGE && message.kind == GP_GUARD_READY;
    at->joined += its->joined;
    if (its->joined)
        gp_guard_drop(&its->input, &message);
    else
        close_peer(its);
}

/* False: that process is connected, or has tried again since. */
static bool answer(gp_guard *guard, entrance *at, knock *from, const gp_guard_message *message,
                   const gp_guard_hello *theirs) {
    if (message->rank < 1 || message->rank >= guard->processes) return false;
    gp_guard_peer *its = &guard->peers[message->rank - 1];
    if (its->joined || theirs->attempt <= its->attempt) return false;
    if (its->socket >= 0) close_peer(its);
    its->socket = from->socket;
    its->attempt = theirs->attempt;
    from->socket = -1;
    take_name(its, theirs);
    gp_guard_drop(&from->input, message);
    its->input = from->input;
    say_hello(its, at->door, 0);
    hear_answered(at, its);
    return true;
}

/* False: it is no process of the run, or not one that has a place. */
static bool hear_knock(gp_guard *guard, entrance *at, knock *from) {
    gp_guard_message message;
    gp_guard_hello theirs;
    if (!take_bytes(from->socket, &from->input)) return false;
    gp_guard_found found = gp_guard_next(&from->input, &message);
    if (found == GP_GUARD_NOTHING) return true;
    return found == GP_GUARD_MESSAGE && is_hello(&message, at->door, &theirs) &&
           answer(guard, at, from, &message, &theirs);
}

static void turn_away(entrance *at, const knock *its) {
    close(its->socket);
    at->strangers++;
}

static void hear_knocks(gp_guard *guard, entrance *at, const struct pollfd *polled) {
    int kept = 0;
    for (int k = 0; k < at->count; k++) {
        knock *its = &at->knocks[k];
        bool good = polled[k].revents ? hear_knock(guard, at, its) : gp_now() < its->until;
        if (!good) turn_away(at, its);
        if (good && its->socket >= 0) at->knocks[kept++] = *its;
    }
    at->count = kept;
}

static void hear_peers(gp_guard *guard, entrance *at, const struct pollfd *polled) {
    for (int p = 0; p < guard->count; p++) {
        gp_guard_peer *its = &guard->peers[p];
        if (!polled[p].revents || its->socket != polled[p].fd) continue;
        if (take_bytes(its->socket, &its->input))
            hear_answered(at, its);
        else
            close_peer(its);
    }
}

static void take_knock(entrance *at, int listening) {
    int its = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (its < 0) return;
    if (at->count == KNOCKS) {
        turn_away(at, &at->knocks[0]);
        memmove(at->knocks, at->knocks + 1, sizeof *at->knocks * (size_t)--at->count);
    }
    knock *last = &at->knocks[at->count++];
    last->socket = its;
    last->until = gp_now() + HELLO_SECONDS;
    last->input.filled = 0;
}

/* Knocks last: those before are heard once more before one of them makes room. */
static void let_in(gp_guard *guard, entrance *at) {
    struct pollfd *polled = at->polled;
    int doors = at->listener->count, knocks = at->count;
    for (int s = 0; s < doors; s++) *polled++ = (struct pollfd){at->listener->socket[s], POLLIN, 0};
    for (int k = 0; k < knocks; k++) *polled++ = (struct pollfd){at->knocks[k].socket, POLLIN, 0};
    for (int p = 0; p < guard->count; p++) {
        const gp_guard_peer *its = &guard->peers[p];
        *polled++ = (struct pollfd){its->joined ? -1 : its->socket, POLLIN, 0};
    }
    if (poll(at->polled, (nfds_t)(polled - at->polled), 100) <= 0) return;
    hear_peers(guard, at, at->polled + doors + knocks);
    hear_knocks(guard, at, at->polled + doors);
    for (int s = 0; s < doors; s++)
        if (at->polled[s].revents) take_knock(at, at->listener->socket[s]);
}

/* Those that have joined wait for the rest, and know that process 0 does, too. */
static void beat(gp_guard *guard, double *beaten) {
    double now = gp_now();
    if (BEATS * (now - *beaten) < 1) return;
    *beaten = now;
    for (int p = 0; p < guard->count; p++)
        if (guard->peers[p].joined) gp_guard_tell(&guard->peers[p], GP_GUARD_BEAT, GP_OK, 0, NULL, 0);
}

static gp_status join_all(gp_guard *guard, entrance *at, double seconds, gp_error *err) {
    patience its = {gp_now(), seconds};
    double beaten = its.before;
    GP_RETURN_IF_FAILED(GP_NEW(&at->knocks, KNOCKS, err));
    GP_RETURN_IF_FAILED(GP_NEW(&at->polled, at->listener->count + KNOCKS + guard->count, err));
    while (at->joined < guard->count && is_patient(&its)) {
        let_in(guard, at);
        beat(guard, &beaten);
    }
    if (at->joined == guard->count) return GP_OK;
    gp_fail(err, GP_IO,
            "the connection between the processes: %d of %d processes did not connect to process 0 within %.0f s; a "
            "firewall may refuse port %d",
            guard->count - at->joined, guard->count, seconds, at->door->port);
    if (at->strangers == 0) return GP_IO;
    const gp_error cause = *err;
    return gp_fail(err, GP_IO, "%s; %d connections of other programs were closed", cause.text, at->strangers);
}

static gp_status open_entrance(gp_guard *guard, const gp_guard_door *door, const gp_guard_listener *listener,
                               double seconds, gp_error *err) {
    entrance at = {.door = door, .listener = listener};
    gp_status status = join_all(guard, &at, seconds, err);
    for (int k = 0; k < at.count; k++) close(at.knocks[k].socket);
    free(at.knocks);
    free(at.polled);
    return status;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int connect_to(const gp_guard_door *door, int which, double until, patience *left) {
    int its = gp_guard_connect(door, which), failure = 0;
    socklen_t length = sizeof failure;
    if (its < 0) return -1;
    if (wait_ready(its, POLLOUT, until, left) && getsockopt(its, SOL_SOCKET, SO_ERROR, &failure, &length) == 0 &&
        failure == 0)
        return its;
    close(its);
    return -1;
}

/* Process 0 may send more at once. */
static bool hear_first(gp_guard_peer *its, const gp_guard_door *door, double until, patience *left) {
    gp_guard_message message;
    gp_guard_hello theirs;
    gp_guard_input *input = &its->input;
    input->filled = 0;
    gp_guard_found found = GP_GUARD_NOTHING;
    for (; found == GP_GUARD_NOTHING; found = gp_guard_next(input, &message))
        if (!wait_ready(its->socket, POLLIN, until, left) || !take_bytes(its->socket, input)) return false;
    if (found != GP_GUARD_MESSAGE || !is_hello(&message, door, &theirs)) return false;
    take_name(its, &theirs);
    gp_guard_drop(input, &message);
    return true;
}

/* From the answer on, this connection is the one that counts. */
static bool join_at(gp_guard *guard, const gp_guard_door *door, int which, double seconds, patience *left) {
    gp_guard_peer *its = &guard->peers[0];
    its->socket = connect_to(door, which, gp_now() + seconds, left);
    if (its->socket < 0) return false;
    its->attempt++;
    say_hello(its, door, guard->rank);
    if (!hear_first(its, door, gp_now() + HELLO_SECONDS, left)) {
        close_peer(its);
        return false;
    }
    its->joined = true;
    gp_guard_tell(its, GP_GUARD_READY, GP_OK, guard->rank, NULL, 0);
    return true;
}

/* An address may lead elsewhere; the secret tells. */
static gp_status join_first(gp_guard *guard, const gp_guard_door *door, double seconds, gp_error *err) {
    patience left = {gp_now(), seconds};
    int way = 2; /* seconds for an address, more each round */
    for (; is_patient(&left); way = 2 * way < WAY_SECONDS ? 2 * way : WAY_SECONDS) {
        for (int a = 0; a < door->count; a++)
            if (join_at(guard, door, a, way, &left)) return GP_OK;
        usleep(100000);
    }
    return gp_fail(err, GP_IO, "the connection between the processes: process %d cannot reach process 0 at port %d",
                   guard->rank, door->port);
}

gp_status gp_guard_join(gp_guard *guard, const gp_guard_door *door, const gp_guard_listener *listener, double seconds,
                        gp_error *err) {
    return guard->rank == 0 ? open_entrance(guard, door, listener, seconds, err)
                            : join_first(guard, door, seconds, err);
}
