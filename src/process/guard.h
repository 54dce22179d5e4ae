/* The guard: it notices when a process of the run is lost, and tells all others what ended the run.
 *
 * Each process has a connection to process 0 (TCP) and a thread that looks after it. The thread gives signs of life,
 * four a second, whatever the rest of the process does. A process is lost if its connection ends without a word, or if
 * no sign of life came for the timeout. Process 0 knows the first cause, and tells it to all. A process that has been
 * told to end and does not within a few seconds is ended by its guard. The guard's thread can also look after this
 * process's own workers, since it goes on when they hang, and after messages that MPI loses (process/deliveries.h).
 *
 * MPI says nothing of a process that is stopped, and ends the whole program when a connection breaks: so the guard has
 * connections of its own. What is read from them is checked: a process says a secret that it got through MPI, and no
 * length is trusted. */
#ifndef GP_PROCESS_GUARD_H
#define GP_PROCESS_GUARD_H

#include <stdbool.h>

#include "process/deliveries.h"

enum { GP_GUARD_SECRET = 16, GP_GUARD_ADDRESSES = 16, GP_HOST_TEXT = 64 };

/* Of a process, as it says over MPI. Addresses are of IPv6, or of IPv4 mapped into it. */
typedef struct gp_guard_network {
    uint64_t space; /* a number of the network that its system shows it; 0: not known */
    int count;
    unsigned char address[GP_GUARD_ADDRESSES][16]; /* without those that lead back to the own machine */
} gp_guard_network;

/* Where process 0 listens; sent to all processes. */
typedef struct gp_guard_door {
    unsigned char secret[GP_GUARD_SECRET];
    int port, count;
    unsigned char address[GP_GUARD_ADDRESSES][16];
} gp_guard_door;

typedef struct gp_guard_listener {
    int socket[GP_GUARD_ADDRESSES], count;
} gp_guard_listener;

typedef struct gp_guard gp_guard;

void gp_guard_describe_network(gp_guard_network *out);
/* Process 0: begins to listen where the others are. all[process]; count 0: all are on this machine, and other machines
 * cannot connect. Otherwise at the addresses from which the ways to the others lead. GP_IO. */
GP_MUST_USE gp_status gp_guard_listen(const gp_guard_network *all, int count, gp_guard_door *out,
                                      gp_guard_listener *listener, gp_error *err);
/* Process 0 waits until all others are connected, and closes the listener; the others have none, and connect. Within
 * `seconds`, without those for which the process itself was stopped. Then the thread starts. GP_IO. The main thread. */
GP_MUST_USE gp_status gp_guard_start(const gp_guard_door *door, gp_guard_listener *listener, int rank, int processes,
                                     double seconds, gp_guard **out, gp_error *err);
/* Says goodbye, and joins the thread. */
void gp_guard_stop(gp_guard **guard);

/* Seconds without a sign of life after which a process is lost. They also limit messages that MPI loses
 * (process/deliveries.h). Process 0 tells the others, which take it, too. Any thread. */
void gp_guard_set_timeout(gp_guard *guard, double seconds);
/* This is cancelled when the run ends elsewhere; NULL: nothing. Main thread. */
void gp_guard_watch(gp_guard *guard, gp_cancel *cancel);
/* The guard's thread calls `look` about ten times a second, with the seconds since the last call in which this process
 * was not stopped. If that fails, the run ends with its cause, about this process. It must not block, nor call the
 * guard. NULL: nothing, and no call is under way any more. Main thread. */
typedef gp_status (*gp_guard_look)(void *context, double awake, gp_error *err);
void gp_guard_set_look(gp_guard *guard, gp_guard_look look, void *context);
/* The guard asks the other processes of the messages that do not come to an end, and answers them. If one is lost, the
 * run ends. Borrowed until the guard is stopped; NULL: nothing. Main thread. */
void gp_guard_set_deliveries(gp_guard *guard, gp_deliveries *deliveries);
/* This process has failed, or is to end with that status: if that is the first cause, all others are told. Returns the
 * first cause in *cause. Any thread. */
void gp_guard_fail(gp_guard *guard, gp_error *cause);
/* Process 0: the run is over, and all of it is saved; GP_OK or GP_INTERRUPTED. The others learn it. A process that is
 * lost from now on, or fails, is named in a warning, and all end with that status at once, also if they wait for it.
 * gp_guard_stop waits for the others' goodbyes then. Nothing, if the run has failed before. Main thread. */
void gp_guard_finish(gp_guard *guard, gp_status status);
/* What ended the run; GP_OK: nothing has. */
gp_status gp_guard_cause(gp_guard *guard, gp_error *cause);
/* Whether some process is lost, so that no other one can wait for it. */
bool gp_guard_has_lost(gp_guard *guard);
/* Process 0: the name of a process's host, printable. Borrowed. */
const char *gp_guard_host(const gp_guard *guard, int rank);
/* Whether this process tells the user: process 0, or the first one if process 0 is lost. */
bool gp_guard_speaks(gp_guard *guard);
/* Asks process 0 to end the run after its step; there, whether some process has asked. */
void gp_guard_ask_stop(gp_guard *guard);
bool gp_guard_is_asked(gp_guard *guard);

#endif
