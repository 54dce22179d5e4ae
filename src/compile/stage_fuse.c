/* Groups of staged ops that devices do as one op: batch norm's application, an addition where there is one, relu; and
 * their backward. From descriptors and things alone, so that it knows no layer; after the cut, since a group is exact:
 * it has the bits of its parts, and where a cut divides it the parts simply stay.
 *
 * What lies between the parts must have one use and stay in the stage. A device that does not know the whole op keeps
 * the parts.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_uses.h"

typedef struct fuser {
    gp_stage_compiler *compiler;
    gp_staged_list *list;
    gp_thing_uses *uses; /* [thing] */
    bool *gone;          /* [op of the list] */
} fuser;

enum { NONE = -1 };

static gp_staged_op like(const gp_staged_op *op) {
    gp_staged_op whole = gp_staged_new(op->node);
    whole.when = op->when;
    whole.weight = op->weight;
    return whole;
}

/* Operand `to` of the whole is operand `from` of a part. */
static void take(gp_staged_op *whole, gp_op_desc *desc, int to, const gp_staged_op *part, int from) {
    desc->operand[to] = part->prepared->desc.operand[from];
    whole->operand[to] = part->operand[from];
}

/* *known: false where the device has no such op. */
static gp_status prepare(const fuser *f, const gp_op_desc *desc, gp_staged_op *whole, bool *known, gp_error *err) {
    gp_error refused = {0};
    gp_status status = gp_stage_prepare_own(f->compiler->plan, f->compiler->request, desc, &whole->prepared, &refused);
    *known = status == GP_OK;
    return status == GP_OK || status == GP_UNSUPPORTED ? GP_OK : gp_fail(err, status, "%s", refused.text);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The op that makes what operand `operand` reads, if no other op reads it. */
static int only_maker(const fuser *f, const gp_staged_op *op, int operand) {
    if (!gp_staged_is_whole(f->compiler, op, operand)) return NONE;
    const gp_thing_uses *its = &f->uses[op->operand[operand].thing];
    if (its->writes != 1 || its->reads != 1 || its->elsewhere || f->gone[its->writer]) return NONE;
    return its->writer;
}

static bool in_place(const gp_staged_op *op, int written, int read) {
    return op->prepared->in_place[written] >> read & 1;
}

/* The parts of a group, by number in the list; add: or NONE. `side`: where the sum reads the norm. */
typedef struct group {
    int norm, add, relu, side;
} group;

/* Its parts must be such that each can do its work in the place of the result (gp_part). */
static bool find_group(const fuser *f, int relu, group *out) {
    const gp_staged_op *ops = f->list->items;
    if (!gp_staged_is_a(&ops[relu], GP_OP_RELU_FORWARD) || !in_place(&ops[relu], GP_RELU_FORWARD_Y, GP_RELU_FORWARD_X))
        return false;
    int before = only_maker(f, &ops[relu], GP_RELU_FORWARD_X);
    *out = (group){before, NONE, relu, NONE};
    if (before == NONE) return false;
    if (gp_staged_is_a(&ops[before], GP_OP_ADD)) {
        out->add = before;
        out->norm = NONE;
        for (int side = GP_ADD_A; side <= GP_ADD_B && out->norm == NONE; side++) {
            int maker = only_maker(f, &ops[before], side);
            if (maker == NONE || !gp_staged_is_a(&ops[maker], GP_OP_NORM_APPLY) ||
                !in_place(&ops[before], GP_ADD_Y, side))
                continue;
            out->norm = maker;
            out->side = side;
        }
    }
    return out->norm != NONE && gp_staged_is_a(&ops[out->norm], GP_OP_NORM_APPLY) &&
           in_place(&ops[out->norm], GP_NORM_APPLY_Y, GP_NORM_APPLY_X);
}

_Static_assert((int)GP_NORM_APPLY_RELU_X == (int)GP_NORM_APPLY_X &&
                   (int)GP_NORM_APPLY_RELU_BETA == (int)GP_NORM_APPLY_BETA,
               "x to beta stand at the same places");

/* Where the whole has an operand of a part. What lies between the parts lies in the place of the result. */
static int8_t place_of(const gp_staged_op *whole, int result, const gp_staged_operand *operand) {
    if (operand->thing == NONE && operand->fixed.area == GP_AREA_NONE) return NONE;
    for (int i = 0; i < GP_MAX_OPERANDS; i++)
        if (i != result && gp_staged_same_address(&whole->operand[i], operand)) return (int8_t)i;
    return (int8_t)result;
}

/* `written`: what the part writes, `result`: where the whole leaves it. */
static void add_part(gp_staged_op *whole, int result, const gp_staged_op *op, int written) {
    gp_part *part = &whole->part[whole->part_count++];
    *part = (gp_part){.prepared = op->prepared, .node = op->node, .role = op->operand[written].role};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) part->operand[i] = place_of(whole, result, &op->operand[i]);
}

