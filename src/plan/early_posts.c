#include "plan/early_posts.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/plan.h"

static bool is_bucket(const gp_plan *plan, const gp_instr *instr) {
    return instr->op == GP_INSTR_POST && plan->stages->collectives[instr->collective].kind == GP_COLLECTIVE_SCATTER;
}

/* The backward that completes the stage's gradients: the last one before the post. */
static size_t last_backward(const gp_program *program, size_t post) {
    size_t pc = post;
    while (pc-- > 0)
        if (program->instrs[pc].stage == program->instrs[post].stage && gp_instr_ends_backward(&program->instrs[pc]))
            return pc;
    return post;
}

static bool overlaps(const gp_address *at, size_t bytes, size_t first, size_t length) {
    return at->area == GP_AREA_FIXED && at->offset < first + length && first < at->offset + bytes;
}

/* How many ops of the routine there are up to the last one that touches the range of the stage. */
static uint32_t ops_until(const gp_routine *routine, gp_when skipped, size_t first, size_t length) {
    for (size_t o = routine->count; o-- > 0;) {
        const gp_exec_op *op = &routine->ops[o];
        if (op->when == skipped) continue;
        for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
            if (overlaps(&op->operand[i], op->prepared->operand[i].bytes, first, length)) return (uint32_t)o + 1;
    }
    return 0;
}

static double work_of(const gp_routine *routine, gp_when skipped, size_t ops) {
    double work = 0;
    for (size_t o = 0; o < ops; o++)
        if (routine->ops[o].when != skipped) work += routine->ops[o].prepared->effort * routine->ops[o].prepared->flops;
    return work;
}

static gp_status add_post(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t post,
                          gp_worker_posts *posts, gp_error *err) {
    const gp_program *program = &mini->programs->worker[worker];
    const gp_instr *instr = &program->instrs[post];
    const gp_stage_plan *stage = &plan->stage[instr->stage];
    size_t pc = last_backward(program, post);
    gp_move bucket;
    if (pc == post || !gp_instr_move(plan, mini, instr, 0, &bucket)) return GP_OK;
    const gp_routine *routine = gp_instr_routine(mini, stage, &program->instrs[pc]);
    gp_when skipped = gp_instr_skips(&program->instrs[pc]);
    uint32_t ops = ops_until(routine, skipped, bucket.offset - stage->base, bucket.bytes);
    double all = work_of(routine, skipped, routine->count);
    double share = all > 0 ? work_of(routine, skipped, ops) / all : 1;
    GP_RETURN_IF_FAILED(GP_GROW(&posts->items, &posts->capacity, posts->count + 1, err));
    posts->items[posts->count++] = (gp_early_post){(uint32_t)pc, (uint32_t)post, ops, share};
    return GP_OK;
}

static int by_place(const void *a, const void *b) {
    const gp_early_post *x = a, *y = b;
    if (x->pc != y->pc) return x->pc < y->pc ? -1 : 1;
    if (x->ops != y->ops) return x->ops < y->ops ? -1 : 1;
    return x->post < y->post ? -1 : x->post > y->post;
}

static gp_status fill(const gp_plan *plan, const gp_mini_plan *mini, gp_worker_posts *out, gp_error *err) {
    for (int w = 0; w < plan->workers; w++) {
        const gp_program *program = &mini->programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++)
            if (is_bucket(plan, &program->instrs[pc])) GP_RETURN_IF_FAILED(add_post(plan, mini, w, pc, &out[w], err));
        if (out[w].count > 0) qsort(out[w].items, out[w].count, sizeof *out[w].items, by_place);
    }
    return GP_OK;
}

gp_status gp_early_posts_create(const gp_plan *plan, const gp_mini_plan *mini, gp_worker_posts **out, gp_error *err) {
    gp_worker_posts *posts = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&posts, plan->workers, err));
    gp_status status = gp_plan_has_queues(plan) ? GP_OK : fill(plan, mini, posts, err);
    if (status == GP_OK)
        *out = posts;
    else
        gp_early_posts_destroy(&posts, plan->workers);
    return status;
}

void gp_early_posts_destroy(gp_worker_posts **posts, int workers) {
    for (int w = 0; *posts && w < workers; w++) free((*posts)[w].items);
    free(*posts);
    *posts = NULL;
}

const gp_early_post *gp_early_posts_find(const gp_worker_posts *posts, size_t pc) {
    for (size_t i = 0; i < posts->count; i++)
        if (posts->items[i].pc == pc) return &posts->items[i];
    return NULL;
}

bool gp_early_posts_have(const gp_worker_posts *posts, size_t post) {
    for (size_t i = 0; i < posts->count; i++)
        if (posts->items[i].post == post) return true;
    return false;
}
