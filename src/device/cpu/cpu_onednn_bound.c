/* Bound ops of oneDNN: memory objects made once, given addresses at each run. */
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/cpu_conv_products.h"
#include "device/cpu/cpu_conv_shares.h"
#include "device/cpu/cpu_onednn.h"
#include "device/cpu/cpu_onednn_plan.h"

/* libgomp's; clang has no omp.h for it. */
extern void omp_set_num_threads(int threads);

enum { WORKSPACE = -1, MOST_ARGUMENTS = GP_ONEDNN_ARGUMENTS + 1 };

/* One primitive with its arguments, the scratchpad among them. */
typedef struct execution {
    dnnl_primitive_t primitive;
    int threads, count;
    dnnl_exec_arg_t argument[MOST_ARGUMENTS];
    struct source {
        int operand;   /* whose address the argument gets; WORKSPACE */
        size_t offset; /* in the workspace */
    } source[MOST_ARGUMENTS];
} execution;

/* In order: moves of operands that are read, the op, moves of operands that are written. */
struct gp_bound {
    gp_cpu_bound_products *products; /* of an op that has them */
    gp_bound_shares *shares;         /* the same */
    int reads;                       /* moves of operands that are read: they come first */
    int count;
    execution execution[];
};

/* Moves of the plan. */
static int count_moves(const gp_onednn_plan *plan) {
    int count = 0;
    for (int i = 0; i < plan->arguments; i++) count += plan->argument[i].move.primitive != NULL;
    return count;
}

static dnnl_status_t add(execution *e, int slot, const_dnnl_memory_desc_t layout, struct source source) {
    dnnl_memory_t memory;
    dnnl_status_t status = dnnl_memory_create(&memory, layout, gp_onednn_engine(), DNNL_MEMORY_NONE);
    if (status != dnnl_success) return status;
    e->source[e->count] = source;
    e->argument[e->count++] = (dnnl_exec_arg_t){slot, memory};
    return dnnl_success;
}

static bool has_scratchpad(const gp_onednn_step *step) {
    return dnnl_memory_desc_get_size(step->scratchpad) > 0;
}

static dnnl_status_t bind_step(gp_bound *bound, const gp_onednn_step *step, execution **out) {
    execution *e = *out = &bound->execution[bound->count++];
    e->primitive = step->primitive;
    e->threads = step->threads;
    if (!has_scratchpad(step)) return dnnl_success;
    return add(e, DNNL_ARG_SCRATCHPAD, step->scratchpad, (struct source){WORKSPACE, 0});
}

static dnnl_status_t bind_main(gp_bound *bound, const gp_onednn_plan *plan) {
    execution *e;
    bound->reads = bound->count;
    if (plan->products) return gp_conv_products_bind(plan->products, &bound->products);
    if (plan->shares) return gp_conv_shares_bind(plan->shares, &bound->shares);
    dnnl_status_t status = bind_step(bound, &plan->main, &e);
    for (int i = 0; i < plan->arguments && status == dnnl_success; i++) {
        const gp_onednn_argument *its = &plan->argument[i];
        struct source source = {its->move.primitive ? WORKSPACE : its->operand, its->stage};
        status = add(e, its->slot, its->wanted, source);
    }
    return status;
}

static dnnl_status_t bind_moves(gp_bound *bound, const gp_onednn_plan *plan, bool written) {
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < plan->arguments && status == dnnl_success; i++) {
        const gp_onednn_argument *its = &plan->argument[i];
        if (!its->move.primitive || its->written != written) continue;
        execution *e;
        status = bind_step(bound, &its->move, &e);
        int given = written ? DNNL_ARG_TO : DNNL_ARG_FROM, wanted = written ? DNNL_ARG_FROM : DNNL_ARG_TO;
        if (status == dnnl_success) status = add(e, given, its->given, (struct source){its->operand, 0});
        if (status == dnnl_success) status = add(e, wanted, its->wanted, (struct source){WORKSPACE, its->stage});
    }
    return status;
}

