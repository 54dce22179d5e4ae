#include "schedule/access.h"

#define STASH(field, uses)                    [GP_FRAME_STASH] = {offsetof(gp_instr, field), uses}
#define SAVED(field, uses)                    [GP_FRAME_SAVED] = {offsetof(gp_instr, field), uses}
#define OUTBOX(field, uses)                   [GP_FRAME_OUTBOX] = {offsetof(gp_instr, field), uses}
#define GRAD(field, uses)                     [GP_FRAME_GRAD] = {offsetof(gp_instr, field), uses}
#define PLAIN(...)                            [GP_ACCESS_PLAIN] = {.frame = {__VA_ARGS__}}
#define KEEP(...)                             [GP_ACCESS_KEEP] = {.frame = {__VA_ARGS__}}
#define GRADIENT(...)                         [GP_ACCESS_GRADIENT] = {.frame = {__VA_ARGS__}}
#define NO_SLOTS                              PLAIN({0})
#define ROW(suffix, name, traits, flags, ...) [GP_INSTR_##suffix] = {name, traits, flags, {__VA_ARGS__}},

const gp_instr_row gp_instr_rows[GP_INSTR_OPS] = {GP_INSTR_MAP(ROW)};

const char *gp_frame_name(gp_frame frame) {
    static const char *const names[GP_FRAMES] = {"stash", "saved", "outbox", "gradient"};
    return names[frame];
}

static gp_access_variant variant_of(const gp_stages *stages, const gp_instr *instr) {
    if (gp_instr_has_edge(instr) && stages->edges[instr->edge].kind == GP_EDGE_GRADIENT) return GP_ACCESS_GRADIENT;
    return instr->flags & GP_INSTR_KEEP ? GP_ACCESS_KEEP : GP_ACCESS_PLAIN;
}

/* A stage that sends nothing has no outbox. */
gp_accesses gp_instr_accesses(const gp_stages *stages, const gp_instr *instr) {
    gp_accesses its = gp_instr_rows[instr->op].slots[variant_of(stages, instr)];
    if (stages->stage[instr->stage].out.count == 0) its.frame[GP_FRAME_OUTBOX] = (gp_access){0};
    return its;
}

const char *gp_instr_carries(const gp_stages *stages, const gp_instr *instr) {
    if (gp_instr_has_edge(instr)) return gp_edge_kind_name(stages->edges[instr->edge].kind);
    if (gp_instr_joins(instr)) return gp_part_kind_name(stages->collectives[instr->collective].part);
    return NULL;
}

gp_queue gp_instr_queue(const gp_stages *stages, const gp_instr *instr) {
    if (gp_instr_computes(instr)) return GP_QUEUE_COMPUTE;
    if (instr->op == GP_INSTR_COLLECT && stages->collectives[instr->collective].part == GP_PART_GRADIENTS)
        return GP_QUEUE_SUMS;
    gp_accesses its = gp_instr_accesses(stages, instr);
    if (its.frame[GP_FRAME_GRAD].uses & GP_WRITES) return GP_QUEUE_BACK;
    return its.frame[GP_FRAME_STASH].uses & GP_WRITES ? GP_QUEUE_IN : GP_QUEUE_COMPUTE;
}
