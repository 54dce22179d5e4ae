#include "process/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
    BEATS = 4,               /* signs of life in a second */
    JOIN_SECONDS = 60,       /* until all processes are connected */
    GRACE_SECONDS = 10,      /* for a process that was told to end */
    LOSS_MILLISECONDS = 300, /* by which a lost process is noticed after another one failed because of it */
    HEADER = 8,
    ROOM = HEADER + GP_ERROR_TEXT,
};

/* A message: its kind, a status, the rank that it is about, and the length of the text that follows. */
/* LOST: FAIL, because a process is lost. */
typedef enum message_kind { HELLO, BEAT, FAIL, LOST, STOP, BYE, MESSAGE_KINDS } message_kind;

typedef struct hello {
    unsigned char secret[GP_GUARD_SECRET];
    char host[GP_HOST_TEXT];
    int pid;
} hello;

/* The other end of a connection. */
typedef struct peer {
    int socket; /* −1: none */
    int rank;
    bool left; /* it has said goodbye */
    double heard;
    char host[GP_HOST_TEXT];
    int pid;
    unsigned char input[ROOM];
    size_t filled;
} peer;

struct gp_guard {
    int rank, processes;
    peer *peers; /* of process 0: all others; else process 0 */
    int count;
    int wake[2]; /* a pipe that ends the thread's sleep */
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* the rest */
    gp_cancel *cancel;
    gp_guard_look look; /* NULL: none */
    void *context;
    gp_error cause; /* the first; GP_OK: none */
    int blamed;     /* rank that the cause is about; −1: none */
    bool lost;      /* some process is */
    bool orphaned;  /* the cause is that process 0 is lost */
    bool told;      /* the others know the cause */
    double failed;  /* when the cause came */
    bool quit;
    double timeout;
    atomic_bool asked, asks; /* to stop: process 0 was, this process wants to */
};

/* ---- connections ------------------------------------------------------------------------------------------------- */

static gp_status explain(const char *what, gp_error *err) {
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
    if (getrandom(out->secret, sizeof out->secret, 0) != (ssize_t)sizeof out->secret) return explain("no secret", err);
    int its = open_socket(&six);
    if (its < 0) return explain("no socket", err);
    socklen_t length = fill_address(&any, six, NULL, 0);
    if (bind(its, (struct sockaddr *)&any, length) != 0 || listen(its, SOMAXCONN) != 0) {
        gp_status status = explain("cannot listen", err);
        close(its);
        return status;
    }
    out->port = port_of(its);
    list_addresses(out);
    *socket = its;
    return GP_OK;
}

static void write_header(unsigned char header[HEADER], message_kind kind, gp_status status, int rank, size_t length) {
    header[0] = (unsigned char)kind;
    header[1] = (unsigned char)status;
    header[2] = (unsigned char)(rank & 255);
    header[3] = (unsigned char)(rank >> 8 & 255);
    for (int i = 0; i < 4; i++) header[4 + i] = (unsigned char)(length >> (8 * i) & 255);
}

/* What does not go at once is left out: a process that reads nothing is lost anyway. A part of a message would spoil
 * all that follows, so the connection ends then. */
