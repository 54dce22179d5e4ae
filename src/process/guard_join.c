/* How guards find one another: process 0 listens, the others connect and say the secret. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "process/guard_internal.h"

enum {
    KNOCKS = 64,       /* connections at a time that have not said who they are */
    HELLO_SECONDS = 5, /* until they have, and until process 0 has answered */
};

/* ---- listening --------------------------------------------------------------------------------------------------- */

gp_status gp_guard_explain(const char *what, gp_error *err) {
    return gp_fail(err, GP_IO, "the connection between the processes: %s: %s", what, strerror(errno));
}

static void list_addresses(gp_guard_door *out) {
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *at = all; at && out->count < GP_GUARD_ADDRESSES; at = at->ifa_next) {
        unsigned char *to = out->address[out->count];
        if (!at->ifa_addr) continue;
        if (at->ifa_addr->sa_family == AF_INET) {
            memset(to, 0, 10);
            to[10] = to[11] = 0xff;
            memcpy(to + 12, &((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr, 4);
            out->count++;
        } else if (at->ifa_addr->sa_family == AF_INET6) {
            const struct in6_addr *its = &((struct sockaddr_in6 *)(void *)at->ifa_addr)->sin6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(its)) continue; /* needs the name of an interface */
            memcpy(to, its, 16);
            out->count++;
        }
    }
    freeifaddrs(all);
}

