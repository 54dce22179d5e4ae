/* What the guard asks other processes about messages of MPI, and what it answers them (process/deliveries.h). */
#include <string.h>

#include "base/clock.h"
#include "process/guard_internal.h"

/* To a process, by way of process 0. */
static void send_about(gp_guard *guard, int to, gp_guard_kind kind, const void *text, size_t length) {
    gp_guard_peer *by = &guard->peers[guard->rank == 0 ? to - 1 : 0];
    gp_guard_tell(by, kind, GP_OK, guard->rank == 0 ? 0 : to, text, length);
}

void gp_guard_ask_deliveries(gp_guard *guard, double now) {
    gp_delivery_question question;
    int to;
    pthread_mutex_lock(&guard->lock);
    gp_deliveries *its = guard->cause.status == GP_OK ? guard->deliveries : NULL;
    double timeout = guard->timeout;
    pthread_mutex_unlock(&guard->lock);
    while (its && gp_deliveries_ask(its, now, timeout, &to, &question))
        send_about(guard, to, GP_GUARD_ASK, &question, sizeof question);
}

static gp_status hear_about_messages(gp_guard *guard, int from, const gp_guard_message *message, gp_error *err) {
    gp_delivery_question question;
    gp_delivery_answer answer;
    pthread_mutex_lock(&guard->lock);
    gp_deliveries *its = guard->deliveries;
    double timeout = guard->timeout;
    pthread_mutex_unlock(&guard->lock);
    if (!its) return GP_OK;
    if (message->kind == GP_GUARD_ASK) {
        memcpy(&question, message->text, sizeof question);
        if (gp_deliveries_answer(its, from, &question, &answer))
            send_about(guard, from, GP_GUARD_ANSWER, &answer, sizeof answer);
        return GP_OK;
    }
    memcpy(&answer, message->text, sizeof answer);
    return gp_deliveries_hear(its, from, &answer, gp_now(), timeout, err);
}

gp_status gp_guard_take_delivery(gp_guard *guard, const gp_guard_peer *from, const gp_guard_message *message,
                                 gp_error *err) {
    if (guard->rank > 0 || message->rank == 0)
        return hear_about_messages(guard, guard->rank == 0 ? from->rank : message->rank, message, err);
    if (message->rank < guard->processes)
        gp_guard_tell(&guard->peers[message->rank - 1], message->kind, GP_OK, from->rank, message->text,
                      message->length);
    return GP_OK;
}

void gp_guard_set_deliveries(gp_guard *guard, gp_deliveries *deliveries) {
    pthread_mutex_lock(&guard->lock);
    guard->deliveries = deliveries;
    pthread_mutex_unlock(&guard->lock);
}
