/* Deliveries: which messages a process has begun to send or to receive, so that one that MPI never delivers is noticed.
 *
 * If the network breaks a connection of MPI, MPI may lose a message without a word. So the carrier counts what it
 * begins, separately for each other process, tag and direction: the n-th message that one side sends is the n-th one
 * that the other side receives. If nothing moves for a second, the guard asks the other process of each unfinished
 * message whether it has begun its side, too: again and again, at intervals of up to a tenth of the timeout. A message
 * that both sides have begun must come to its end. If it does not within the timeout, and a second for each megabyte,
 * it is lost. What the workers do meanwhile does not matter, and neither does a process that is stopped: it answers
 * nothing, and only answered time counts.
 *
 * The carrier's thread begins and ends messages; the guard's thread asks, answers and hears. Each call takes the lock.
 * Parcels belong to their owners, and are known here from their begin to their end. */
#ifndef GP_PROCESS_DELIVERIES_H
#define GP_PROCESS_DELIVERIES_H

#include "process/wire.h"

enum { GP_DELIVERY_ITEMS = 64 };

/* A message, as the process sees it that asks. */
typedef struct gp_delivery_item {
    uint32_t tag;    /* of a message that it receives: with GP_DELIVERY_RECEIVES */
    uint32_t number; /* from 1, among those of this process, tag and direction */
} gp_delivery_item;
#define GP_DELIVERY_RECEIVES (UINT32_C(1) << 31)

/* Has the other process begun its side of these? */
typedef struct gp_delivery_question {
    uint32_t serial, count; /* count: 1 … GP_DELIVERY_ITEMS */
    gp_delivery_item item[GP_DELIVERY_ITEMS];
} gp_delivery_question;

typedef struct gp_delivery_answer {
    uint64_t begun; /* a bit for each item */
    uint32_t serial, unused;
} gp_delivery_answer;

typedef struct gp_deliveries gp_deliveries;

GP_MUST_USE gp_status gp_deliveries_create(int rank, int processes, gp_deliveries **out, gp_error *err);
void gp_deliveries_destroy(gp_deliveries **deliveries);

/* The carrier begins a message, and it is over. `parcel` stays where it is between the two. */
void gp_deliveries_begin(gp_deliveries *its, gp_parcel *parcel);
void gp_deliveries_end(gp_deliveries *its, gp_parcel *parcel);
/* Something of a message has moved: a part of it is over. */
void gp_deliveries_move(gp_deliveries *its);
/* The carrier has ended: no parcel is used any more, and nothing is asked. */
void gp_deliveries_stop(gp_deliveries *its);

/* `now`, `timeout`: in seconds. True: *out is a question to process *to. To be called until it is false. */
bool gp_deliveries_ask(gp_deliveries *its, double now, double timeout, int *to, gp_delivery_question *out);
/* What this process says to process `from`. False: no process of the run asks that. */
bool gp_deliveries_answer(gp_deliveries *its, int from, const gp_delivery_question *question, gp_delivery_answer *out);
/* GP_LOST: a message is lost; the sentence says which process waits for which. An answer to another question than the
 * last one to this process is ignored. */
GP_MUST_USE gp_status gp_deliveries_hear(gp_deliveries *its, int from, const gp_delivery_answer *answer, double now,
                                         double timeout, gp_error *err);

#endif
