#include "process/fake_peer.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(bool good, const char *what) {
    if (good) return;
    perror(what);
    abort();
}

int fake_knock(const gp_guard_door *door) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)door->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int its = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(its >= 0 && connect(its, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    return its;
}

void fake_send(int socket, const void *bytes, size_t count) {
    must(send(socket, bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "send");
}

void fake_tell(int socket, gp_guard_kind kind, gp_status status, int rank, const void *text, size_t length) {
    unsigned char message[GP_GUARD_ROOM];
    fake_send(socket, message, gp_guard_write(message, kind, status, rank, text, length));
}

void fake_hello(int socket, const gp_guard_door *door, int rank, int attempt, const char *host, size_t host_bytes) {
    gp_guard_hello its;
    memset(&its, 0, sizeof its);
    memcpy(its.secret, door->secret, sizeof its.secret);
    memcpy(its.host, host, host_bytes);
    its.pid = 7;
    its.attempt = attempt;
    fake_tell(socket, GP_GUARD_HELLO, GP_OK, rank, &its, sizeof its);
}

bool fake_is_refused(int socket) {
    unsigned char header[GP_GUARD_HEADER];
    ssize_t got = recv(socket, header, sizeof header, MSG_WAITALL);
    must(got <= 0 || (got == (ssize_t)sizeof header && header[0] == GP_GUARD_HELLO), "an answer");
    if (got <= 0) return true;
    unsigned char rest[sizeof(gp_guard_hello)];
    must(recv(socket, rest, sizeof rest, MSG_WAITALL) == (ssize_t)sizeof rest, "an answer");
    return false;
}

void fake_ready(int socket, int rank) {
    fake_tell(socket, GP_GUARD_READY, GP_OK, rank, NULL, 0);
}

int fake_join(const gp_guard_door *door, int rank) {
    int its = fake_knock(door);
    fake_hello(its, door, rank, 1, "fake", 4);
    must(!fake_is_refused(its), "joining");
    fake_ready(its, rank);
    return its;
}

void fake_await(int socket, gp_guard_kind kind, gp_error *cause) {
    gp_guard_input input = {.filled = 0};
    for (gp_guard_message message;;) {
        gp_guard_found found = gp_guard_next(&input, &message);
        must(found != GP_GUARD_GARBAGE, "a message");
        if (found == GP_GUARD_NOTHING) {
            must(recv(socket, input.bytes + input.filled++, 1, MSG_WAITALL) == 1, "a message");
        } else if (message.kind == kind) {
            if (cause) gp_guard_read_cause(&message, cause);
            return;
        } else {
            gp_guard_drop(&input, &message);
        }
    }
}

int fake_hear(const gp_guard_listener *listener, const gp_guard_door *door, int *rank, gp_guard_hello *hello) {
    struct pollfd at = {listener->socket[0], POLLIN, 0};
    must(poll(&at, 1, -1) == 1, "a knock");
    int its = accept4(listener->socket[0], NULL, NULL, SOCK_CLOEXEC);
    unsigned char header[GP_GUARD_HEADER];
    must(its >= 0, "accept");
    must(recv(its, header, sizeof header, MSG_WAITALL) == (ssize_t)sizeof header && header[0] == GP_GUARD_HELLO &&
             recv(its, hello, sizeof *hello, MSG_WAITALL) == (ssize_t)sizeof *hello &&
             memcmp(hello->secret, door->secret, sizeof door->secret) == 0,
         "a hello");
    *rank = header[2] | header[3] << 8;
    return its;
}

int fake_admit(const gp_guard_listener *listener, const gp_guard_door *door, int *rank) {
    unsigned char header[GP_GUARD_HEADER];
    gp_guard_hello hello;
    int its = fake_hear(listener, door, rank, &hello);
    fake_hello(its, door, 0, 1, "fake", 4);
    must(recv(its, header, sizeof header, MSG_WAITALL) == (ssize_t)sizeof header && header[0] == GP_GUARD_READY,
         "the answer to the answer");
    return its;
}
