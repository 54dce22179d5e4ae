/* Optimizers: all parameters of a stage in one launch. */
#include "device/cuda/cuda_call.h"

#include <assert.h>
#include <string.h>

static bool is_sgd(const gp_cuda_call *call) {
    assert(call->prepared->desc.kind == GP_OP_SGD || call->prepared->desc.kind == GP_OP_ADAM);
    return call->prepared->desc.kind == GP_OP_SGD;
}

/* One launch in the making. */
typedef struct batch {
    const gp_cuda_call *call; /* one of its calls: the others have the same kind, attributes, scalars and stream */
    gp_kernel_update_args args;
    uint32_t blocks;
    gp_cuda_range read[1 + GP_KERNEL_UPDATE_ENTRIES];
    gp_cuda_range write[(1 + GP_KERNEL_UPDATE_STATES) * GP_KERNEL_UPDATE_ENTRIES];
    int reads, writes;
} batch;

_Static_assert(sizeof(gp_kernel_update_args) <= GP_CUDA_MAX_ARGS, "what a launch may carry");

static void batch_begin(batch *b, const gp_cuda_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_step_scalars *scalars = gp_cuda_at(call, GP_NAME_SCALARS);
    gp_kernel_update_args *args = &b->args;
    b->call = call;
    b->blocks = 0;
    b->reads = b->writes = 0;
    b->read[b->reads++] = (gp_cuda_range){scalars, sizeof *scalars, sizeof *scalars, 1};
    args->rate = &scalars->rate;
    args->clip = &scalars->clip;
    args->finite = &scalars->finite;
    args->step = &scalars->step;
    args->entries = 0;
    if (is_sgd(call)) {
        args->decay = desc->attributes.sgd.decay;
        args->momentum = desc->attributes.sgd.momentum;
        args->nesterov = desc->attributes.sgd.nesterov;
    } else {
        args->decay = desc->attributes.adam.decay;
        args->beta[0] = desc->attributes.adam.beta1;
        args->beta[1] = desc->attributes.adam.beta2;
        args->eps = desc->attributes.adam.eps;
        args->decoupled = desc->attributes.adam.decoupled;
    }
}

static gp_status batch_launch(batch *b, gp_error *err) {
    if (b->args.entries == 0) return GP_OK;
    gp_cuda_kernel kernel = is_sgd(b->call) ? GP_KERNEL_sgd : GP_KERNEL_adam;
    gp_cuda_launch launch =
        gp_cuda_launch_blocks(kernel, b->blocks, GP_KERNEL_UPDATE_THREADS, &b->args, sizeof b->args);
    launch.read = b->read;
    launch.reads = b->reads;
    launch.write = b->write;
    launch.writes = b->writes;
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(b->call, &launch, err));
    batch_begin(b, b->call);
    return GP_OK;
}

static float *row_of(const gp_cuda_call *call, gp_operand_name name, int64_t row) {
    gp_kernel_rows rows = gp_cuda_view(call, name);
    return rows.at ? rows.at + row * rows.pitch : NULL;
}

/* `count` elements of a parameter from the beginning of one of its rows. */
static gp_status batch_add(batch *b, const gp_cuda_call *call, int64_t row, int64_t count, gp_error *err) {
    static const gp_operand_name states[][GP_KERNEL_UPDATE_STATES] = {{GP_NAME_M, GP_NAME_V}, {GP_NAME_MOMENTUM}};
    size_t bytes = (size_t)count * sizeof(float);
    if (b->args.entries == GP_KERNEL_UPDATE_ENTRIES) GP_RETURN_IF_FAILED(batch_launch(b, err));
    gp_kernel_update_entry *entry = &b->args.entry[b->args.entries++];
    *entry = (gp_kernel_update_entry){.param = row_of(call, GP_NAME_PARAM, row),
                                      .grad = row_of(call, GP_NAME_GRAD, row),
                                      .count = count,
                                      .block = b->blocks};
    uintptr_t addresses = (uintptr_t)entry->param | (uintptr_t)entry->grad;
    b->blocks += (uint32_t)((count + GP_KERNEL_UPDATE_BLOCK - 1) / GP_KERNEL_UPDATE_BLOCK);
    b->read[b->reads++] = (gp_cuda_range){entry->grad, bytes, bytes, 1};
    b->write[b->writes++] = (gp_cuda_range){entry->param, bytes, bytes, 1};
    for (int s = 0; s < GP_KERNEL_UPDATE_STATES; s++) {
        entry->state[s] = row_of(call, states[is_sgd(call)][s], row);
        addresses |= (uintptr_t)entry->state[s];
        if (entry->state[s]) b->write[b->writes++] = (gp_cuda_range){entry->state[s], bytes, bytes, 1};
    }
    entry->by_four = addresses % 16 == 0;
    return GP_OK;
}

/* Without gaps a parameter is one entry, else one for each of its rows. */
static gp_status batch_add_call(batch *b, const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_rows rows = gp_cuda_rows(call, GP_NAME_PARAM);
    bool dense = true;
    for (int i = 1; i < (int)desc->operands; i++)
        if (desc->operand[i].present) dense = dense && gp_rows_dense(gp_rows_of(&desc->operand[i]));
    if (dense) return batch_add(b, call, 0, rows.count * rows.width, err);
    for (int64_t row = 0; row < rows.count; row++) GP_RETURN_IF_FAILED(batch_add(b, call, row, rows.width, err));
    return GP_OK;
}

/* Whether one launch may do both. Attributes are compared as descriptors are: zeroed before they are filled. */
static bool alike(const gp_cuda_call *a, const gp_cuda_call *b) {
    const gp_op_desc *of_a = &a->prepared->desc, *of_b = &b->prepared->desc;
    if (of_a->kind != of_b->kind || gp_cuda_at(a, GP_NAME_SCALARS) != gp_cuda_at(b, GP_NAME_SCALARS)) return false;
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
    return memcmp(&of_a->attributes, &of_b->attributes, sizeof of_a->attributes) == 0;
}

/* The first that goes in one launch with calls[i]. */
static int first_alike(const gp_cuda_call *calls, int i) {
    int first = 0;
    while (!alike(&calls[first], &calls[i])) first++;
    return first;
}

gp_status gp_cuda_update_many(const gp_cuda_call *calls, int count, gp_error *err) {
    batch b;
    for (int i = 0; i < count; i++) {
        if (first_alike(calls, i) < i) continue;
        batch_begin(&b, &calls[i]);
        for (int k = i; k < count; k++)
            if (alike(&calls[i], &calls[k])) GP_RETURN_IF_FAILED(batch_add_call(&b, &calls[k], err));
        GP_RETURN_IF_FAILED(batch_launch(&b, err));
    }
    return GP_OK;
}

static gp_status run_update(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda_update_many(call, 1, err);
}

const gp_cuda_op gp_cuda_sgd = {.run = run_update};
const gp_cuda_op gp_cuda_adam = {.run = run_update};
