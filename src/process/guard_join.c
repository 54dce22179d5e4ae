/* How guards find one another: process 0 listens, the others connect and say the secret. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/guard_internal.h"

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

/* Until the whole message is there. */
static bool read_all(int socket, void *to, size_t bytes, double until) {
    for (size_t done = 0; done < bytes;) {
        if (!wait_ready(socket, POLLIN, until)) return false;
        ssize_t got = recv(socket, (char *)to + done, bytes - done, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) done += (size_t)got;
    }
    return true;
}

static void describe(gp_guard_hello *out, const gp_guard_door *door) {
    memset(out, 0, sizeof *out);
    memcpy(out->secret, door->secret, sizeof out->secret);
    gethostname(out->host, sizeof out->host - 1);
    out->pid = (int)getpid();
}

static void take_name(gp_guard_peer *its, const gp_guard_hello *from) {
    memcpy(its->host, from->host, sizeof its->host);
    its->host[sizeof its->host - 1] = '\0';
    its->pid = from->pid;
    its->heard = gp_now();
}

/* A connection that is not one of the run's is closed. */
static void admit(gp_guard *guard, const gp_guard_door *door, int socket, double until, int *joined) {
    unsigned char header[GP_GUARD_HEADER];
    gp_guard_hello theirs, mine;
    double limit = gp_now() + 5;
    bool good = read_all(socket, header, sizeof header, limit < until ? limit : until) && header[0] == GP_GUARD_HELLO &&
                read_all(socket, &theirs, sizeof theirs, limit < until ? limit : until) &&
                memcmp(theirs.secret, door->secret, sizeof theirs.secret) == 0;
    int rank = good ? header[2] | header[3] << 8 : 0;
    if (rank < 1 || rank >= guard->processes || guard->peers[rank - 1].socket >= 0) {
        close(socket);
        return;
    }
    gp_guard_peer *its = &guard->peers[rank - 1];
    its->socket = socket;
    take_name(its, &theirs);
    describe(&mine, door);
    set_options(socket);
    gp_guard_tell(its, GP_GUARD_HELLO, GP_OK, 0, &mine, sizeof mine);
    ++*joined;
}

static gp_status join_all(gp_guard *guard, const gp_guard_door *door, int socket, gp_error *err) {
    double until = gp_now() + GP_GUARD_JOIN_SECONDS;
    int joined = 0;
    while (joined < guard->count) {
        if (!wait_ready(socket, POLLIN, until))
            return gp_fail(err, GP_IO,
                           "the connection between the processes: %d of %d processes did not connect to process 0 "
                           "within %d s; a firewall may refuse port %d",
                           guard->count - joined, guard->count, GP_GUARD_JOIN_SECONDS, door->port);
        int its = accept4(socket, NULL, NULL, SOCK_CLOEXEC);
        if (its >= 0) admit(guard, door, its, until, &joined);
    }
    return GP_OK;
}

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

/* The loop back to the own machine leads to process 0 only if it is there; the secret tells. */
static gp_status join_first(gp_guard *guard, const gp_guard_door *door, gp_error *err) {
    double until = gp_now() + GP_GUARD_JOIN_SECONDS;
    gp_guard_hello mine, theirs;
    unsigned char header[GP_GUARD_HEADER];
    describe(&mine, door);
    int seconds = 2; /* for an address, more each round */
    for (; gp_now() < until; seconds *= 2) {
        for (int a = 0; a < door->count; a++) {
            gp_guard_peer *its = &guard->peers[0];
            its->socket = connect_to(door, a, gp_now() + seconds);
            if (its->socket < 0) continue;
            set_options(its->socket);
            gp_guard_tell(its, GP_GUARD_HELLO, GP_OK, guard->rank, &mine, sizeof mine);
            if (read_all(its->socket, header, sizeof header, gp_now() + 5) && header[0] == GP_GUARD_HELLO &&
                read_all(its->socket, &theirs, sizeof theirs, gp_now() + 5) &&
                memcmp(theirs.secret, door->secret, sizeof theirs.secret) == 0) {
                take_name(its, &theirs);
                return GP_OK;
            }
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
