/* The op dropout. */
#include <math.h>
#include <stddef.h>

#include "device/cuda/cuda_call.h"
#include "device/dropout_mask.h"

/* The least word >> 8 that gp_dropout_keeps: word·2^−24 ≥ p. Exact: p·2^24 is. */
static uint32_t threshold_of(const gp_dropout_attributes *dropout) {
    return (uint32_t)ceil(dropout->p * 0x1p24);
}

static const gp_operand_name moved[] = {GP_NAME_X, GP_NAME_Y};

static gp_kernel_dropout_args arguments(const gp_cuda_call *call) {
    const gp_dropout_attributes *dropout = &call->prepared->desc.attributes.dropout;
    const char *scalars = gp_cuda_at(call, GP_NAME_SCALARS); /* of the device: not to be read here */
    gp_rows x = gp_cuda_rows(call, GP_NAME_X);
    int64_t count = gp_cuda_tensor(call, GP_NAME_X)->dim[0];
    return (gp_kernel_dropout_args){.y = gp_cuda_view(call, GP_NAME_Y),
                                    .x = gp_cuda_view(call, GP_NAME_X),
                                    .seed = (const uint64_t *)(const void *)(scalars + offsetof(gp_step_scalars, seed)),
                                    .step = (const uint32_t *)(const void *)(scalars + offsetof(gp_step_scalars, step)),
                                    .count = count,
                                    .places = x.count / count,
                                    .width = x.width,
                                    .first_sample = call->args->first_sample,
                                    .threshold = threshold_of(dropout),
                                    .node_and_purpose = dropout->node << 8 | dropout->purpose,
                                    .scale = (float)gp_dropout_scale(dropout),
                                    .by_four = gp_cuda_by_four(call, moved, 2)};
}

/* Samples whose rows lie one behind the other are one row. */
static void join_rows(const gp_cuda_call *call, gp_kernel_dropout_args *args) {
    if (args->x.pitch != args->width || args->y.pitch != args->width) return;
    args->width *= args->places;
    args->x.pitch = args->y.pitch = args->width;
    args->places = 1;
    args->by_four = gp_cuda_aligned(call, moved, 2) && args->width % 4 == 0;
}

static gp_status run_dropout(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_dropout_args args = arguments(call);
    gp_cuda_kernel kernel = GP_KERNEL_dropout_rows;
    int64_t items;
    if (call->prepared->desc.attributes.dropout.channels) {
        kernel = GP_KERNEL_dropout_channels;
        items = args.count * args.places * ((args.width + 3) / 4);
    } else if (gp_cuda_tensor(call, GP_NAME_X)->rank == 4 && args.width > 1 && args.places > 1) {
        kernel = GP_KERNEL_dropout_pictures;
        items = args.count * ((args.places + 3) / 4) * args.width;
    } else {
        join_rows(call, &args);
        items = args.count * ((args.places * args.width + 3) / 4);
    }
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, kernel), items, &args, sizeof args);
    gp_cuda_writes(&launch, call, GP_NAME_Y);
    gp_cuda_reads(&launch, call, GP_NAME_X);
    gp_cuda_reads_bytes(&launch, args.seed, sizeof *args.seed);
    gp_cuda_reads_bytes(&launch, args.step, sizeof *args.step);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_dropout = {.run = run_dropout};
