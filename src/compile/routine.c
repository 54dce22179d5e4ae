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

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* What needs a place: a thing, or (−1) the workspace of op `first`. */
typedef struct unplaced {
    int thing;
    gp_packed stretch;
} unplaced;

typedef struct placer {
    builder *b;
    bool unshared;
    const gp_spare *spare; /* NULL: there is none, or nothing shares */
    gp_packing saved, transient;
    unplaced *items;
    size_t count, capacity;
    gp_address *workspace; /* [op of the list] */
} placer;

/* An op's own, or that of one of its parts. */
static size_t workspace_of(const gp_staged_op *op) {
    size_t most = op->prepared->workspace;
    for (int p = 0; p < op->part_count; p++)
        if (op->part[p].prepared->workspace > most) most = op->part[p].prepared->workspace;
    return gp_align_up(most, GP_ALIGNMENT);
}

static gp_status add_unplaced(placer *p, int thing, size_t bytes, int64_t first, int64_t last, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&p->items, &p->capacity, p->count + 1, err));
    if (p->unshared) last = INT64_MAX; /* no gap is free again */
    p->items[p->count++] = (unplaced){thing, {.bytes = bytes, .first = first, .last = last}};
    return GP_OK;
}

static gp_status list_unplaced(placer *p, gp_error *err) {
    const builder *b = p->b;
    for (size_t t = 0; t < b->thing_count; t++) {
        const life *its = &b->lives[t];
        if (its->root != (int)t || its->first == NEVER || b->things[t].at.area != GP_AREA_NONE) continue;
        GP_RETURN_IF_FAILED(
            add_unplaced(p, (int)t, gp_align_up(b->things[t].bytes, GP_ALIGNMENT), its->first, its->last, err));
    }
    for (size_t o = 0; o < b->list->count; o++) {
        size_t bytes = runs(b, o) ? workspace_of(&b->list->items[o]) : 0;
        if (bytes > 0) GP_RETURN_IF_FAILED(add_unplaced(p, -1, bytes, (int64_t)o, (int64_t)o, err));
    }
    return GP_OK;
}

/* When the bytes of a thing in the saved frame are its own. A thing that nothing in this routine writes has its value
 * from before; one that may not be overwritten keeps it to the end. */
static gp_status take_saved(placer *p, gp_error *err) {
    const builder *b = p->b;
    for (size_t t = 0; t < b->thing_count; t++) {
        const gp_thing *thing = &b->things[t];
        gp_packed its = {thing->at.offset, gp_align_up(thing->bytes, GP_ALIGNMENT), b->lives[t].first, INT64_MAX};
        if (b->lives[t].root != (int)t || thing->at.area != GP_AREA_SAVED) continue;
        if (its.first == NEVER && (thing->overwritable || !p->spare->written)) continue;
        if (p->spare->written) its.first = NEVER;
        if (thing->overwritable) its.last = b->lives[t].last;
        GP_RETURN_IF_FAILED(gp_packing_take(&p->saved, its, err));
    }
    for (size_t i = 0; i < p->spare->taken_count; i++)
        GP_RETURN_IF_FAILED(gp_packing_take(&p->saved, p->spare->taken[i], err));
    return GP_OK;
}

/* From large to small; of equal ones the first comes first. */
static int by_size(const void *a, const void *b) {
    const unplaced *x = a, *y = b;
    if (x->stretch.bytes != y->stretch.bytes) return x->stretch.bytes > y->stretch.bytes ? -1 : 1;
    if (x->stretch.first != y->stretch.first) return x->stretch.first < y->stretch.first ? -1 : 1;
    return x->thing - y->thing;
}

static gp_status place_one(placer *p, unplaced *it, gp_error *err) {
    gp_address at = {GP_AREA_SAVED, 0, 0};
    bool placed = false;
    if (p->spare) GP_RETURN_IF_FAILED(gp_packing_place(&p->saved, p->spare->bytes, &it->stretch, &placed, err));
    if (!placed) {
        at.area = GP_AREA_TRANSIENT;
        GP_RETURN_IF_FAILED(gp_packing_place(&p->transient, SIZE_MAX, &it->stretch, &placed, err));
    }
    at.offset = it->stretch.offset;
    if (it->thing >= 0)
        p->b->things[it->thing].at = at;
    else
        p->workspace[it->stretch.first] = at;
    return GP_OK;
}