/* The whole stands where relu stood: all that it reads is there by then. */
static gp_status fuse_forward(const fuser *f, int relu, gp_error *err) {
    gp_staged_op *ops = f->list->items;
    group its;
    bool known;
    if (!find_group(f, relu, &its)) return GP_OK;
    gp_staged_op whole = like(&ops[relu]);
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_NORM_APPLY_RELU);
    desc.attributes.norm = ops[its.norm].prepared->desc.attributes.norm;
    for (int i = GP_NORM_APPLY_RELU_X; i <= GP_NORM_APPLY_RELU_BETA; i++) take(&whole, &desc, i, &ops[its.norm], i);
    if (its.add != NONE)
        take(&whole, &desc, GP_NORM_APPLY_RELU_ADDEND, &ops[its.add], its.side == GP_ADD_A ? GP_ADD_B : GP_ADD_A);
    take(&whole, &desc, GP_NORM_APPLY_RELU_Y, &ops[relu], GP_RELU_FORWARD_Y);
    GP_RETURN_IF_FAILED(prepare(f, &desc, &whole, &known, err));
    if (!known) return GP_OK;
    add_part(&whole, GP_NORM_APPLY_RELU_Y, &ops[its.norm], GP_NORM_APPLY_Y);
    if (its.add != NONE) add_part(&whole, GP_NORM_APPLY_RELU_Y, &ops[its.add], GP_ADD_Y);
    add_part(&whole, GP_NORM_APPLY_RELU_Y, &ops[relu], GP_RELU_FORWARD_Y);
    f->gone[its.norm] = true;
    if (its.add != NONE) f->gone[its.add] = true;
    ops[relu] = whole;
    return GP_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The next op of a kind that reads all of `thing` as its gradient. */
static int find_reader(const fuser *f, int from, gp_op_kind kind, int operand, int thing) {
    for (size_t o = (size_t)from; o < f->list->count; o++) {
        const gp_staged_op *op = &f->list->items[o];
        if (!f->gone[o] && gp_staged_is_a(op, kind) && op->operand[operand].thing == thing &&
            gp_staged_is_whole(f->compiler, op, operand))
            return (int)o;
    }
    return NONE;
}

/* The forward op that made y, where it is a norm and relu alone, of what `reduce` has for x. */
static const gp_staged_op *find_made_from(const fuser *f, int y, const gp_staged_op *reduce) {
    const gp_staged_list *forward = &f->compiler->forward;
    for (size_t o = 0; o < forward->count; o++) {
        const gp_staged_op *op = &forward->items[o];
        if (!gp_staged_is_a(op, GP_OP_NORM_APPLY_RELU) || op->operand[GP_NORM_APPLY_RELU_Y].thing != y) continue;
        const gp_op_desc *desc = &op->prepared->desc;
        bool same =
            !desc->operand[GP_NORM_APPLY_RELU_ADDEND].present &&
            desc->attributes.norm.eps == reduce->prepared->desc.attributes.norm.eps &&
            gp_staged_same_address(&op->operand[GP_NORM_APPLY_RELU_X], &reduce->operand[GP_NORM_BACKWARD_REDUCE_X]) &&
            gp_staged_same_address(&op->operand[GP_NORM_APPLY_RELU_MEAN],
                                   &reduce->operand[GP_NORM_BACKWARD_REDUCE_MEAN]) &&
            gp_staged_same_address(&op->operand[GP_NORM_APPLY_RELU_VARIANCE],
                                   &reduce->operand[GP_NORM_BACKWARD_REDUCE_VARIANCE]);
        return same ? op : NULL;
    }
    return NULL;
}

/* The ops on the gradient that relu's backward makes, by number in the list; data: or NONE. */
typedef struct chain {
    int relu, reduce, data;
} chain;