static void tell(peer *to, message_kind kind, gp_status status, int rank, const void *text, size_t length) {
    unsigned char message[ROOM];
    if (to->socket < 0) return;
    write_header(message, kind, status, rank, length);
    if (length > 0) memcpy(message + HEADER, text, length);
    ssize_t sent = send(to->socket, message, HEADER + length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && sent < (ssize_t)(HEADER + length)) shutdown(to->socket, SHUT_RDWR);
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

static void describe(hello *out, const gp_guard_door *door) {
    memset(out, 0, sizeof *out);
    memcpy(out->secret, door->secret, sizeof out->secret);
    gethostname(out->host, sizeof out->host - 1);
    out->pid = (int)getpid();
}

static void take_name(peer *its, const hello *from) {
    memcpy(its->host, from->host, sizeof its->host);
    its->host[sizeof its->host - 1] = '\0';
    its->pid = from->pid;
    its->heard = gp_now();
}

/* A connection that is not one of the run's is closed. */
static void admit(gp_guard *guard, const gp_guard_door *door, int socket, double until, int *joined) {
    unsigned char header[HEADER];
    hello theirs, mine;
    double limit = gp_now() + 5;
    bool good = read_all(socket, header, sizeof header, limit < until ? limit : until) && header[0] == HELLO &&
                read_all(socket, &theirs, sizeof theirs, limit < until ? limit : until) &&
                memcmp(theirs.secret, door->secret, sizeof theirs.secret) == 0;
    int rank = good ? header[2] | header[3] << 8 : 0;
    if (rank < 1 || rank >= guard->processes || guard->peers[rank - 1].socket >= 0) {
        close(socket);
        return;
    }
    peer *its = &guard->peers[rank - 1];
    its->socket = socket;
    take_name(its, &theirs);
    describe(&mine, door);
    set_options(socket);
    tell(its, HELLO, GP_OK, 0, &mine, sizeof mine);
    ++*joined;
}

static gp_status join_all(gp_guard *guard, const gp_guard_door *door, int socket, gp_error *err) {
    double until = gp_now() + JOIN_SECONDS;
    int joined = 0;
    while (joined < guard->count) {
        if (!wait_ready(socket, POLLIN, until))
            return gp_fail(err, GP_IO,
                           "the connection between the processes: %d of %d processes did not connect to process 0 "
                           "within %d s; a firewall may refuse port %d",
                           guard->count - joined, guard->count, JOIN_SECONDS, door->port);
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
    double until = gp_now() + JOIN_SECONDS;
    hello mine, theirs;
    unsigned char header[HEADER];
    describe(&mine, door);
    int seconds = 2; /* for an address, more each round */
    for (; gp_now() < until; seconds *= 2) {
        for (int a = 0; a < door->count; a++) {
            peer *its = &guard->peers[0];
            its->socket = connect_to(door, a, gp_now() + seconds);
            if (its->socket < 0) continue;
            set_options(its->socket);
            tell(its, HELLO, GP_OK, guard->rank, &mine, sizeof mine);
            if (read_all(its->socket, header, sizeof header, gp_now() + 5) && header[0] == HELLO &&
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

/* ---- causes ------------------------------------------------------------------------------------------------------ */

/* The first cause stays. A lost process comes before what others fail with because of it. `lock` is held. */
static void note_cause(gp_guard *guard, gp_status status, const char *text, int blamed, bool lost) {
    bool better = lost && !guard->lost && !guard->told && guard->cause.status == GP_IO;
    guard->lost = guard->lost || lost;
    if (guard->cause.status != GP_OK && !better) return;
    guard->orphaned = lost && blamed == 0;
    guard->cause.status = status;
    snprintf(guard->cause.text, sizeof guard->cause.text, "%s", text);
    guard->blamed = blamed;
    if (guard->failed <= 0) guard->failed = gp_now();
    if (guard->cancel) (void)gp_cancel_raise(guard->cancel, &guard->cause);
}

static void wake(gp_guard *guard) {
    (void)!write(guard->wake[1], "", 1);
}

static void lose(gp_guard *guard, peer *its, const char *how) {
    char text[GP_ERROR_TEXT];
    if (its->left) return;
    its->left = true; /* its connection stays open: it may come back, and is told the cause then */
    snprintf(text, sizeof text, "process %d (host %s, pid %d) %s", its->rank, its->host, its->pid, how);
    pthread_mutex_lock(&guard->lock);
    note_cause(guard, GP_LOST, text, its->rank, true);
    pthread_mutex_unlock(&guard->lock);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void take_message(gp_guard *guard, peer *from, const unsigned char *message, size_t length) {
    char text[GP_ERROR_TEXT];
    int status = message[1], rank = message[2] | message[3] << 8;
    switch ((message_kind)message[0]) {
    case STOP: atomic_store(&guard->asked, true); break;
    case BYE: from->left = true; break;
    case FAIL:
    case LOST:
        if (length >= sizeof text || status == GP_OK || status > GP_INTERRUPTED) break;
        memcpy(text, message + HEADER, length);
        text[length] = '\0';
        pthread_mutex_lock(&guard->lock);
        note_cause(guard, (gp_status)status, text, guard->rank == 0 && message[0] == FAIL ? from->rank : rank,
                   message[0] == LOST);
        if (guard->rank > 0) guard->told = true;
        pthread_mutex_unlock(&guard->lock);
        break;
    case HELLO:
    case BEAT:
    case MESSAGE_KINDS: break;
    }
}

static bool take_messages(gp_guard *guard, peer *from) {
    for (;;) {
        const unsigned char *at = from->input;
        if (from->filled < HEADER) return true;
        size_t length = (size_t)at[4] | (size_t)at[5] << 8 | (size_t)at[6] << 16 | (size_t)at[7] << 24;
        if (at[0] >= MESSAGE_KINDS || length > ROOM - HEADER) return false;
        if (from->filled < HEADER + length) return true;
        take_message(guard, from, at, length);
        from->filled -= HEADER + length;
        memmove(from->input, from->input + HEADER + length, from->filled);
    }
}

static void hear(gp_guard *guard, peer *from) {
    ssize_t got = recv(from->socket, from->input + from->filled, ROOM - from->filled, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        lose(guard, from, "has ended without a word");
        close(from->socket);
        from->socket = -1;
        return;
    }
    from->heard = gp_now();
    from->filled += (size_t)got;
    if (take_messages(guard, from)) return;
    shutdown(from->socket, SHUT_RDWR);
    from->filled = 0;
    lose(guard, from, "has sent what is no message of this program");
}

static void look_for_silence(gp_guard *guard, double now, double asleep) {
    char how[64];
    pthread_mutex_lock(&guard->lock);
    double timeout = guard->timeout;
    pthread_mutex_unlock(&guard->lock);
    snprintf(how, sizeof how, "has given no sign of life for %.0f s", timeout);
    for (int p = 0; p < guard->count; p++) {
        peer *its = &guard->peers[p];
        its->heard += asleep; /* nothing could be heard while this process itself was stopped */
        if (its->socket >= 0 && !its->left && now - its->heard > timeout) lose(guard, its, how);
    }
}

static void look_here(gp_guard *guard, double awake) {
    gp_error cause = {0};
    pthread_mutex_lock(&guard->lock);
    if (guard->look && guard->look(guard->context, awake, &cause) != GP_OK)
        note_cause(guard, cause.status, cause.text, guard->rank, false);
    pthread_mutex_unlock(&guard->lock);
}

/* Process 0 waits a moment with a failure of messages: a lost process may be its cause. */
static void spread_cause(gp_guard *guard, double now) {
    pthread_mutex_lock(&guard->lock);
    gp_error cause = guard->cause;
    int blamed = guard->blamed;
    message_kind kind = guard->lost ? LOST : FAIL;
    bool late = cause.status != GP_IO || guard->lost || now - guard->failed > 1e-3 * LOSS_MILLISECONDS;
    bool tells = cause.status != GP_OK && !guard->told && (late || guard->rank > 0);
    guard->told = guard->told || tells;
    pthread_mutex_unlock(&guard->lock);
    if (!tells) return;
    for (int p = 0; p < guard->count; p++)
        tell(&guard->peers[p], kind, cause.status, blamed, cause.text, strlen(cause.text));
}

/* A process that cannot end by itself: a library may wait for what never comes, or a worker may hang. The others wait
 * longer for the one that speaks: a launcher ends all processes when the first one fails. */
static void end_if_stuck(gp_guard *guard, double now) {
    bool speaks = gp_guard_speaks(guard);
    pthread_mutex_lock(&guard->lock);
    gp_error cause = guard->cause;
    bool stuck = cause.status != GP_OK && now - guard->failed > (speaks ? 1 : 2) * GRACE_SECONDS;
    pthread_mutex_unlock(&guard->lock);
    if (!stuck) return;
    if (speaks && cause.text[0]) fprintf(stderr, "gpipe-train: %s\n", cause.text);
    fflush(stderr);
    for (int p = 0; p < guard->count; p++) tell(&guard->peers[p], BYE, GP_OK, guard->rank, NULL, 0);
    _exit(gp_status_exit(cause.status));
}

static void sleep_until_something(gp_guard *guard, struct pollfd *at) {
    nfds_t count = 0;
    char ignored[64];
    at[count++] = (struct pollfd){guard->wake[0], POLLIN, 0};
    for (int p = 0; p < guard->count; p++) at[count++] = (struct pollfd){guard->peers[p].socket, POLLIN, 0};
    if (poll(at, count, 100) <= 0) return;
    if (at[0].revents) (void)!read(guard->wake[0], ignored, sizeof ignored);
    for (int p = 0; p < guard->count; p++)
        if (guard->peers[p].socket >= 0 && at[p + 1].revents) hear(guard, &guard->peers[p]);
}

/* After a failure the others wait for process 0, which says it: a launcher ends all processes when the first one fails.
 */
static bool is_over(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool failed = guard->cause.status != GP_OK;
    bool over = guard->quit && (!failed || guard->told);
    pthread_mutex_unlock(&guard->lock);
    return over && (!failed || guard->rank == 0 || guard->peers[0].left || guard->peers[0].socket < 0);
}

static void *work(void *argument) {
    gp_guard *guard = argument;
    struct pollfd *at = calloc((size_t)guard->count + 1, sizeof *at);
    double beaten = 0, before = gp_now();
    while (at && !is_over(guard)) {
        sleep_until_something(guard, at);
        double now = gp_now(), asleep = now - before > 1 ? now - before : 0;
        look_here(guard, now - before - asleep);
        before = now;
        if (atomic_exchange(&guard->asks, false) && guard->rank > 0)
            tell(&guard->peers[0], STOP, GP_OK, guard->rank, NULL, 0);
        if (BEATS * (now - beaten) >= 1) {
            for (int p = 0; p < guard->count; p++) tell(&guard->peers[p], BEAT, GP_OK, guard->rank, NULL, 0);
            beaten = now;
        }
        look_for_silence(guard, now, asleep);
        spread_cause(guard, now);
        end_if_stuck(guard, now);
    }
    for (int p = 0; p < guard->count; p++) tell(&guard->peers[p], BYE, GP_OK, guard->rank, NULL, 0);
    free(at);
    return NULL;
}

/* ---- start, stop ------------------------------------------------------------------------------------------------- */

static gp_status start(gp_guard *guard, const gp_guard_door *door, int socket, gp_error *err) {
    if (pipe2(guard->wake, O_CLOEXEC | O_NONBLOCK) != 0) return explain("no pipe", err);
    GP_RETURN_IF_FAILED(GP_NEW(&guard->peers, guard->count, err));
    for (int p = 0; p < guard->count; p++) {
        guard->peers[p].socket = -1;
        guard->peers[p].rank = guard->rank == 0 ? p + 1 : 0;
    }
    GP_RETURN_IF_FAILED(guard->rank == 0 ? join_all(guard, door, socket, err) : join_first(guard, door, err));
    int failed = gp_thread_start(&guard->thread, 0, work, guard);
    if (failed) return gp_fail(err, GP_MEMORY, "the guard's thread could not be started: %s", strerror(failed));
    guard->started = true;
    return GP_OK;
}

gp_status gp_guard_start(const gp_guard_door *door, int socket, int rank, int processes, gp_guard **out,
                         gp_error *err) {
    gp_guard *guard = NULL;
    gp_status status = GP_NEW(&guard, 1, err);
    if (status == GP_OK) {
        guard->rank = rank;
        guard->processes = processes;
        guard->count = rank == 0 ? processes - 1 : 1;
        guard->blamed = -1;
        guard->timeout = JOIN_SECONDS;
        guard->wake[0] = guard->wake[1] = -1;
        pthread_mutex_init(&guard->lock, NULL);
        status = start(guard, door, socket, err);
    }
    if (socket >= 0) close(socket);
    if (status != GP_OK)
        gp_guard_stop(&guard);
    else
        *out = guard;
    return status;
}

void gp_guard_stop(gp_guard **guard) {
    gp_guard *its = *guard;
    if (!its) return;
    pthread_mutex_lock(&its->lock);
    its->quit = true;
    pthread_mutex_unlock(&its->lock);
    if (its->started) {
        wake(its);
        pthread_join(its->thread, NULL);
    }
    for (int p = 0; its->peers && p < its->count; p++)
        if (its->peers[p].socket >= 0) close(its->peers[p].socket);
    for (int i = 0; i < 2; i++)
        if (its->wake[i] >= 0) close(its->wake[i]);
    pthread_mutex_destroy(&its->lock);
    free(its->peers);
    free(its);
    *guard = NULL;
}

/* ---- for the process --------------------------------------------------------------------------------------------- */

void gp_guard_set_timeout(gp_guard *guard, double seconds) {
    pthread_mutex_lock(&guard->lock);
    guard->timeout = seconds;
    pthread_mutex_unlock(&guard->lock);
}

void gp_guard_watch(gp_guard *guard, gp_cancel *cancel) {
    pthread_mutex_lock(&guard->lock);
    guard->cancel = cancel;
    if (cancel && guard->cause.status != GP_OK) (void)gp_cancel_raise(cancel, &guard->cause);
    pthread_mutex_unlock(&guard->lock);
}

void gp_guard_set_look(gp_guard *guard, gp_guard_look look, void *context) {
    pthread_mutex_lock(&guard->lock);
    guard->look = look;
    guard->context = context;
    pthread_mutex_unlock(&guard->lock);
}

void gp_guard_fail(gp_guard *guard, gp_error *cause) {
    pthread_mutex_lock(&guard->lock);
    note_cause(guard, cause->status, cause->text, guard->rank, false);
    pthread_mutex_unlock(&guard->lock);
    wake(guard);
    if (cause->status == GP_IO) usleep(1000 * LOSS_MILLISECONDS);
    pthread_mutex_lock(&guard->lock);
    *cause = guard->cause;
    pthread_mutex_unlock(&guard->lock);
}

gp_status gp_guard_cause(gp_guard *guard, gp_error *cause) {
    pthread_mutex_lock(&guard->lock);
    gp_status status = guard->cause.status;
    if (cause && status != GP_OK) *cause = guard->cause;
    pthread_mutex_unlock(&guard->lock);
    return status;
}

bool gp_guard_has_lost(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool lost = guard->lost;
    pthread_mutex_unlock(&guard->lock);
    return lost;
}

bool gp_guard_speaks(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool orphaned = guard->orphaned;
    pthread_mutex_unlock(&guard->lock);
    return orphaned ? guard->rank == 1 : guard->rank == 0; /* process 0 may come back when it was stopped */
}

void gp_guard_ask_stop(gp_guard *guard) {
    atomic_store(&guard->asks, true);
}

bool gp_guard_is_asked(gp_guard *guard) {
    return atomic_load(&guard->asked);
}
