/* Proves a plan, by rules of its own: what the plan claims is read from its JSON (check/claim.h), and no code is shared
 * with the planner.
 *
 * Each layer stands on one stage. In each program, each micro-batch has on each stage one forward and, in training, one
 * backward (or one half for inputs and one for weights), with one recompute between them where the forward keeps
 * nothing; each copy is sent once and received once; parts of collectives are posted and collected once; nothing is
 * read before it is written: the plan's own waits and queues must say so; each gradient is added up once for each
 * micro-batch, in the declared order, and once for each replica; no slot has two lives at once, no buffer lies over
 * another one, and what is in use fits the arena; no deadlock.
 *
 * Pure; one thread for each claim. */
#ifndef GP_CHECK_CHECK_H
#define GP_CHECK_CHECK_H

#include <stdio.h>

#include "check/claim.h"

/* What is said of a plan that holds. */
typedef struct gp_certificate {
    size_t instructions, passes, copies, lives, sums; /* of all programs: passes are F, R, B, I and W */
    /* Why there would be a deadlock with such links (check/links.c); "": there is none. */
    char queued[GP_ERROR_TEXT], blocking[GP_ERROR_TEXT];
    int64_t *peak; /* [worker] bytes in use at once; −1: the file does not say */
    size_t peak_count;
} gp_certificate;

/* GP_PROGRAM with a sentence for the first claim that does not hold. */
GP_MUST_USE gp_status gp_check(const gp_claim *claim, gp_certificate *out, gp_error *err);
void gp_certificate_fini(gp_certificate *certificate);
/* What has been checked, and what the file does not show, as text. The caller checks the stream. */
void gp_certificate_write(const gp_claim *claim, const gp_certificate *certificate, FILE *out);

#endif
