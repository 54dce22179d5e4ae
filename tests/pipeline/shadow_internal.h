/* What the files of the shadow share: its maps, and who may do what. A worker's map is its thread's alone. Tests only.
 */
#ifndef GP_TESTS_PIPELINE_SHADOW_INTERNAL_H
#define GP_TESTS_PIPELINE_SHADOW_INTERNAL_H

#include <stdatomic.h>

#include "pipeline/shadow.h"
#include "plan/touches.h"

/* Owners of bytes; a slot's are LIFE + its number. */
enum { NOBODY, KEPT /* from step to step */, MINI_BATCH /* until the program's end */, INSTRUCTION, LIFE };

/* One frame of one micro-batch on one stage, from its first byte to its last use. */
typedef struct life {
    bool alive, done; /* done: its own stage has no more use for it */
    uint16_t slot;
    int sends_left, pulls_pending;
} life;

typedef struct worker_shadow {
    uint32_t *owner;               /* [byte] */
    unsigned char *before, *marks; /* [byte] copy of the arena; MAY_READ, MAY_WRITE */
    unsigned char *op_before, *op_marks;
    arena_touches touches;
    life *lives;      /* [(stage·frames + frame)·pieces + micro] */
    gp_wait *pending; /* sent and perhaps not yet pulled */
    size_t pending_count, pending_capacity;
    gp_site site;
} worker_shadow;

struct shadow {
    harness *h;
    unsigned char pattern;
    int pieces; /* of the longest program */
    worker_shadow *workers;
    atomic_int *pulled; /* [edge·pieces + micro] */
};

enum { MAY_READ = 1, MAY_WRITE = 2, OTHER = 4 };

/* Loops over the shadow's own maps, byte by byte: a worker's alone, and too many for ThreadSanitizer to look at. */
#define OWN_MAP __attribute__((no_sanitize("thread")))

extern shadow *shadow_current;                   /* for the hooks of devices */
extern _Thread_local worker_shadow *shadow_mine; /* of this thread's worker, within an instruction */

static inline const gp_plan *plan_of(const shadow *s) {
    return s->h->plan;
}

static inline unsigned char *arena_of(const shadow *s, int worker) {
    return gp_run_arena(s->h->run, worker);
}

/* Where an instruction's transients begin. */
static inline size_t shadow_transients(const gp_plan *plan, const gp_site *site) {
    return plan->minis[site->mini].training ? plan->transient_base[site->worker] : plan->evaluation_base[site->worker];
}

gp_status shadow_refuse(const worker_shadow *w, gp_error *err, const char *format, ...) GP_PRINTF(3, 4);

life *shadow_life(const shadow *s, worker_shadow *w, int stage, gp_frame frame, int micro);
uint32_t shadow_life_owner(const worker_shadow *w, const life *its);
void shadow_set_owner(worker_shadow *w, size_t offset, size_t bytes, uint32_t owner);
/* The end of the stretch from `i` on that has one owner (one mark). */
size_t shadow_owner_end(const worker_shadow *w, size_t i, size_t end);
size_t shadow_mark_end(const unsigned char *marks, size_t i, size_t end);
/* The first byte outside what may be written that is another than before; `bytes` where there is none. */
size_t shadow_find_change(const unsigned char *arena, const unsigned char *before, const unsigned char *marks,
                          size_t bytes);

/* The frame that a send reads. */
gp_frame shadow_send_frame(const gp_plan *plan, const gp_instr *send);

/* In the order of the touches: what is read was written by its owner; what is written was its owner's, or nobody's.
 * Writes take effect at once: nobody looks at the arena in between. */
gp_status shadow_check_touches(const shadow *s, worker_shadow *w, gp_error *err);

/* Around each op and copy. */
gp_status shadow_before_call(void *context, const wrapper_call *call, gp_error *err);
gp_status shadow_after_call(void *context, const wrapper_call *call, gp_error *err);

#endif