/* For both versions of IP, or for version 4 if the system has no other. */
static int open_socket(bool *six) {
    int off = 0, its = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *six = its >= 0;
    if (its >= 0) setsockopt(its, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return its >= 0 ? its : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static socklen_t fill_address(struct sockaddr_storage *out, bool six, const unsigned char address[16], int port) {
    memset(out, 0, sizeof *out);
    if (six) {
        struct sockaddr_in6 *its = (struct sockaddr_in6 *)(void *)out;
        its->sin6_family = AF_INET6;
        its->sin6_port = htons((uint16_t)port);
        if (address) memcpy(&its->sin6_addr, address, 16);
        return sizeof *its;
    }
    struct sockaddr_in *its = (struct sockaddr_in *)(void *)out;
    its->sin_family = AF_INET;
    its->sin_port = htons((uint16_t)port);
    if (address) memcpy(&its->sin_addr, address + 12, 4);
    return sizeof *its;
}

static int port_of(int socket) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    socklen_t length = sizeof at;
    memset(&at, 0, sizeof at);
    if (getsockname(socket, &at.any, &length) != 0) return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
}

gp_status gp_guard_listen(gp_guard_door *out, int *socket, gp_error *err) {
    struct sockaddr_storage any = {0};
    bool six;
    memset(out, 0, sizeof *out);
    if (getrandom(out->secret, sizeof out->secret, 0) != (ssize_t)sizeof out->secret)
        return gp_guard_explain("no secret", err);
    int its = open_socket(&six);
    if (its < 0) return gp_guard_explain("no socket", err);
    socklen_t length = fill_address(&any, six, NULL, 0);
    if (bind(its, (struct sockaddr *)&any, length) != 0 || listen(its, SOMAXCONN) != 0) {
        gp_status status = gp_guard_explain("cannot listen", err);
        close(its);
        return status;
    }
    out->port = port_of(its);
    list_addresses(out);
    *socket = its;
    return GP_OK;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

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

static bool wait_ready(int socket, short events, double until) {
    struct pollfd at = {socket, events, 0};
    double left = until - gp_now();
    return left > 0 && poll(&at, 1, (int)(1000 * left) + 1) > 0;
}

void gp_guard_name_host(char out[GP_HOST_TEXT]) {
    memset(out, 0, GP_HOST_TEXT);
    gethostname(out, GP_HOST_TEXT - 1);
    gp_make_printable(out);
}

static void describe(gp_guard_hello *out, const gp_guard_door *door) {
    memset(out, 0, sizeof *out);
    memcpy(out->secret, door->secret, sizeof out->secret);
    gp_guard_name_host(out->host);
    out->pid = (int)getpid();
}

static void take_name(gp_guard_peer *its, const gp_guard_hello *from) {
    memcpy(its->host, from->host, sizeof its->host);
    its->host[sizeof its->host - 1] = '\0';
    gp_make_printable(its->host);
    its->pid = from->pid;
    its->heard = gp_now();
}

static bool is_hello(const gp_guard_message *message, const gp_guard_door *door, gp_guard_hello *out) {
    if (message->kind != GP_GUARD_HELLO) return false;
    memcpy(out, message->text, sizeof *out);
    return memcmp(out->secret, door->secret, sizeof out->secret) == 0;
}

/* ---- process 0 --------------------------------------------------------------------------------------------------- */

/* A connection that has not said yet who it is. Some are no processes of the run, and may say nothing at all: so all of
 * them are heard at once. */
typedef struct knock {
    int socket;
    double until;
    gp_guard_input input;
} knock;

typedef struct entrance {
    const gp_guard_door *door;
    knock *knocks;
    int count, joined;
} entrance;

static bool has_gone(int socket) {
    struct pollfd at = {socket, POLLRDHUP, 0};
    return poll(&at, 1, 0) > 0;
}

/* A process that waited too long for the answer has closed its connection, and comes again. */
static bool has_place(const gp_guard *guard, int rank) {
    if (rank < 1 || rank >= guard->processes) return false;
    const gp_guard_peer *its = &guard->peers[rank - 1];
    return its->socket < 0 || has_gone(its->socket);
}

static void admit(gp_guard *guard, entrance *at, knock *from, const gp_guard_message *message,
                  const gp_guard_hello *theirs) {
    gp_guard_hello mine;
    gp_guard_peer *its = &guard->peers[message->rank - 1];
    if (its->socket >= 0)
        close(its->socket);
    else
        at->joined++;
    its->socket = from->socket;
    from->socket = -1;
    take_name(its, theirs);
    gp_guard_drop(&from->input, message);
    its->input = from->input;
    describe(&mine, at->door);
    set_options(its->socket);
    gp_guard_tell(its, GP_GUARD_HELLO, GP_OK, 0, &mine, sizeof mine);
}

/* False: it is no process of the run, or not one that has a place. */
static bool hear_knock(gp_guard *guard, entrance *at, knock *from) {
    gp_guard_message message;
    gp_guard_hello theirs;
    gp_guard_input *input = &from->input;
    ssize_t got = recv(from->socket, input->bytes + input->filled, sizeof input->bytes - input->filled, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return false;
    input->filled += (size_t)got;
    gp_guard_found found = gp_guard_next(input, &message);
    if (found == GP_GUARD_NOTHING) return true;
    if (found == GP_GUARD_GARBAGE || !is_hello(&message, at->door, &theirs) || !has_place(guard, message.rank))
        return false;
    admit(guard, at, from, &message, &theirs);
    return true;
}

static void hear_knocks(gp_guard *guard, entrance *at, const struct pollfd *polled) {
    int kept = 0;
    for (int k = 0; k < at->count; k++) {
        knock *its = &at->knocks[k];
        bool good = polled[k].revents ? hear_knock(guard, at, its) : gp_now() < its->until;
        if (!good) close(its->socket);
        if (good && its->socket >= 0) at->knocks[kept++] = *its;
    }
    at->count = kept;
}

static void let_in(gp_guard *guard, entrance *at, int socket) {
    struct pollfd polled[KNOCKS + 1];
    for (int k = 0; k < at->count; k++) polled[k] = (struct pollfd){at->knocks[k].socket, POLLIN, 0};
    polled[at->count] = (struct pollfd){at->count < KNOCKS ? socket : -1, POLLIN, 0};
    if (poll(polled, (nfds_t)at->count + 1, 100) < 0) return;
    bool knocks = polled[at->count].revents != 0;
    hear_knocks(guard, at, polled);
    int its = knocks ? accept4(socket, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (its < 0) return;
    at->knocks[at->count].socket = its;
    at->knocks[at->count].until = gp_now() + HELLO_SECONDS;
    at->knocks[at->count++].input.filled = 0;
}

static gp_status join_all(gp_guard *guard, const gp_guard_door *door, int socket, gp_error *err) {
    double until = gp_now() + GP_GUARD_JOIN_SECONDS;
    entrance at = {.door = door};
    GP_RETURN_IF_FAILED(GP_NEW(&at.knocks, KNOCKS, err));
    while (at.joined < guard->count && gp_now() < until) let_in(guard, &at, socket);
    for (int k = 0; k < at.count; k++) close(at.knocks[k].socket);
    free(at.knocks);
    if (at.joined == guard->count) return GP_OK;
    return gp_fail(err, GP_IO,
                   "the connection between the processes: %d of %d processes did not connect to process 0 within %d s; "
                   "a firewall may refuse port %d",
                   guard->count - at.joined, guard->count, GP_GUARD_JOIN_SECONDS, door->port);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int connect_to(const gp_guard_door *door, int which, double until) {
    struct sockaddr_storage to;
    bool six;
    int its = open_socket(&six), failure = 0;
    socklen_t length = sizeof failure;
    if (its < 0) return -1;
    length = fill_address(&to, six, door->address[which], door->port);
    fcntl(its, F_SETFL, O_NONBLOCK);
    int code = connect(its, (struct sockaddr *)&to, length);
    length = sizeof failure;
    bool good = code == 0 || (errno == EINPROGRESS && wait_ready(its, POLLOUT, until) &&
                              getsockopt(its, SOL_SOCKET, SO_ERROR, &failure, &length) == 0 && failure == 0);
    if (good) return its;
    close(its);
    return -1;
}

/* Process 0 may send more at once. */
static bool hear_first(gp_guard_peer *its, const gp_guard_door *door, double until) {
    gp_guard_message message;
    gp_guard_hello theirs;
    gp_guard_input *input = &its->input;
    input->filled = 0;
    gp_guard_found found = GP_GUARD_NOTHING;
    for (; found == GP_GUARD_NOTHING; found = gp_guard_next(input, &message)) {
        if (!wait_ready(its->socket, POLLIN, until)) return false;
        ssize_t got =
            recv(its->socket, input->bytes + input->filled, sizeof input->bytes - input->filled, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) input->filled += (size_t)got;
    }
    if (found != GP_GUARD_MESSAGE || !is_hello(&message, door, &theirs)) return false;
    take_name(its, &theirs);
    gp_guard_drop(input, &message);
    return true;
}

/* The loop back to the own machine leads to process 0 only if it is there; the secret tells. */
static gp_status join_first(gp_guard *guard, const gp_guard_door *door, gp_error *err) {
    double until = gp_now() + GP_GUARD_JOIN_SECONDS;
    gp_guard_hello mine;
    gp_guard_peer *its = &guard->peers[0];
    describe(&mine, door);
    int seconds = 2; /* for an address, more each round */
    for (; gp_now() < until; seconds *= 2) {
        for (int a = 0; a < door->count; a++) {
            its->socket = connect_to(door, a, gp_now() + seconds);
            if (its->socket < 0) continue;
            set_options(its->socket);
            gp_guard_tell(its, GP_GUARD_HELLO, GP_OK, guard->rank, &mine, sizeof mine);
            if (hear_first(its, door, gp_now() + HELLO_SECONDS)) return GP_OK;
            close(its->socket);
            its->socket = -1;
        }
        usleep(100000);
    }
    return gp_fail(err, GP_IO, "the connection between the processes: process %d cannot reach process 0 at port %d",
                   guard->rank, door->port);
}

gp_status gp_guard_join(gp_guard *guard, const gp_guard_door *door, int socket, gp_error *err) {
    return guard->rank == 0 ? join_all(guard, door, socket, err) : join_first(guard, door, err);
}
