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

bool gp_early_sums_fit(const gp_stages *stages, const gp_instr *pass) {
    if (!gp_instr_ends_backward(pass)) return false;
    return pass->op == GP_INSTR_BACKWARD_WEIGHT || stages->stage[pass->stage].grad_out.count == 0;
}

static bool is_pass(const gp_instr *instr) {
    return instr->op == GP_INSTR_FORWARD || instr->op == GP_INSTR_RECOMPUTE || gp_instr_is_backward(instr);
}

/* The nearest instruction of the reduce's stage before or after it that joins the collective; SIZE_MAX: there is none.
 */
static size_t find_joining(const gp_program *program, size_t reduce, gp_instr_op op, size_t collective) {
    bool forward = op == GP_INSTR_POST;
    for (size_t pc = reduce; forward ? pc < program->count : pc != SIZE_MAX; pc += forward ? 1 : SIZE_MAX) {
        const gp_instr *its = &program->instrs[pc];
        if (its->op == op && its->stage == program->instrs[reduce].stage && its->collective == collective) return pc;
    }
    return SIZE_MAX;
}

/* The place of the backward that posts the bucket; SIZE_MAX: none does. */
static size_t posting_pass(const gp_program *program, const gp_worker_posts *posts, const gp_instr *reduce) {
    for (size_t i = 0; i < posts->count; i++) {
        const gp_instr *post = &program->instrs[posts->items[i].post];
        if (post->stage == reduce->stage && post->collective == reduce->collective) return posts->items[i].pc;
    }
    return SIZE_MAX;
}

static gp_status add_sums(const gp_plan *plan, const gp_program *program, gp_worker_posts *posts, gp_error *err) {
    size_t last = 0, fits = 0; /* passes */
    for (size_t pc = 0; pc < program->count; pc++) {
        if (is_pass(&program->instrs[pc])) last = pc;
        if (gp_early_sums_fit(plan->stages, &program->instrs[pc])) fits = pc;
    }
    for (size_t pc = last; pc < program->count; pc++) {
        const gp_instr *reduce = &program->instrs[pc];
        if (reduce->op != GP_INSTR_REDUCE) continue;
        if (plan->stages->collectives[reduce->collective].transport != GP_TRANSPORT_MPI) continue;
        size_t posted = posting_pass(program, posts, reduce);
        size_t collect = find_joining(program, pc, GP_INSTR_COLLECT, reduce->collective), post = 0;
        if (posted > fits || collect < last) continue;
        size_t exchange = gp_stages_exchange(plan->stages, reduce->collective);
        if (exchange != reduce->collective) post = find_joining(program, pc, GP_INSTR_POST, exchange);
        GP_RETURN_IF_FAILED(GP_GROW(&posts->sums, &posts->sum_capacity, posts->sum_count + 1, err));
        posts->sums[posts->sum_count++] = (gp_early_sum){(uint32_t)collect, (uint32_t)pc, (uint32_t)post};
    }
    return GP_OK;
}

static gp_status fill(const gp_plan *plan, const gp_mini_plan *mini, gp_worker_posts *out, gp_error *err) {
    for (int w = 0; w < plan->workers; w++) {
        const gp_program *program = &mini->programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++)
            if (is_bucket(plan, &program->instrs[pc])) GP_RETURN_IF_FAILED(add_post(plan, mini, w, pc, &out[w], err));
        if (out[w].count == 0) continue;
        qsort(out[w].items, out[w].count, sizeof *out[w].items, by_place);
        if (!gp_plan_has_queues(plan)) GP_RETURN_IF_FAILED(add_sums(plan, program, &out[w], err));
    }
    return GP_OK;
}

gp_status gp_early_posts_create(const gp_plan *plan, const gp_mini_plan *mini, gp_worker_posts **out, gp_error *err) {
    gp_worker_posts *posts = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&posts, plan->workers, err));
    gp_status status = fill(plan, mini, posts, err);
    if (status == GP_OK)
        *out = posts;
    else
        gp_early_posts_destroy(&posts, plan->workers);
    return status;
}

void gp_early_posts_destroy(gp_worker_posts **posts, int workers) {
    for (int w = 0; *posts && w < workers; w++) {
        free((*posts)[w].items);
        free((*posts)[w].sums);
    }
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

bool gp_early_sums_have(const gp_worker_posts *posts, size_t done, size_t pc) {
    for (size_t i = 0; i < done; i++)
        if (posts->sums[i].collect == pc || posts->sums[i].reduce == pc || (posts->sums[i].post == pc && pc > 0))
            return true;
    return false;
}
