/* What the files of the guard share: its peers, and what it knows. Of process/guard.c, guard_join.c and
 * guard_deliveries.c.
 *
 * A peer is the guard's thread's own once that has started; the main thread's before. */
#ifndef GP_PROCESS_GUARD_INTERNAL_H
#define GP_PROCESS_GUARD_INTERNAL_H

#include <stdatomic.h>

#include "process/guard.h"
#include "process/guard_messages.h"

/* The other end of a connection. */
typedef struct gp_guard_peer {
    int socket; /* −1: none */
    int rank;
    bool joined; /* the connection counts: the process has got the answer to its HELLO */
    int attempt; /* of the process to connect: the newest */
    bool left;   /* it has said goodbye */
    double heard;
    char host[GP_HOST_TEXT];
    int pid;
    gp_guard_input input;
} gp_guard_peer;

struct gp_guard {
    int rank, processes;
    char host[GP_HOST_TEXT];
    gp_guard_peer *peers; /* of process 0: all others; else process 0 */
    int count;
    int wake[2]; /* a pipe that ends the thread's sleep */
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* the rest */
    gp_cancel *cancel;
    gp_guard_look look; /* NULL: none */
    void *context;
    gp_deliveries *deliveries; /* NULL: none */
    gp_error cause;            /* the first; GP_OK: none */
    int blamed;                /* rank that the cause, or `late`, is about; −1: none */
    bool lost;                 /* some process is */
    bool orphaned;             /* the cause is that process 0 is lost */
    bool told;                 /* the others know the cause */
    double failed;             /* when the cause came */
    bool saved;                /* gp_guard_finish was called, or process 0 has said so */
    gp_status after;           /* with which the run is over then */
    bool tells_end;            /* process 0: the others do not know it yet */
    gp_error late;             /* what would have been the cause before that; no text: nothing */
    bool quit;
    bool tells_timeout; /* process 0: the others do not know it yet */
    double timeout, grace;
    atomic_bool asked, asks; /* to stop: process 0 was, this process wants to */
};

/* "the connection between the processes: <what>: <errno's text>". GP_IO. */
gp_status gp_guard_explain(const char *what, gp_error *err);
/* What does not go at once is left out: a process that reads nothing is lost anyway. A part of a message would spoil
 * all that follows, so the connection ends then. */
void gp_guard_tell(gp_guard_peer *to, gp_guard_kind kind, gp_status status, int rank, const void *text, size_t length);
/* For tests: seconds that this process has to end by itself after it was told the cause; 10 at first. */
void gp_guard_set_grace(gp_guard *guard, double seconds);
/* This process's host, printable. */
void gp_guard_name_host(char out[GP_HOST_TEXT]);
/* Process 0: waits at the listener until all others are connected. The others: connect to process 0. GP_IO. Main
 * thread. */
GP_MUST_USE gp_status gp_guard_join(gp_guard *guard, const gp_guard_door *door, const gp_guard_listener *listener,
                                    double seconds, gp_error *err);
/* A socket that begins to connect to an address of the door; −1: there is no such way. */
int gp_guard_connect(const gp_guard_door *door, int which);

/* Asks the other processes about messages that do not come to an end. `now`: in seconds. The guard's thread. */
void gp_guard_ask_deliveries(gp_guard *guard, double now);
/* A question or an answer about messages that has come: answers, or hears. Process 0 passes on what goes from one of
 * the others to another one. GP_LOST: a message is lost. The guard's thread. */
GP_MUST_USE gp_status gp_guard_take_delivery(gp_guard *guard, const gp_guard_peer *from,
                                             const gp_guard_message *message, gp_error *err);

#endif
