#include "device/cpu/cpu_conv_shares.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/cpu_conv_gather.h"

/* libgomp's; clang has no omp.h for it. */
extern void omp_set_num_threads(int threads);

enum {
    PICTURES = 2 /* input and output: the arguments that have samples */,
    SIZES = 2,
    ROLES = GP_ONEDNN_ARGUMENTS + 1
};

/* The primitive of shares of one size. */
typedef struct kernel {
    dnnl_primitive_t primitive;
    int roles;
    int slot[ROLES];
    dnnl_memory_desc_t
        layout[ROLES]; /* of the plan's arguments in their order; then of the scratchpad, if it has any */
} kernel;

typedef struct gp_conv_shares {
    int shares, kernels, arguments;
    kernel kernel[SIZES];
    int64_t samples;
    int64_t floats[PICTURES];      /* of a sample */
    int64_t partial_floats;        /* of the weights' gradient; 0: the op is another one */
    size_t partial, partial_bytes; /* place in the workspace of share 1's gradient; distance of the next one */
    size_t scratchpad, scratchpad_bytes;
} gp_conv_shares;

static int kernel_of(const gp_conv_shares *its, int share) {
    return its->kernels > 1 && share >= its->samples % its->shares;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static dnnl_status_t add_role(kernel *its, int slot, const_dnnl_memory_desc_t layout) {
    its->slot[its->roles] = slot;
    return dnnl_memory_desc_clone(&its->layout[its->roles++], layout);
}

static dnnl_status_t make_kernel(const gp_onednn_plan *plan, const_dnnl_primitive_desc_t desc, kernel *its,
                                 size_t *scratchpad) {
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < plan->arguments && status == dnnl_success; i++) {
        int slot = plan->argument[i].slot;
        status = add_role(its, slot, dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, slot));
    }
    const_dnnl_memory_desc_t needs = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = gp_align_up(dnnl_memory_desc_get_size(needs), GP_ALIGNMENT);
    if (bytes > *scratchpad) *scratchpad = bytes;
    if (status == dnnl_success && bytes > 0) status = add_role(its, DNNL_ARG_SCRATCHPAD, needs);
    return status == dnnl_success ? dnnl_primitive_create(&its->primitive, desc) : status;
}

static int64_t floats_of_sample(const gp_tensor *picture) {
    return picture->dim[1] * picture->dim[2] * picture->dim[3];
}

gp_status gp_conv_shares_plan(gp_prepared *prepared, gp_onednn_plan *plan, const const_dnnl_primitive_desc_t desc[2],
                              gp_error *err) {
    const gp_onednn_argument *weights = &plan->argument[plan->arguments - 1];
    const gp_tensor *operand = prepared->desc.operand;
    gp_conv_shares *its;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    plan->shares = its;
    *its = (gp_conv_shares){.shares = (int)prepared->desc.threads, .arguments = plan->arguments};
    its->samples = operand[plan->argument[0].operand].dim[0];
    assert(its->samples >= its->shares);
    for (int i = 0; i < PICTURES; i++) its->floats[i] = floats_of_sample(&operand[plan->argument[i].operand]);
    dnnl_status_t status = dnnl_success;
    omp_set_num_threads(1); /* oneDNN bakes the number in when it creates a primitive */
    for (int k = 0; k < SIZES && desc[k] && status == dnnl_success; k++)
        status = make_kernel(plan, desc[k], &its->kernel[its->kernels++], &its->scratchpad_bytes);
    if (status != dnnl_success) return gp_onednn_refused(err, &prepared->desc, "the primitive", status);
    its->scratchpad = gp_op_book(prepared, gp_size_times((size_t)its->shares, its->scratchpad_bytes));
    if (!weights->written) return GP_OK;
    size_t bytes = dnnl_memory_desc_get_size(weights->wanted);
    its->partial_floats = (int64_t)(bytes / sizeof(float));
    its->partial_bytes = gp_align_up(bytes, GP_ALIGNMENT);
    its->partial = gp_op_book(prepared, gp_size_times((size_t)its->shares - 1, its->partial_bytes));
    return GP_OK;
}