_Static_assert((int)GP_NORM_RELU_BACKWARD_REDUCE_X == (int)GP_NORM_BACKWARD_REDUCE_X &&
                   (int)GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE == (int)GP_NORM_BACKWARD_REDUCE_VARIANCE &&
                   (int)GP_NORM_RELU_BACKWARD_DATA_X == (int)GP_NORM_BACKWARD_DATA_X &&
                   (int)GP_NORM_RELU_BACKWARD_DATA_GAMMA == (int)GP_NORM_BACKWARD_DATA_GAMMA &&
                   (int)GP_NORM_RELU_BACKWARD_REDUCE_GAMMA == (int)GP_NORM_RELU_BACKWARD_DATA_GAMMA,
               "x, dy, mean, variance and gamma stand at the same places");

/* One of the two ops on x and dy, with relu's dy for its own. `made`: the forward op. */
static gp_status mask(const fuser *f, const chain *its, int part, gp_op_kind kind, const gp_staged_op *made,
                      gp_staged_op *whole, bool *known, gp_error *err) {
    const gp_staged_op *ops = f->list->items;
    bool reduces = kind == GP_OP_NORM_RELU_BACKWARD_REDUCE;
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    *whole = like(&ops[part]);
    whole->beyond = ops[its->relu].node - whole->node;
    desc.attributes.norm = ops[part].prepared->desc.attributes.norm;
    for (int i = GP_NORM_BACKWARD_REDUCE_X; i <= GP_NORM_BACKWARD_REDUCE_VARIANCE; i++)
        take(whole, &desc, i, &ops[part], i);
    take(whole, &desc, GP_NORM_RELU_BACKWARD_REDUCE_DY, &ops[its->relu], GP_RELU_BACKWARD_DY);
    take(whole, &desc, GP_NORM_RELU_BACKWARD_REDUCE_GAMMA, made, GP_NORM_APPLY_RELU_GAMMA);
    take(whole, &desc, GP_NORM_RELU_BACKWARD_REDUCE_BETA, made, GP_NORM_APPLY_RELU_BETA);
    if (reduces) {
        take(whole, &desc, GP_NORM_RELU_BACKWARD_REDUCE_SUMS, &ops[part], GP_NORM_BACKWARD_REDUCE_SUMS);
    } else {
        take(whole, &desc, GP_NORM_RELU_BACKWARD_DATA_SUMS, &ops[part], GP_NORM_BACKWARD_DATA_SUMS);
        take(whole, &desc, GP_NORM_RELU_BACKWARD_DATA_DX, &ops[part], GP_NORM_BACKWARD_DATA_DX);
    }
    return prepare(f, &desc, whole, known, err);
}

/* Only the norm needs what relu lets through: both of its passes find that from x, and it is never written. */
static gp_status fuse_alone(const fuser *f, const chain *its, const gp_staged_op *made, gp_error *err) {
    gp_staged_op *ops = f->list->items;
    gp_staged_op reduce, data;
    bool known;
    GP_RETURN_IF_FAILED(mask(f, its, its->reduce, GP_OP_NORM_RELU_BACKWARD_REDUCE, made, &reduce, &known, err));
    if (known && its->data != NONE)
        GP_RETURN_IF_FAILED(mask(f, its, its->data, GP_OP_NORM_RELU_BACKWARD_DATA, made, &data, &known, err));
    if (!known) return GP_OK;
    ops[its->reduce] = reduce;
    if (its->data != NONE) ops[its->data] = data;
    f->gone[its->relu] = true;
    return GP_OK;
}

/* The addition that makes relu's gradient of two shares, where nothing else reads the sum; else NONE. */
static int find_sum(const fuser *f, const gp_staged_op *relu) {
    int sum = only_maker(f, relu, GP_RELU_BACKWARD_DY);
    if (sum == NONE || !gp_tensor_contiguous(&relu->prepared->desc.operand[GP_RELU_BACKWARD_DY])) return NONE;
    const gp_staged_op *op = &f->list->items[sum];
    bool folds = gp_staged_is_a(op, GP_OP_ADD) && op->when == GP_WHEN_ALWAYS &&
                 gp_staged_is_whole(f->compiler, op, GP_ADD_A) && gp_staged_is_whole(f->compiler, op, GP_ADD_B) &&
                 gp_staged_is_whole(f->compiler, op, GP_ADD_Y);
    return folds ? sum : NONE;
}

/* The planner adds shares as flat tensors: all of a value lies alike. */
static void take_shares(gp_staged_op *whole, gp_op_desc *desc, const gp_staged_op *sum) {
    desc->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND] = desc->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY];
    whole->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY] = sum->operand[GP_ADD_A];
    whole->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND] = sum->operand[GP_ADD_B];
}