void gp_cpu_onednn_unbind(gp_bound *bound) {
    for (int i = 0; i < bound->count; i++)
        for (int a = 0; a < bound->execution[i].count; a++) dnnl_memory_destroy(bound->execution[i].argument[a].memory);
    gp_cpu_products_unbind(&bound->products);
    gp_conv_shares_unbind(&bound->shares);
    free(bound);
}

static size_t size_of(const gp_onednn_plan *plan) {
    return sizeof(gp_bound) + (size_t)(1 + count_moves(plan)) * sizeof(execution);
}

size_t gp_cpu_onednn_bound_bytes(const gp_prepared *prepared) {
    const gp_onednn_plan *plan = prepared->context;
    if (!plan) return 0;
    size_t memories = plan->products || plan->shares ? 0 : (size_t)plan->arguments + has_scratchpad(&plan->main);
    for (int i = 0; i < plan->arguments; i++)
        if (plan->argument[i].move.primitive) memories += 2 + has_scratchpad(&plan->argument[i].move);
    size_t divided = plan->products ? gp_conv_products_bound_bytes(plan->products) : 0;
    if (plan->shares) divided = gp_conv_shares_bound_bytes(plan->shares);
    return size_of(plan) + memories * GP_ONEDNN_MEMORY + divided;
}

gp_status gp_cpu_onednn_bind(const gp_prepared *prepared, gp_bound **out, gp_error *err) {
    const gp_onednn_plan *plan = prepared->context;
    gp_bound *bound = NULL;
    *out = NULL;
    if (!plan) return GP_OK;
    GP_RETURN_IF_FAILED(gp_new_array((void **)&bound, size_of(plan), 1, err));
    dnnl_status_t status = bind_moves(bound, plan, false);
    if (status == dnnl_success) status = bind_main(bound, plan);
    if (status == dnnl_success) status = bind_moves(bound, plan, true);
    if (status != dnnl_success) {
        gp_cpu_onednn_unbind(bound);
        return gp_onednn_refused(err, &prepared->desc, "a description of an operand", status);
    }
    *out = bound;
    return GP_OK;
}

static dnnl_status_t execute(const execution *e, const gp_cpu_call *call) {
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < e->count && status == dnnl_success; i++) {
        struct source source = e->source[i];
        void *at =
            source.operand == WORKSPACE ? (char *)call->workspace + source.offset : call->operand[source.operand];
        status = dnnl_memory_set_data_handle(e->argument[i].memory, at);
    }
    if (status != dnnl_success) return status;
    return dnnl_primitive_execute(e->primitive, call->onednn, e->count, e->argument);
}

static dnnl_status_t run_all(const gp_cpu_call *call) {
    const gp_onednn_plan *plan = call->prepared->context;
    const gp_bound *bound = call->bound;
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i <= bound->count && status == dnnl_success; i++) {
        if (i == bound->reads && plan->products) status = gp_conv_products_run(plan, bound->products, call);
        if (i == bound->reads && plan->shares) status = gp_conv_shares_run(plan, bound->shares, call);
        if (i == bound->count || status != dnnl_success) break;
        /* The number belongs to the calling thread, and one thread may run ops of several devices (tests do). */
        omp_set_num_threads(bound->execution[i].threads);
        status = execute(&bound->execution[i], call);
    }
    return status == dnnl_success ? dnnl_stream_wait(call->onednn) : status;
}

gp_status gp_cpu_onednn_run(const gp_cpu_call *call, gp_error *err) {
    dnnl_status_t status = run_all(call);
    if (status == dnnl_success) return GP_OK;
    return gp_fail(err, GP_DEVICE, "cpu: %s: oneDNN failed while running: %s", gp_op_name(call->prepared->desc.kind),
                   dnnl_status2str(status));
}