void gp_conv_shares_destroy(gp_conv_shares **shares) {
    gp_conv_shares *its = *shares;
    if (!its) return;
    for (int k = 0; k < its->kernels; k++) {
        kernel *of = &its->kernel[k];
        if (of->primitive) dnnl_primitive_destroy(of->primitive);
        for (int r = 0; r < of->roles; r++) gp_onednn_destroy_layout(&of->layout[r]);
    }
    free(its);
    *shares = NULL;
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

typedef struct bound_share {
    dnnl_stream_t stream;
    dnnl_status_t status; /* of the last run */
    int count;
    dnnl_exec_arg_t argument[ROLES];
} bound_share;

struct gp_bound_shares {
    int shares;
    bound_share share[];
};

static size_t size_of(const gp_conv_shares *shares) {
    return sizeof(gp_bound_shares) + (size_t)shares->shares * sizeof(bound_share);
}

static dnnl_status_t bind_share(const kernel *with, bound_share *its) {
    dnnl_status_t status = dnnl_stream_create(&its->stream, gp_onednn_engine(), dnnl_stream_default_flags);
    for (int r = 0; r < with->roles && status == dnnl_success; r++) {
        dnnl_memory_t memory;
        status = dnnl_memory_create(&memory, with->layout[r], gp_onednn_engine(), DNNL_MEMORY_NONE);
        if (status == dnnl_success) its->argument[its->count++] = (dnnl_exec_arg_t){with->slot[r], memory};
    }
    return status;
}

dnnl_status_t gp_conv_shares_bind(const gp_conv_shares *shares, gp_bound_shares **out) {
    gp_bound_shares *its = calloc(1, size_of(shares));
    if (!its) return dnnl_out_of_memory;
    its->shares = shares->shares;
    dnnl_status_t status = dnnl_success;
    for (int s = 0; s < its->shares && status == dnnl_success; s++)
        status = bind_share(&shares->kernel[kernel_of(shares, s)], &its->share[s]);
    if (status != dnnl_success)
        gp_conv_shares_unbind(&its);
    else
        *out = its;
    return status;
}

void gp_conv_shares_unbind(gp_bound_shares **bound) {
    gp_bound_shares *its = *bound;
    if (!its) return;
    for (int s = 0; s < its->shares; s++) {
        for (int a = 0; a < its->share[s].count; a++) dnnl_memory_destroy(its->share[s].argument[a].memory);
        if (its->share[s].stream) dnnl_stream_destroy(its->share[s].stream);
    }
    free(its);
    *bound = NULL;
}

size_t gp_conv_shares_bound_bytes(const gp_conv_shares *shares) {
    enum { STREAM = 256 };
    size_t memories = 0;
    for (int s = 0; s < shares->shares; s++) memories += (size_t)shares->kernel[kernel_of(shares, s)].roles;
    return size_of(shares) + memories * GP_ONEDNN_MEMORY + (size_t)shares->shares * STREAM;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct running {
    const gp_conv_shares *shares;
    gp_bound_shares *bound;
    float *argument[GP_ONEDNN_ARGUMENTS];
    char *workspace;
} running;

static void *address(const running *run, int share, int64_t sample, int role) {
    const gp_conv_shares *its = run->shares;
    if (role < PICTURES) return run->argument[role] + sample * its->floats[role];
    if (role == its->arguments) return run->workspace + its->scratchpad + (size_t)share * its->scratchpad_bytes;
    if (role == its->arguments - 1 && its->partial_floats > 0 && share > 0)
        return run->workspace + its->partial + (size_t)(share - 1) * its->partial_bytes;
    return run->argument[role];
}

static dnnl_status_t run_share(const running *run, int share) {
    const gp_conv_shares *its = run->shares;
    const bound_share *with = &run->bound->share[share];
    int64_t sample = 0;
    for (int s = 0; s < share; s++) sample += gp_conv_share(its->samples, its->shares, s);
    dnnl_status_t status = dnnl_success;
    for (int r = 0; r < with->count && status == dnnl_success; r++)
        status = dnnl_memory_set_data_handle(with->argument[r].memory, address(run, share, sample, r));
    if (status != dnnl_success) return status;
    return dnnl_primitive_execute(its->kernel[kernel_of(its, share)].primitive, with->stream, with->count,
                                  with->argument);
}

static void run_shares(void *context, int64_t begin, int64_t end) {
    const running *run = context;
    omp_set_num_threads(1); /* of this thread */
    for (int s = (int)begin; s < (int)end; s++) run->bound->share[s].status = run_share(run, s);
}

dnnl_status_t gp_conv_shares_run(const gp_onednn_plan *plan, gp_bound_shares *bound, const gp_cpu_call *call) {
    const gp_conv_shares *its = plan->shares;
    running run = {.shares = its, .bound = bound, .workspace = call->workspace};
    for (int i = 0; i < plan->arguments; i++) {
        const gp_onednn_argument *argument = &plan->argument[i];
        void *moved = run.workspace + argument->stage;
        run.argument[i] = argument->move.primitive ? moved : call->operand[argument->operand];
    }
    gp_cpu_pool_for(call->pool, its->shares, 1, run_shares, &run);
    for (int s = 0; s < its->shares; s++)
        if (bound->share[s].status != dnnl_success) return bound->share[s].status;
    if (its->partial_floats > 0) {
        const float *partial = (const void *)(run.workspace + its->partial);
        gp_conv_add(call->pool, run.argument[its->arguments - 1], its->partial_floats, partial,
                    (int64_t)(its->partial_bytes / sizeof(float)), its->shares - 1);
    }
    return dnnl_success;
}
