/* Where process 0 listens, and how the others reach it: addresses, ports and sockets. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/guard_internal.h"

enum {
    TRIES = 16, /* for a port that is free at all addresses */
    ANY_PORT = 9,
};

static const unsigned char loops_back[2][16] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
};

gp_status gp_guard_explain(const char *what, gp_error *err) {
    return gp_fail(err, GP_IO, "the connection between the processes: %s: %s", what, strerror(errno));
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

typedef union any_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} any_address;

static bool is_version_4(const unsigned char address[16]) {
    return memcmp(address, loops_back[0], 12) == 0;
}

static socklen_t fill_address(any_address *out, const unsigned char address[16], int port) {
    memset(out, 0, sizeof *out);
    if (is_version_4(address)) {
        out->four.sin_family = AF_INET;
        out->four.sin_port = htons((uint16_t)port);
        memcpy(&out->four.sin_addr, address + 12, 4);
        return sizeof out->four;
    }
    out->six.sin6_family = AF_INET6;
    out->six.sin6_port = htons((uint16_t)port);
    memcpy(&out->six.sin6_addr, address, 16);
    return sizeof out->six;
}

/* False: it is of another kind, or needs the name of an interface. */
static bool read_address(const struct sockaddr *from, unsigned char out[16]) {
    any_address its;
    if (from->sa_family == AF_INET) {
        memcpy(&its.four, from, sizeof its.four);
        memcpy(out, loops_back[0], 12);
        memcpy(out + 12, &its.four.sin_addr, 4);
        return true;
    }
    if (from->sa_family != AF_INET6) return false;
    memcpy(&its.six, from, sizeof its.six);
    memcpy(out, &its.six.sin6_addr, 16);
    return !IN6_IS_ADDR_LINKLOCAL(&its.six.sin6_addr);
}

static bool leads_back(const unsigned char address[16]) {
    return is_version_4(address) ? address[12] == 127 : memcmp(address, loops_back[1], 16) == 0;
}

static bool has_address(const unsigned char (*all)[16], int count, const unsigned char address[16]) {
    for (int a = 0; a < count; a++)
        if (memcmp(all[a], address, 16) == 0) return true;
    return false;
}

void gp_guard_describe_network(gp_guard_network *out) {
    struct ifaddrs *all = NULL;
    struct stat space;
    memset(out, 0, sizeof *out);
    if (stat("/proc/self/ns/net", &space) == 0) out->space = space.st_ino;
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *at = all; at && out->count < GP_GUARD_ADDRESSES; at = at->ifa_next) {
        unsigned char *to = out->address[out->count];
        if (at->ifa_addr && read_address(at->ifa_addr, to) && !leads_back(to)) out->count++;
    }
    freeifaddrs(all);
}

/* The own address from which messages to another one go. Nothing is sent. */
static bool find_way(const unsigned char to[16], unsigned char from[16]) {
    any_address its;
    socklen_t length = fill_address(&its, to, ANY_PORT);
    int datagrams = socket(its.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = datagrams >= 0 && connect(datagrams, &its.any, length) == 0;
    length = sizeof its;
    found = found && getsockname(datagrams, &its.any, &length) == 0 && read_address(&its.any, from);
    if (datagrams >= 0) close(datagrams);
    return found;
}

/* An address that both ends have, as those of containers, does not lead from one to the other. */
static void list_ways(const gp_guard_network *all, int count, gp_guard_door *out) {
    unsigned char from[16];
    for (int p = 1; p < count; p++) {
        for (int a = 0; a < all[p].count && out->count < GP_GUARD_ADDRESSES; a++) {
            const unsigned char *to = all[p].address[a];
            if (has_address(all[0].address, all[0].count, to) || !find_way(to, from)) continue;
            if (!has_address(out->address, out->count, from)) memcpy(out->address[out->count++], from, 16);
        }
    }
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

static int listen_at(const unsigned char address[16], int port) {
    any_address at;
    int on = 1;
    socklen_t length = fill_address(&at, address, port);
    int its = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (its >= 0 && at.any.sa_family == AF_INET6) setsockopt(its, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (its >= 0 && bind(its, &at.any, length) == 0 && listen(its, SOMAXCONN) == 0) return its;
    int failure = errno;
    if (its >= 0) close(its);
    errno = failure;
    return -1;
}

static int port_of(int socket) {
    any_address at;
    socklen_t length = sizeof at;
    memset(&at, 0, sizeof at);
    if (getsockname(socket, &at.any, &length) != 0) return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
}

/* At all addresses of the door, with one port; those at which no socket can listen are left out. False: the port is not
 * free everywhere, or there is no address. */
static bool listen_at_all(gp_guard_door *door, gp_guard_listener *out) {
    gp_guard_door its = *door;
    bool taken = false;
    its.port = its.count = out->count = 0;
    for (int a = 0; a < door->count && !taken; a++) {
        int socket = listen_at(door->address[a], its.port);
        taken = socket < 0 && errno == EADDRINUSE;
        if (socket < 0) continue;
        if (its.port == 0) its.port = port_of(socket);
        out->socket[out->count++] = socket;
        memcpy(its.address[its.count++], door->address[a], 16);
    }
    if (!taken && its.count > 0) {
        *door = its;
        return true;
    }
    for (int failure = errno; out->count > 0; errno = failure) close(out->socket[--out->count]);
    return false;
}

gp_status gp_guard_listen(const gp_guard_network *all, int count, gp_guard_door *out, gp_guard_listener *listener,
                          gp_error *err) {
    memset(out, 0, sizeof *out);
    if (getrandom(out->secret, sizeof out->secret, 0) != (ssize_t)sizeof out->secret)
        return gp_guard_explain("no secret", err);
    list_ways(all, count, out);
    if (out->count == 0 && count > 0) { /* the system does not tell: every address from which a process could come */
        out->count = all[0].count;
        memcpy(out->address, all[0].address, sizeof out->address);
    }
    bool has_ways = out->count > 0;
    for (int i = 0; i < TRIES && has_ways; i++)
        if (listen_at_all(out, listener)) return GP_OK;
    for (int i = 0; i < 2 && !has_ways; i++) {
        out->count = 1;
        memcpy(out->address[0], loops_back[i], 16);
        if (listen_at_all(out, listener)) return GP_OK;
    }
    return gp_guard_explain("cannot listen", err);
}

int gp_guard_connect(const gp_guard_door *door, int which) {
    any_address to;
    socklen_t length = fill_address(&to, door->address[which], door->port);
    int its = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (its < 0) return -1;
    if (connect(its, &to.any, length) == 0 || errno == EINPROGRESS) return its;
    close(its);
    return -1;
}
