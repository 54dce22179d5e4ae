/* What each instruction waits for, derived from the programs: executor, player and validator use the same list.
 *
 * recv waits until its micro-batch was sent on its edge, collect until all contributors have posted. An instruction
 * that begins a new life of a slot waits until all that was sent from the slot's last life has been pulled; in a
 * gradient slot the backward does, since what is received lies beside it. Pure; the result is read-only, any thread.
 *
 * A mini-batch may begin behind another one of the same programs that is still under way on devices: then an
 * instruction that writes what others pulled in that one waits for it, besides.
 */
#ifndef GP_SCHEDULE_WAITS_H
#define GP_SCHEDULE_WAITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "schedule/program.h"

typedef enum gp_wait_kind {
    GP_WAIT_SENT,
    GP_WAIT_PULLED,
    GP_WAIT_POSTED,    /* a member has posted its part of a collective */
    GP_WAIT_COLLECTED, /* a member has collected */
} gp_wait_kind;

/* An event that is waited for: what one instruction of a mini-batch makes happen. */
typedef struct gp_wait {
    uint32_t edge;  /* POSTED, COLLECTED: the collective */
    uint16_t micro; /* POSTED, COLLECTED: the stage of the member */
    uint16_t kind;  /* gp_wait_kind */
} gp_wait;

/* Whether it is about a member of a collective. */
static inline bool gp_wait_is_joint(const gp_wait *wait) {
    return wait->kind == GP_WAIT_POSTED || wait->kind == GP_WAIT_COLLECTED;
}

/* The event that an instruction makes happen. False: none. */
bool gp_instr_event(const gp_instr *instr, gp_wait *out);
/* The stage of that instruction. */
int gp_event_stage(const gp_stages *stages, const gp_wait *event);
/* Events of a mini-batch have numbers from 0. First are all SENT, by edge and micro-batch. */
size_t gp_event_number(const gp_stages *stages, int pieces, const gp_wait *event);
size_t gp_event_count(const gp_stages *stages, int pieces);
/* "micro-batch 3 is sent on edge 2"; buffer is returned. */
enum { GP_EVENT_TEXT = 80 };
const char *gp_event_text(char buffer[GP_EVENT_TEXT], const gp_wait *event);

/* One worker's: instruction pc waits for items[first[pc]] … items[first[pc+1]−1]. */
typedef struct gp_worker_waits {
    uint32_t *first; /* instructions + 1 entries */
    gp_wait *items;
    size_t count, capacity;
} gp_worker_waits;

typedef struct gp_waits {
    int workers;
    gp_worker_waits *worker;
} gp_waits;

/* `slots`: also the waits for slots (false while none are assigned). */
GP_MUST_USE gp_status gp_waits_create(const gp_stages *stages, const gp_programs *programs, bool slots, gp_waits **out,
                                      gp_error *err);
/* What is waited for besides where a mini-batch that trains begins behind another: in that one, PULLED of what is begun
 * first in each slot, and COLLECTED of those that collect what the instruction writes again. */
GP_MUST_USE gp_status gp_waits_create_behind(const gp_stages *stages, const gp_programs *programs, gp_waits **out,
                                             gp_error *err);
void gp_waits_destroy(gp_waits **waits);

#endif
