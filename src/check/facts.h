/* Where each instruction of a program stands, by what it does: what the rules of check/rules.c, check/lives.c speak
 * about. Refuses what is there twice, and what is where it may not be.
 *
 * Borrows the claim; owned by its creator; one thread. */
#ifndef GP_CHECK_FACTS_H
#define GP_CHECK_FACTS_H

#include "check/happens.h"

enum { GP_NOWHERE = -1 };

/* Of a stage: pcs in its worker's program; GP_NOWHERE: there is none. */
typedef struct gp_fact_micro {
    int64_t load, f, r, b, i, w;
} gp_fact_micro;

typedef struct gp_fact_stage {
    int64_t norm, clip, total, update, step;
} gp_fact_stage;

typedef struct gp_fact_copy {
    int64_t send, recv;
} gp_fact_copy;

typedef struct gp_fact_member {
    int64_t post, collect, reduce;
} gp_fact_member;

/* The receive of a micro-batch on an edge has its memory when instruction `pc` of its worker has ended. */
typedef struct gp_freed_by {
    int edge, micro;
    size_t pc;
} gp_freed_by;

typedef struct gp_freed {
    gp_freed_by *items;
    size_t count, capacity;
} gp_freed;

typedef struct gp_facts {
    const gp_claim *claim;
    const gp_claim_program *program;
    gp_error *err;
    bool norms;              /* training finds the norm of all gradients */
    gp_fact_micro *micros;   /* [stage·micro-batches + micro] */
    gp_fact_stage *stages;   /* [stage] */
    gp_fact_copy *copies;    /* [edge·micro-batches + micro] */
    gp_fact_member *members; /* [collective·stages + stage] */
    gp_happens *order;       /* NULL until the waits are followed */
    int64_t **grows; /* [worker][pc] bytes of slots that come into use, less those that went; by gp_check_lives */
} gp_facts;

/* On failure the caller still calls gp_facts_fini. */
GP_MUST_USE gp_status gp_facts_init(gp_facts *facts, const gp_claim *claim, const gp_claim_program *program,
                                    gp_error *err);
void gp_facts_fini(gp_facts *facts);

static inline int gp_facts_worker(const gp_facts *f, int stage) {
    return f->claim->stages[stage].worker;
}
static inline gp_fact_micro *gp_facts_micro(const gp_facts *f, int stage, int micro) {
    return &f->micros[(size_t)stage * (size_t)f->program->micro_batches + (size_t)micro];
}
static inline gp_fact_copy *gp_facts_copy(const gp_facts *f, int edge, int micro) {
    return &f->copies[(size_t)edge * (size_t)f->program->micro_batches + (size_t)micro];
}
static inline gp_fact_member *gp_facts_member(const gp_facts *f, int collective, int stage) {
    return &f->members[(size_t)collective * f->claim->stage_count + (size_t)stage];
}
static inline const gp_claim_instr *gp_facts_instr(const gp_facts *f, int stage, int64_t pc) {
    return &f->program->worker[gp_facts_worker(f, stage)].instrs[pc];
}
/* The backward pass for weights, and the one for inputs: B, or one of its halves. */
static inline int64_t gp_fact_weights(const gp_fact_micro *m) {
    return m->b != GP_NOWHERE ? m->b : m->w;
}
static inline int64_t gp_fact_inputs(const gp_fact_micro *m) {
    return m->b != GP_NOWHERE ? m->b : m->i;
}
bool gp_fact_is_among(const int *stages, size_t count, int stage);
/* Whether an edge carries a micro-batch in this pass. */
bool gp_facts_carries(const gp_facts *f, int edge, int micro);

/* "training, 32 samples"; `text` is returned. */
const char *gp_program_name(const gp_claim_program *program, char text[64]);
/* "training, 32 samples: worker 1, instruction 17 (F s1 m3): …". */
gp_status gp_facts_refuse(const gp_facts *f, int stage, int64_t pc, const char *format, ...) GP_PRINTF(4, 5);
/* "training, 32 samples: …", about no one instruction. */
gp_status gp_facts_lack(const gp_facts *f, const char *format, ...) GP_PRINTF(2, 3);
/* That instruction a surely ends before b begins, if both are there. */
GP_MUST_USE gp_status gp_facts_in_order(const gp_facts *f, int stage_a, int64_t a, int stage_b, int64_t b);

/* check/rules.c: presence and order; check/lives.c: slots. The facts have their order. */
GP_MUST_USE gp_status gp_check_presence(const gp_facts *f);
GP_MUST_USE gp_status gp_check_order(const gp_facts *f);
GP_MUST_USE gp_status gp_check_lives(gp_facts *f, gp_freed *freed, size_t *lives);
/* check/links.c: why there would be a deadlock with links that are first in, first out, and with sends that block, if
 * nothing is said yet. `freed` comes from gp_check_lives. */
GP_MUST_USE gp_status gp_check_links(const gp_facts *f, const gp_freed *freed, char queued[GP_ERROR_TEXT],
                                     char blocking[GP_ERROR_TEXT]);
GP_MUST_USE gp_status gp_check_memory(const gp_facts *f, int64_t *peak);
/* Of the claim as a whole; check/members.c: who must take part in collectives. */
GP_MUST_USE gp_status gp_check_layers(const gp_claim *claim, gp_error *err);
GP_MUST_USE gp_status gp_check_members(const gp_claim *claim, gp_error *err);
GP_MUST_USE gp_status gp_check_regions(const gp_claim *claim, gp_error *err);

#endif
