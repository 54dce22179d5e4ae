#include "device/cuda/cuda_move.h"
#include "device/cuda/cuda_ops.h"

/* ---- bytes as they are ----------------------------------------------------------------------------------------------
 */

/* Runs that lie one behind the other are one. */
static void join_runs(gp_kernel_copy_args *args) {
    if (args->y_pitch == args->width && args->x_pitch == args->width) {
        args->width *= args->rows;
        args->rows = 1;
    }
    if (args->rows == 1 && args->y_outer == args->width && args->x_outer == args->width) {
        args->width *= args->outer;
        args->outer = 1;
    }
}

/* Whether all that is counted in units, and has more than one place, is a multiple of `by`. */
static bool divides(const gp_kernel_copy_args *args, int64_t by) {
    if (args->width % by) return false;
    if (args->rows > 1 && (args->y_pitch % by || args->x_pitch % by)) return false;
    return args->outer == 1 || (args->y_outer % by == 0 && args->x_outer % by == 0);
}

/* Elements of args->unit bytes, together by 16 where that is possible. */
static void widen(gp_kernel_copy_args *args) {
    int64_t by = 16 / args->unit;
    if (((uintptr_t)args->y | (uintptr_t)args->x) % 16 || !divides(args, by)) return;
    args->unit = 16;
    args->width /= by;
    args->y_pitch /= by;
    args->x_pitch /= by;
    args->y_outer /= by;
    args->x_outer /= by;
}

/* `args`: in elements, without addresses. */
static gp_status copy(const gp_cuda_call *call, int y, int x, gp_kernel_copy_args args, gp_error *err) {
    args.unit = (int64_t)gp_dtype_size(call->prepared->desc.operand[y].dtype);
    args.y = call->operand[y];
    args.x = x < 0 ? NULL : call->operand[x];
    join_runs(&args);
    widen(&args);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, GP_KERNEL_copy),
                                                 args.outer * args.rows * args.width, &args, sizeof args);
    gp_cuda_writes(&launch, call, y);
    if (x >= 0) gp_cuda_reads(&launch, call, x);
    return gp_cuda_enqueue(call, &launch, err);
}

gp_status gp_cuda_copy_plain(const gp_cuda_call *call, int y, int x, gp_error *err) {
    gp_rows to = gp_cuda_rows(call, y), from = x < 0 ? to : gp_cuda_rows(call, x);
    return copy(call, y, x,
                (gp_kernel_copy_args){.outer = to.count,
                                      .rows = 1,
                                      .width = to.width,
                                      .y_outer = to.pitch,
                                      .y_pitch = to.width,
                                      .x_outer = from.pitch,
                                      .x_pitch = to.width},
                err);
}

static gp_status run_copy(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda_copy_plain(call, GP_COPY_Y, GP_COPY_X, err);
}

const gp_cuda_op gp_cuda_copy = {.run = run_copy};

static gp_status run_fill(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda_copy_plain(call, GP_FILL_Y, -1, err);
}

const gp_cuda_op gp_cuda_fill = {.run = run_fill};

/* ---- matrices that are turned ---------------------------------------------------------------------------------------
 */

gp_status gp_cuda_transpose(const gp_cuda_call *call, int y, int x, gp_kernel_transpose_args args, gp_error *err) {
    args.y = call->operand[y];
    args.x = call->operand[x];
    int64_t down = (args.rows + GP_KERNEL_TILE - 1) / GP_KERNEL_TILE;
    int64_t right = (args.columns + GP_KERNEL_TILE - 1) / GP_KERNEL_TILE;
    gp_cuda_launch launch =
        gp_cuda_launch_blocks(gp_cuda_kernel_for(call, GP_KERNEL_transpose), args.outer * down * right,
                              GP_KERNEL_TILE_THREADS, &args, sizeof args);
    gp_cuda_writes(&launch, call, y);
    gp_cuda_reads(&launch, call, x);
    return gp_cuda_enqueue(call, &launch, err);
}

/* ---- samples in PyTorch's order
 * -------------------------------------------------------------------------------------- */

/* A tensor of samples [n,h,w,c], [n,t,w] or [n,w], seen as `places` rows of `width` for each sample. */
typedef struct samples {
    int64_t count, places, width, pitch;
    bool turned; /* PyTorch has the channels first, and that is another order */
} samples;

static samples samples_of(const gp_cuda_call *call, int operand) {
    const gp_tensor *tensor = &call->prepared->desc.operand[operand];
    gp_rows rows = gp_cuda_rows(call, operand);
    samples s = {
        .count = tensor->dim[0], .places = rows.count / tensor->dim[0], .width = rows.width, .pitch = rows.pitch};
    s.turned = tensor->rank == 4 && s.places > 1 && s.width > 1;
    return s;
}

static gp_status run_flatten(const gp_cuda_call *call, gp_error *err) {
    samples from = samples_of(call, GP_FLATTEN_X);
    int64_t to = gp_cuda_rows(call, GP_FLATTEN_Y).pitch;
    if (from.turned)
        return gp_cuda_transpose(call, GP_FLATTEN_Y, GP_FLATTEN_X,
                                 (gp_kernel_transpose_args){.outer = from.count,
                                                            .rows = from.places,
                                                            .columns = from.width,
                                                            .y_outer = to,
                                                            .y_pitch = from.places,
                                                            .x_outer = from.places * from.pitch,
                                                            .x_pitch = from.pitch},
                                 err);
    return copy(call, GP_FLATTEN_Y, GP_FLATTEN_X,
                (gp_kernel_copy_args){.outer = from.count,
                                      .rows = from.places,
                                      .width = from.width,
                                      .y_outer = to,
                                      .y_pitch = from.width,
                                      .x_outer = from.places * from.pitch,
                                      .x_pitch = from.pitch},
                err);
}

const gp_cuda_op gp_cuda_flatten = {.run = run_flatten};

static gp_status run_unflatten(const gp_cuda_call *call, gp_error *err) {
    samples to = samples_of(call, GP_FLATTEN_Y);
    int64_t from = gp_cuda_rows(call, GP_FLATTEN_X).pitch;
    if (to.turned)
        return gp_cuda_transpose(call, GP_FLATTEN_Y, GP_FLATTEN_X,
                                 (gp_kernel_transpose_args){.outer = to.count,
                                                            .rows = to.width,
                                                            .columns = to.places,
                                                            .y_outer = to.places * to.pitch,
                                                            .y_pitch = to.pitch,
                                                            .x_outer = from,
                                                            .x_pitch = to.places},
                                 err);
    return copy(call, GP_FLATTEN_Y, GP_FLATTEN_X,
                (gp_kernel_copy_args){.outer = to.count,
                                      .rows = to.places,
                                      .width = to.width,
                                      .y_outer = to.places * to.pitch,
                                      .y_pitch = to.pitch,
                                      .x_outer = from,
                                      .x_pitch = to.width},
                err);
}

const gp_cuda_op gp_cuda_unflatten = {.run = run_unflatten};
