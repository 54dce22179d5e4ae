#include "process/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/ticker.h"
#include "process/guard_internal.h"

enum {
    BEATS = 4,               /* signs of life in a second */
    LOOKS = 10,              /* at the own workers, in a second */
    SILENCE_SECONDS = 60,    /* without a sign of life, at first */
    GRACE_SECONDS = 10,      /* for a process that was told to end, at first */
    LOSS_MILLISECONDS = 300, /* by which a lost process is noticed after another one failed because of it */
};

/* ---- causes ------------------------------------------------------------------------------------------------------ */

/* The first cause stays. After all was saved there is none. A lost process comes before what others fail with because
 * of it. `lock` is held. */
static void note_cause(gp_guard *guard, gp_status status, const char *text, int blamed, bool lost) {
    if (guard->saved && (guard->cause.status == GP_OK || guard->cause.status == GP_INTERRUPTED)) {
        guard->orphaned = guard->orphaned || (lost && blamed == 0);
        if (guard->late.text[0]) return;
        snprintf(guard->late.text, sizeof guard->late.text, "%s", text);
        guard->blamed = blamed;
        return;
    }
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

static void lose(gp_guard *guard, gp_guard_peer *its, const char *how) {
    char text[GP_ERROR_TEXT];
    if (its->left) return;
    its->left = true; /* its connection stays open: it may come back, and is told the cause then */
    snprintf(text, sizeof text, "process %d (host %s, pid %d) %s", its->rank, its->host, its->pid, how);
    pthread_mutex_lock(&guard->lock);
    note_cause(guard, GP_LOST, text, its->rank, true);
    pthread_mutex_unlock(&guard->lock);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void take_message(gp_guard *guard, gp_guard_peer *from, const gp_guard_message *message) {
    gp_error cause = {0};
    bool lost = message->kind == GP_GUARD_LOST;
    switch (message->kind) {
    case GP_GUARD_STOP: atomic_store(&guard->asked, true); break;
    case GP_GUARD_BYE: from->left = true; break;
    case GP_GUARD_FAIL:
    case GP_GUARD_LOST:
        gp_guard_read_cause(message, &cause);
        pthread_mutex_lock(&guard->lock);
        note_cause(guard, cause.status, cause.text, guard->rank == 0 && !lost ? from->rank : message->rank, lost);
        if (guard->rank > 0) guard->told = true;
        pthread_mutex_unlock(&guard->lock);
        break;
    case GP_GUARD_ASK:
    case GP_GUARD_ANSWER:
        if (gp_guard_take_delivery(guard, from, message, &cause) == GP_OK) break;
        pthread_mutex_lock(&guard->lock);
        note_cause(guard, cause.status, cause.text, guard->rank, false);
        pthread_mutex_unlock(&guard->lock);
        break;
    case GP_GUARD_TIMEOUT:
        if (guard->rank > 0) gp_guard_set_timeout(guard, gp_guard_read_timeout(message));
        break;
    case GP_GUARD_SAVED:
        if (guard->rank > 0) gp_guard_finish(guard, (gp_status)message->status);
        break;
    case GP_GUARD_HELLO:
    case GP_GUARD_READY:
    case GP_GUARD_BEAT:
    case GP_GUARD_KINDS: break;
    }
}

static bool take_messages(gp_guard *guard, gp_guard_peer *from) {
    for (;;) {
        gp_guard_message message;
        gp_guard_found found = gp_guard_next(&from->input, &message);
        if (found != GP_GUARD_MESSAGE) return found == GP_GUARD_NOTHING;
        if (message.kind == GP_GUARD_HELLO || message.kind == GP_GUARD_READY) return false; /* it has said so */
        take_message(guard, from, &message);
        gp_guard_drop(&from->input, &message);
    }
}

static void take_heard(gp_guard *guard, gp_guard_peer *from) {
    if (take_messages(guard, from)) return;
    shutdown(from->socket, SHUT_RDWR);
    from->input.filled = 0;
    lose(guard, from, "has sent bytes that are no message of this program");
}

static void hear(gp_guard *guard, gp_guard_peer *from) {
    gp_guard_input *input = &from->input;
    ssize_t got = recv(from->socket, input->bytes + input->filled, sizeof input->bytes - input->filled, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        lose(guard, from, input->filled > 0 ? "has ended in the middle of a message" : "has ended without a word");
        close(from->socket);
        from->socket = -1;
        return;
    }
    from->heard = gp_now();
    input->filled += (size_t)got;
    take_heard(guard, from);
}

static void look_for_silence(gp_guard *guard, double now, double asleep) {
    char how[64], number[GP_NUMBER_TEXT];
    pthread_mutex_lock(&guard->lock);
    double timeout = guard->timeout;
    pthread_mutex_unlock(&guard->lock);
    snprintf(how, sizeof how, "has given no sign of life for %s s", gp_number_text(number, timeout));
    for (int p = 0; p < guard->count; p++) {
        gp_guard_peer *its = &guard->peers[p];
        its->heard += asleep; /* nothing could be heard while this process itself was stopped */
        if (its->socket >= 0 && !its->left && now - its->heard > timeout) lose(guard, its, how);
    }
}

/* *awake: since the last look. */
static void look_here(gp_guard *guard, double *awake) {
    gp_error cause = {0};
    if (LOOKS * *awake < 1) return;
    pthread_mutex_lock(&guard->lock);
    if (guard->look && guard->look(guard->context, *awake, &cause) != GP_OK)
        note_cause(guard, cause.status, cause.text, guard->rank, false);
    pthread_mutex_unlock(&guard->lock);
    *awake = 0;
}

/* Process 0 waits a moment with a failure of messages: a lost process may be its cause. */
static void spread_cause(gp_guard *guard, double now) {
    pthread_mutex_lock(&guard->lock);
    gp_error cause = guard->cause;
    int blamed = guard->blamed;
    gp_guard_kind kind = guard->lost ? GP_GUARD_LOST : GP_GUARD_FAIL;
    bool late = cause.status != GP_IO || guard->lost || now - guard->failed > 1e-3 * LOSS_MILLISECONDS;
    bool tells = cause.status != GP_OK && !guard->told && (late || guard->rank > 0);
    guard->told = guard->told || tells;
    pthread_mutex_unlock(&guard->lock);
    if (!tells) return;
    for (int p = 0; p < guard->count; p++)
        gp_guard_tell(&guard->peers[p], kind, cause.status, blamed, cause.text, strlen(cause.text));
}

static void spread_timeout(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool tells = guard->tells_timeout;
    double timeout = guard->timeout;
    guard->tells_timeout = false;
    pthread_mutex_unlock(&guard->lock);
    for (int p = 0; p < guard->count && tells; p++)
        gp_guard_tell(&guard->peers[p], GP_GUARD_TIMEOUT, GP_OK, 0, &timeout, sizeof timeout);
}

static void spread_end(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool tells = guard->tells_end;
    gp_status after = guard->after;
    guard->tells_end = false;
    pthread_mutex_unlock(&guard->lock);
    for (int p = 0; p < guard->count && tells; p++) gp_guard_tell(&guard->peers[p], GP_GUARD_SAVED, after, 0, NULL, 0);
}

/* An interrupted run that was saved has not failed. `lock` is held. */
static bool has_failed(const gp_guard *guard) {
    return guard->cause.status != GP_OK && !(guard->saved && guard->cause.status == GP_INTERRUPTED);
}

/* A process that cannot end by itself: a library may wait for what never comes, or a worker may hang. The others wait
 * longer for the one that speaks: a launcher ends all processes when the first one fails. */
static void end_if_stuck(gp_guard *guard, double now) {
    bool speaks = gp_guard_speaks(guard);
    pthread_mutex_lock(&guard->lock);
    gp_error cause = guard->cause;
    bool stuck = has_failed(guard) && now - guard->failed > (speaks ? 1 : 2) * guard->grace;
    pthread_mutex_unlock(&guard->lock);
    if (!stuck) return;
    if (speaks && cause.text[0]) {
        gp_ticker_clear_line(true);
        fprintf(stderr, "gpipe-train: %s\n", cause.text);
    }
    fflush(stderr);
    for (int p = 0; p < guard->count; p++) gp_guard_tell(&guard->peers[p], GP_GUARD_BYE, GP_OK, guard->rank, NULL, 0);
    _exit(gp_status_exit(cause.status));
}

/* All is saved, and a process is lost. MPI would wait for it. */
static void end_late(gp_guard *guard) {
    bool speaks = gp_guard_speaks(guard);
    pthread_mutex_lock(&guard->lock);
    gp_error late = guard->late;
    gp_status after = guard->after;
    int blamed = guard->blamed;
    pthread_mutex_unlock(&guard->lock);
    if (!late.text[0]) return;
    if (speaks) gp_ticker_clear_line(true);
    if (speaks)
        fprintf(stderr, "gpipe-train: warning: %s, when all was saved; the run is complete, and does not wait for it\n",
                late.text);
    bool written = fflush(stdout) == 0;
    fflush(stderr);
    for (int p = 0; p < guard->count; p++) {
        gp_guard_tell(&guard->peers[p], GP_GUARD_LOST, GP_LOST, blamed, late.text, strlen(late.text));
        gp_guard_tell(&guard->peers[p], GP_GUARD_BYE, GP_OK, guard->rank, NULL, 0);
    }
    _exit(gp_status_exit(written || after != GP_OK ? after : GP_IO));
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

static bool all_have_left(const gp_guard *guard) {
    for (int p = 0; p < guard->count; p++)
        if (!guard->peers[p].left && guard->peers[p].socket >= 0) return false;
    return true;
}

/* After a failure the others wait for process 0, which says it: a launcher ends all processes when the first one fails.
 * After a run that was saved process 0 waits for the others, so that one that does not end is named. */
static bool is_over(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool failed = has_failed(guard);
    bool over = guard->quit && (!failed || guard->told) && !guard->tells_end;
    bool waits = guard->rank == 0 && guard->saved && !failed;
    pthread_mutex_unlock(&guard->lock);
    if (over && waits) return all_have_left(guard);
    return over && (!failed || guard->rank == 0 || guard->peers[0].left || guard->peers[0].socket < 0);
}

static void *work(void *argument) {
    gp_guard *guard = argument;
    struct pollfd *at = calloc((size_t)guard->count + 1, sizeof *at);
    double beaten = 0, before = gp_now(), awake = 0;
    for (int p = 0; p < guard->count; p++)
        take_heard(guard, &guard->peers[p]); /* what came with the words of joining */
    while (at && !is_over(guard)) {
        sleep_until_something(guard, at);
        double now = gp_now(), asleep = now - before > 1 ? now - before : 0;
        awake += now - before - asleep;
        before = now;
        look_here(guard, &awake);
        if (atomic_exchange(&guard->asks, false) && guard->rank > 0)
            gp_guard_tell(&guard->peers[0], GP_GUARD_STOP, GP_OK, guard->rank, NULL, 0);
        if (BEATS * (now - beaten) >= 1) {
            for (int p = 0; p < guard->count; p++)
                gp_guard_tell(&guard->peers[p], GP_GUARD_BEAT, GP_OK, guard->rank, NULL, 0);
            gp_guard_ask_deliveries(guard, now);
            beaten = now;
        }
        look_for_silence(guard, now, asleep);
        spread_timeout(guard);
        spread_cause(guard, now);
        end_if_stuck(guard, now);
        spread_end(guard);
        end_late(guard);
    }
    for (int p = 0; p < guard->count; p++) gp_guard_tell(&guard->peers[p], GP_GUARD_BYE, GP_OK, guard->rank, NULL, 0);
    free(at);
    return NULL;
}

/* ---- start, stop ------------------------------------------------------------------------------------------------- */

static gp_status start(gp_guard *guard, const gp_guard_door *door, const gp_guard_listener *listener, double seconds,
                       gp_error *err) {
    if (pipe2(guard->wake, O_CLOEXEC | O_NONBLOCK) != 0) return gp_guard_explain("no pipe", err);
    GP_RETURN_IF_FAILED(GP_NEW(&guard->peers, guard->count, err));
    for (int p = 0; p < guard->count; p++) {
        guard->peers[p].socket = -1;
        guard->peers[p].rank = guard->rank == 0 ? p + 1 : 0;
    }
    GP_RETURN_IF_FAILED(gp_guard_join(guard, door, listener, seconds, err));
    int failed = gp_thread_start(&guard->thread, 0, work, guard);
    if (failed) return gp_fail(err, GP_MEMORY, "the guard's thread could not be started: %s", strerror(failed));
    guard->started = true;
    return GP_OK;
}

gp_status gp_guard_start(const gp_guard_door *door, gp_guard_listener *listener, int rank, int processes,
                         double seconds, gp_guard **out, gp_error *err) {
    gp_guard *guard = NULL;
    gp_status status = GP_NEW(&guard, 1, err);
    if (status == GP_OK) {
        guard->rank = rank;
        guard->processes = processes;
        gp_guard_name_host(guard->host);
        guard->count = rank == 0 ? processes - 1 : 1;
        guard->blamed = -1;
        guard->timeout = SILENCE_SECONDS;
        guard->grace = GRACE_SECONDS;
        guard->wake[0] = guard->wake[1] = -1;
        pthread_mutex_init(&guard->lock, NULL);
        status = start(guard, door, listener, seconds, err);
    }
    for (; listener && listener->count > 0; listener->count--) close(listener->socket[listener->count - 1]);
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
    guard->tells_timeout = guard->rank == 0;
    pthread_mutex_unlock(&guard->lock);
}

void gp_guard_set_grace(gp_guard *guard, double seconds) {
    pthread_mutex_lock(&guard->lock);
    guard->grace = seconds;
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
    bool over = guard->saved && cause->status == guard->after;
    if (!over) note_cause(guard, cause->status, cause->text, guard->rank, false);
    pthread_mutex_unlock(&guard->lock);
    if (over) return; /* the others know */
    wake(guard);
    if (cause->status == GP_IO) usleep(1000 * LOSS_MILLISECONDS);
    pthread_mutex_lock(&guard->lock);
    *cause = guard->cause;
    pthread_mutex_unlock(&guard->lock);
}

void gp_guard_finish(gp_guard *guard, gp_status status) {
    pthread_mutex_lock(&guard->lock);
    if (!guard->saved && (guard->cause.status == GP_OK || guard->cause.status == GP_INTERRUPTED)) {
        guard->saved = true;
        guard->after = status;
        guard->tells_end = guard->rank == 0;
    }
    pthread_mutex_unlock(&guard->lock);
}

gp_status gp_guard_cause(gp_guard *guard, gp_error *cause) {
    pthread_mutex_lock(&guard->lock);
    gp_status status = guard->cause.status;
    if (cause && status != GP_OK) *cause = guard->cause;
    if (status == GP_OK && guard->saved && guard->after != GP_OK) {
        status = guard->after;
        if (cause) *cause = (gp_error){.status = status};
    }
    pthread_mutex_unlock(&guard->lock);
    return status;
}

bool gp_guard_has_lost(gp_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool lost = guard->lost;
    pthread_mutex_unlock(&guard->lock);
    return lost;
}

const char *gp_guard_host(const gp_guard *guard, int rank) {
    return rank == guard->rank ? guard->host : guard->peers[rank - 1].host;
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
