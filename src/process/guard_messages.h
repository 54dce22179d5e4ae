/* The messages between guards, as bytes: what is sent, and what has come.
 *
 * A message is a header and a text: its kind, a status, the rank that it is about, and the length of the text. Pure: no
 * socket, no lock. Nothing that has come is used before it is checked. Any thread, each with its own input. */
#ifndef GP_PROCESS_GUARD_MESSAGES_H
#define GP_PROCESS_GUARD_MESSAGES_H

#include <stdbool.h>

#include "process/guard.h"

enum { GP_GUARD_HEADER = 8, GP_GUARD_ROOM = GP_GUARD_HEADER + GP_ERROR_TEXT, GP_GUARD_MOST_SECONDS = 1000000 };

typedef enum gp_guard_kind {
    GP_GUARD_HELLO,
    GP_GUARD_BEAT,
    GP_GUARD_FAIL,
    GP_GUARD_LOST, /* FAIL, because a process is lost */
    GP_GUARD_STOP,
    GP_GUARD_BYE,
    /* About messages of MPI (process/deliveries.h). The rank is the process that it goes to; process 0 passes it on
     * with the rank of the process that it comes from. */
    GP_GUARD_ASK,
    GP_GUARD_ANSWER,
    GP_GUARD_TIMEOUT, /* process 0 says it to the others, as a double */
    GP_GUARD_READY,   /* to process 0: its HELLO has come, and this connection is the one that counts */
    GP_GUARD_SAVED,   /* process 0 says with which status the run is over */
    GP_GUARD_KINDS
} gp_guard_kind;

/* The text of HELLO. */
typedef struct gp_guard_hello {
    unsigned char secret[GP_GUARD_SECRET];
    char host[GP_HOST_TEXT];
    int pid;
    int attempt; /* of this process to connect, from 1; of process 0: the one that it answers */
} gp_guard_hello;

typedef struct gp_guard_message {
    gp_guard_kind kind;
    int status, rank;
    size_t length;
    const unsigned char *text; /* the input's, until more is taken from it */
} gp_guard_message;

/* What has come over one connection, and is not used yet. */
typedef struct gp_guard_input {
    unsigned char bytes[GP_GUARD_ROOM];
    size_t filled;
} gp_guard_input;

/* Bytes that were written to `out`, which has GP_GUARD_ROOM; length < GP_ERROR_TEXT. */
size_t gp_guard_write(unsigned char *out, gp_guard_kind kind, gp_status status, int rank, const void *text,
                      size_t length);
typedef enum gp_guard_found { GP_GUARD_NOTHING, GP_GUARD_MESSAGE, GP_GUARD_GARBAGE } gp_guard_found;
/* The message at the input's start, if it is whole. After it was used: gp_guard_drop. Garbage: nothing that follows can
 * be read. */
gp_guard_found gp_guard_next(const gp_guard_input *input, gp_guard_message *out);
void gp_guard_drop(gp_guard_input *input, const gp_guard_message *message);
/* What TIMEOUT says: seconds, above 0 and at most GP_GUARD_MOST_SECONDS. */
double gp_guard_read_timeout(const gp_guard_message *message);
/* What FAIL or LOST says, as a text that can be printed. */
void gp_guard_read_cause(const gp_guard_message *message, gp_error *out);

#endif