/* No packing into an area of its own takes less. */
static gp_status find_most_alive(const placer *p, size_t *out, gp_error *err) {
    size_t *begins = NULL, alive = 0; /* [op]: bytes that begin there, less those that ended before; wraps around */
    GP_RETURN_IF_FAILED(GP_NEW(&begins, p->b->list->count + 1, err));
    for (size_t i = 0; i < p->count; i++) {
        begins[p->items[i].stretch.first] += p->items[i].stretch.bytes;
        if (p->items[i].stretch.last < (int64_t)p->b->list->count)
            begins[p->items[i].stretch.last + 1] -= p->items[i].stretch.bytes;
    }
    for (size_t o = 0; o < p->b->list->count; o++) {
        alive += begins[o];
        if (alive > *out) *out = alive;
    }
    free(begins);
    return GP_OK;
}

static gp_status place_all(placer *p, gp_routine *out, gp_error *err) {
    size_t things = 0;
    GP_RETURN_IF_FAILED(list_unplaced(p, err));
    GP_RETURN_IF_FAILED(find_most_alive(p, &out->alive, err));
    if (p->spare) GP_RETURN_IF_FAILED(take_saved(p, err));
    if (p->count > 0) qsort(p->items, p->count, sizeof *p->items, by_size);
    for (size_t i = 0; i < p->count; i++) {
        GP_RETURN_IF_FAILED(place_one(p, &p->items[i], err));
        const gp_thing *thing = p->items[i].thing >= 0 ? &p->b->things[p->items[i].thing] : NULL;
        size_t end = p->items[i].stretch.offset + p->items[i].stretch.bytes;
        if (thing && thing->at.area == GP_AREA_TRANSIENT && end > things) things = end;
    }
    out->transient = things;
    out->workspace = p->transient.high - things;
    return GP_OK;
}

/* *workspace: of each op of the list; the caller frees it, after a failure too. */
static gp_status place(builder *b, bool unshared, const gp_spare *spare, gp_routine *out, gp_address **workspace,
                       gp_error *err) {
    placer p = {.b = b, .unshared = unshared, .spare = unshared ? NULL : spare};
    gp_status status = GP_NEW(workspace, b->list->count, err);
    p.workspace = *workspace;
    if (status == GP_OK) status = place_all(&p, out, err);
    gp_packing_fini(&p.saved);
    gp_packing_fini(&p.transient);
    free(p.items);
    return status;
}

static gp_address operand_address(const builder *b, const gp_staged_operand *operand) {
    if (operand->thing < 0) return operand->fixed;
    gp_address address = b->things[root_of(b, operand->thing)].at;
    address.offset += operand->first;
    return address;
}

static void emit(const builder *b, const gp_address *workspace, gp_routine *out) {
    for (size_t o = 0; o < b->list->count; o++) {
        if (!runs(b, o)) continue;
        const gp_staged_op *op = &b->list->items[o];
        gp_exec_op *exec = &out->ops[out->count++];
        *exec = (gp_exec_op){.prepared = op->prepared,
                             .node = op->node,
                             .beyond = op->beyond,
                             .owner = op->owner,
                             .when = op->when,
                             .exchange = op->exchange,
                             .part_count = op->part_count};
        out->exchanges += op->exchange.count > 0;
        memcpy(exec->part, op->part, sizeof exec->part);
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            exec->operand[i] = operand_address(b, &op->operand[i]);
            exec->role[i] = op->operand[i].role;
        }
        exec->workspace = workspace[o];
    }
}

gp_status gp_routine_build(const gp_staged_list *list, const bool *run, gp_thing *things, size_t thing_count,
                           bool unshared, const gp_spare *spare, gp_routine *out, gp_error *err) {
    builder b = {list, run, things, thing_count, NULL};
    gp_routine routine = {0};
    gp_address *workspace = NULL;
    gp_status status = GP_NEW(&b.lives, thing_count, err);
    if (status == GP_OK) {
        find_lives(&b);
        share_storage(&b);
        status = place(&b, unshared, spare, &routine, &workspace, err);
    }
    if (status == GP_OK) status = GP_NEW(&routine.ops, list->count, err);
    if (status == GP_OK) emit(&b, workspace, &routine);
    free(workspace);
    free(b.lives);
    if (status != GP_OK)
        gp_routine_fini(&routine);
    else
        *out = routine;
    return status;
}
