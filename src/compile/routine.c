#include "compile/routine.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NEVER = -1 };

/* When a thing lives, by index of op, and whose storage it shares. */
typedef struct life {
    int64_t first, last;
    int root; /* itself, or the thing whose storage it took over */
} life;

typedef struct builder {
    const gp_staged_list *list;
    const bool *run;
    gp_thing *things;
    size_t thing_count;
    life *lives;
} builder;

void gp_routine_fini(gp_routine *routine) {
    free(routine->ops);
    *routine = (gp_routine){0};
}

gp_staged_op gp_staged_new(int node) {
    gp_staged_op op = {.node = node};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) op.operand[i].thing = -1;
    return op;
}

gp_status gp_staged_add(gp_staged_list *list, gp_staged_op op, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&list->items, &list->capacity, list->count + 1, err));
    list->items[list->count++] = op;
    return GP_OK;
}

static bool runs(const builder *b, size_t op) {
    return !b->run || b->run[op];
}

static void find_lives(builder *b) {
    for (size_t t = 0; t < b->thing_count; t++) b->lives[t] = (life){NEVER, NEVER, (int)t};
    for (size_t o = 0; o < b->list->count; o++) {
        if (!runs(b, o)) continue;
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            int thing = b->list->items[o].operand[i].thing;
            if (thing < 0) continue;
            if (b->lives[thing].first == NEVER) b->lives[thing].first = (int64_t)o;
            b->lives[thing].last = (int64_t)o;
        }
    }
}

static int root_of(const builder *b, int thing) {
    while (b->lives[thing].root != thing) thing = b->lives[thing].root;
    return thing;
}

/* Every operand through which `op` reads `thing` may be overwritten by operand `out`, and covers the whole of it. */
static bool may_overwrite(const gp_staged_op *op, int out, int thing, size_t bytes) {
    const gp_prepared *prepared = op->prepared;
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        const gp_staged_operand *operand = &op->operand[i];
        if (operand->thing != thing) continue;
        if (!(prepared->in_place[out] >> i & 1) || operand->first != 0 || prepared->operand[i].bytes != bytes)
            return false;
    }
    return true;
}

/* Lets written thing `w` of op `o` take the storage of a thing that dies there. */
static void take_over(builder *b, size_t o, int out) {
    const gp_staged_op *op = &b->list->items[o];
    int w = op->operand[out].thing;
    if (b->lives[w].first != (int64_t)o || b->lives[w].root != w || op->operand[out].first != 0 ||
        op->prepared->operand[out].bytes != b->things[w].bytes)
        return;
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        int r = op->operand[i].thing;
        if (r < 0 || r == w || !gp_op_reads(op->prepared->desc.kind, i)) continue;
        int root = root_of(b, r);
        bool placed = b->things[root].at.area != GP_AREA_NONE;
        bool free_to_take = placed ? b->things[root].overwritable && b->things[w].at.area == GP_AREA_NONE : true;
        if (!free_to_take || b->lives[r].last != (int64_t)o || b->things[root].bytes != b->things[w].bytes ||
            !may_overwrite(op, out, r, b->things[w].bytes))
            continue;
        if (b->things[w].at.area != GP_AREA_NONE) {
            b->things[root].at = b->things[w].at;
            b->things[root].overwritable = false;
        }
        b->lives[w].root = root;
        if (b->lives[root].last < b->lives[w].last) b->lives[root].last = b->lives[w].last;
        return;
    }
}

static void share_storage(builder *b) {
    for (size_t o = 0; o < b->list->count; o++) {
        if (!runs(b, o)) continue;
        const gp_staged_op *op = &b->list->items[o];
        for (int i = 0; i < GP_MAX_OPERANDS; i++)
            if (op->operand[i].thing >= 0 && gp_op_writes(op->prepared->desc.kind, i)) take_over(b, o, i);
    }
}

/* A stretch of the transient area that is taken until after op `last`. */
typedef struct taken {
    size_t offset, bytes;
    int64_t last;
} taken;

typedef struct packer {
    taken *items; /* by offset */
    size_t count, capacity;
    size_t high;
} packer;