/* Others may want it too: it is written by the pass that finds the sums, which stands where relu's backward stood. */
static gp_status fuse_shared(const fuser *f, const chain *its, gp_error *err) {
    gp_staged_op *ops = f->list->items;
    const gp_staged_op *relu = &ops[its->relu], *reduce = &ops[its->reduce];
    gp_staged_op whole = like(reduce);
    whole.beyond = relu->node - whole.node;
    gp_op_desc desc;
    bool known;
    gp_op_desc_init(&desc, GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE);
    desc.attributes.norm = reduce->prepared->desc.attributes.norm;
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_X, reduce, GP_NORM_BACKWARD_REDUCE_X);
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y, relu, GP_RELU_BACKWARD_Y);
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY, relu, GP_RELU_BACKWARD_DY);
    int sum = find_sum(f, relu);
    if (sum != NONE) take_shares(&whole, &desc, &ops[sum]);
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN, reduce, GP_NORM_BACKWARD_REDUCE_MEAN);
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_VARIANCE, reduce, GP_NORM_BACKWARD_REDUCE_VARIANCE);
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, relu, GP_RELU_BACKWARD_DX);
    take(&whole, &desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS, reduce, GP_NORM_BACKWARD_REDUCE_SUMS);
    /* Relu's, and not the norm's, whose node this op has. It cannot be the first that is not finite: dy was before. */
    whole.operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ].role = (gp_operand_role){GP_ROLE_NONE, 0};
    GP_RETURN_IF_FAILED(prepare(f, &desc, &whole, &known, err));
    if (!known) return GP_OK;
    if (sum != NONE) {
        /* The sum can be the first that is not finite. */
        add_part(&whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, &ops[sum], GP_ADD_Y);
        add_part(&whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, relu, GP_RELU_BACKWARD_DX);
        add_part(&whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, reduce, GP_NORM_BACKWARD_REDUCE_SUMS);
        f->gone[sum] = true;
    }
    ops[its->relu] = whole;
    f->gone[its->reduce] = true;
    return GP_OK;
}

static gp_status fuse_backward(const fuser *f, int relu, gp_error *err) {
    const gp_staged_op *op = &f->list->items[relu];
    if (!gp_staged_is_a(op, GP_OP_RELU_BACKWARD) || !gp_staged_is_whole(f->compiler, op, GP_RELU_BACKWARD_DX))
        return GP_OK;
    int dz = op->operand[GP_RELU_BACKWARD_DX].thing;
    chain its = {relu, find_reader(f, relu, GP_OP_NORM_BACKWARD_REDUCE, GP_NORM_BACKWARD_REDUCE_DY, dz), NONE};
    if (its.reduce == NONE) return GP_OK;
    const gp_staged_op *reduce = &f->list->items[its.reduce];
    its.data = find_reader(f, its.reduce, GP_OP_NORM_BACKWARD_DATA, GP_NORM_BACKWARD_DATA_DY, dz);
    const gp_staged_op *made = find_made_from(f, op->operand[GP_RELU_BACKWARD_Y].thing, reduce);
    if (!made) return fuse_shared(f, &its, err);
    /* What the norm made had relu for its only user, so that its gradient has the norm's two ops. */
    assert(f->uses[dz].reads == (its.data == NONE ? 1 : 2));
    return fuse_alone(f, &its, made, err);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static gp_status fuse_list(gp_stage_compiler *compiler, gp_staged_list *list, gp_error *err) {
    fuser f = {compiler, list, NULL, NULL};
    gp_status status = GP_NEW(&f.uses, compiler->thing_count, err);
    if (status == GP_OK) status = GP_NEW(&f.gone, list->count, err);
    if (status == GP_OK) gp_thing_uses_find(compiler, list, f.uses);
    for (int o = 0; status == GP_OK && o < (int)list->count; o++)
        if (!f.gone[o]) status = list == &compiler->backward ? fuse_backward(&f, o, err) : fuse_forward(&f, o, err);
    if (status == GP_OK) gp_staged_remove(list, f.gone);
    free(f.uses);
    free(f.gone);
    return status;
}

gp_status gp_compiler_fuse(gp_stage_compiler *compiler, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_compiler_alias(compiler, err));
    GP_RETURN_IF_FAILED(fuse_list(compiler, &compiler->forward, err));
    GP_RETURN_IF_FAILED(fuse_list(compiler, &compiler->evaluate, err));
    return fuse_list(compiler, &compiler->backward, err); /* looks at what the forward has become */
}
