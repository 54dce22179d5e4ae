/* What the files of the validator share: the programs under check, the current instruction, and what the current stage
 * has done so far.
 *
 * Internal to validate*.c. The checker is owned by the function that checks; one thread. */
#ifndef GP_SCHEDULE_VALIDATE_INTERNAL_H
#define GP_SCHEDULE_VALIDATE_INTERNAL_H

#include <stdarg.h>
#include <stdio.h>

#include "schedule/program.h"

typedef struct gp_checker {
    const gp_stages *stages;
    const gp_programs *programs;
    size_t *first; /* [stage]: where the pcs of its instructions begin in `pcs`, in its worker's order */
    uint32_t *pcs;
    uint8_t *copied;                      /* [edge·pieces + micro]: SENT, RECEIVED */
    struct gp_checked_micro *pieces;      /* [micro], of the current stage */
    struct gp_holder *holders[GP_FRAMES]; /* [slot] */
    const gp_stage *stage;                /* the current one, with what it has done so far */
    gp_micros micros;                     /* of which it has samples */
    int s, forwards, backwards, weights, norms, clips, totals, reduces, updates, steps;
    uint8_t *joined; /* [place of a member]: what it has done in its collective */
    int worker;      /* of the current instruction */
    size_t pc;
    const gp_instr *instr;
} gp_checker;

/* Says what is wrong with the current instruction. */
static gp_status refuse(const gp_checker *c, gp_error *err, const char *format, ...) GP_PRINTF(3, 4);
static inline gp_status refuse(const gp_checker *c, gp_error *err, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return gp_programs_refuse(c->programs, c->worker, c->pc, err, "%s", what);
}

/* Rules of the current instruction, validate_collective.c. */
GP_MUST_USE gp_status gp_check_collective_fields(const gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_post(gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_collect(gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_total(gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_reduce_fields(const gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_reduce(gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_update(gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_norm(gp_checker *c, gp_error *err);
GP_MUST_USE gp_status gp_check_clip(gp_checker *c, gp_error *err);
/* Its stage posts or collects, for gp_check_collectives. */
void gp_check_note_joined(gp_checker *c);
/* That all members have posted and collected. */
GP_MUST_USE gp_status gp_check_collectives(const gp_checker *c, gp_error *err);

#endif