/* The smallest gap that fits, among what is taken now. */
static gp_status pack(packer *p, size_t bytes, int64_t now, int64_t last, size_t *offset, gp_error *err) {
    size_t live = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].last >= now) p->items[live++] = p->items[i];
    p->count = live;
    size_t best = SIZE_MAX, best_at = 0, best_place = p->count, end = 0;
    for (size_t i = 0; i < p->count; i++) {
        size_t gap = p->items[i].offset - end;
        if (gap >= bytes && gap < best) {
            best = gap;
            best_at = end;
            best_place = i;
        }
        end = p->items[i].offset + p->items[i].bytes;
    }
    if (best == SIZE_MAX) best_at = end;
    GP_RETURN_IF_FAILED(GP_GROW(&p->items, &p->capacity, p->count + 1, err));
    for (size_t i = p->count; i > best_place; i--) p->items[i] = p->items[i - 1];
    p->items[best_place] = (taken){best_at, bytes, last};
    p->count++;
    if (best_at + bytes > p->high) p->high = best_at + bytes;
    *offset = best_at;
    return GP_OK;
}

static gp_status place_transients(builder *b, size_t *bytes, gp_error *err) {
    packer p = {0};
    gp_status status = GP_OK;
    for (size_t o = 0; o < b->list->count && status == GP_OK; o++) {
        if (!runs(b, o)) continue;
        for (int i = 0; i < GP_MAX_OPERANDS && status == GP_OK; i++) {
            int thing = b->list->items[o].operand[i].thing;
            if (thing < 0) continue;
            int root = root_of(b, thing);
            if (b->things[root].at.area != GP_AREA_NONE) continue;
            size_t offset = 0;
            status = pack(&p, gp_align_up(b->things[root].bytes, GP_ALIGNMENT), (int64_t)o, b->lives[root].last,
                          &offset, err);
            b->things[root].at = (gp_address){GP_AREA_TRANSIENT, offset, 0};
        }
    }
    free(p.items);
    *bytes = p.high;
    return status;
}

static gp_address operand_address(const builder *b, const gp_staged_operand *operand) {
    if (operand->thing < 0) return operand->fixed;
    gp_address address = b->things[root_of(b, operand->thing)].at;
    address.offset += operand->first;
    return address;
}

/* An op's own, or that of one of its parts. */
static size_t workspace_of(const gp_staged_op *op) {
    size_t most = op->prepared->workspace;
    for (int p = 0; p < op->part_count; p++)
        if (op->part[p].prepared->workspace > most) most = op->part[p].prepared->workspace;
    return most;
}

static void emit(const builder *b, gp_routine *out) {
    for (size_t o = 0; o < b->list->count; o++) {
        if (!runs(b, o)) continue;
        const gp_staged_op *op = &b->list->items[o];
        gp_exec_op *exec = &out->ops[out->count++];
        *exec = (gp_exec_op){.prepared = op->prepared,
                             .node = op->node,
                             .beyond = op->beyond,
                             .owner = op->owner,
                             .when = op->when,
                             .part_count = op->part_count};
        memcpy(exec->part, op->part, sizeof exec->part);
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            exec->operand[i] = operand_address(b, &op->operand[i]);
            exec->role[i] = op->operand[i].role;
        }
        size_t workspace = gp_align_up(workspace_of(op), GP_ALIGNMENT);
        if (workspace > 0) exec->workspace = (gp_address){GP_AREA_TRANSIENT, out->transient, 0};
        if (workspace > out->workspace) out->workspace = workspace;
    }
}

gp_status gp_routine_build(const gp_staged_list *list, const bool *run, gp_thing *things, size_t thing_count,
                           gp_routine *out, gp_error *err) {
    builder b = {list, run, things, thing_count, NULL};
    gp_routine routine = {0};
    gp_status status = GP_NEW(&b.lives, thing_count, err);
    if (status == GP_OK) {
        find_lives(&b);
        share_storage(&b);
        status = place_transients(&b, &routine.transient, err);
    }
    if (status == GP_OK) status = GP_NEW(&routine.ops, list->count, err);
    if (status == GP_OK) emit(&b, &routine);
    free(b.lives);
    if (status != GP_OK)
        gp_routine_fini(&routine);
    else
        *out = routine;
    return status;
}
