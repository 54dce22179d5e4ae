/* Bytes of x that are moved to y, as they are or as turned matrices, for the ops that do no more than that. */
#include "device/cuda/cuda_call.h"

/* ---- bytes as they are ------------------------------------------------------------------------------------------- */

/* Runs that lie one behind the other are one. */
static void join_runs(gp_kernel_move_args *args) {
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
static bool divides(const gp_kernel_move_args *args, int64_t by) {
    if (args->width % by) return false;
    if (args->rows > 1 && (args->y_pitch % by || args->x_pitch % by)) return false;
    return args->outer == 1 || (args->y_outer % by == 0 && args->x_outer % by == 0);
}

/* Elements of args->unit bytes, together by 16 where that is possible. */
static void widen(gp_kernel_move_args *args) {
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
static gp_status copy(const gp_cuda_call *call, gp_kernel_move_args args, gp_error *err) {
    args.unit = (int64_t)gp_dtype_size(gp_cuda_tensor(call, GP_NAME_Y)->dtype);
    args.y = gp_cuda_at(call, GP_NAME_Y);
    args.x = gp_cuda_at(call, GP_NAME_X);
    join_runs(&args);
    widen(&args);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, GP_KERNEL_copy),
                                                 args.outer * args.rows * args.width, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

/* y = x, both plain and of equal dimensions; without x: zeros. */
static gp_status copy_plain(const gp_cuda_call *call, gp_error *err) {
    gp_rows to = gp_cuda_rows(call, GP_NAME_Y);
    bool fills = !gp_cuda_at(call, GP_NAME_X);
    return copy(call,
                (gp_kernel_move_args){.outer = to.count,
                                      .rows = 1,
                                      .width = to.width,
                                      .y_outer = to.pitch,
                                      .y_pitch = to.width,
                                      .x_outer = fills ? to.pitch : gp_cuda_rows(call, GP_NAME_X).pitch,
                                      .x_pitch = to.width},
                err);
}

const gp_cuda_op gp_cuda_copy = {.run = copy_plain};
const gp_cuda_op gp_cuda_fill = {.run = copy_plain};

/* ---- matrices that are turned ------------------------------------------------------------------------------------ */

/* `args`: sizes and distances, without addresses. */
static gp_status transpose(const gp_cuda_call *call, gp_kernel_move_args args, gp_error *err) {
    args.y = gp_cuda_at(call, GP_NAME_Y);
    args.x = gp_cuda_at(call, GP_NAME_X);
    int64_t down = (args.rows + GP_KERNEL_TILE - 1) / GP_KERNEL_TILE;
    int64_t right = (args.width + GP_KERNEL_TILE - 1) / GP_KERNEL_TILE;
    gp_cuda_launch launch =
        gp_cuda_launch_blocks(gp_cuda_kernel_for(call, GP_KERNEL_transpose), args.outer * down * right,
                              GP_KERNEL_TILE_THREADS, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

/* ---- samples in PyTorch's order ---------------------------------------------------------------------------------- */

/* A tensor of samples [n,h,w,c], [n,t,w] or [n,w], seen as `places` rows of `width` for each sample. */
typedef struct samples {
    int64_t count, places, width, pitch;
    gp_status (*move)(const gp_cuda_call *call, gp_kernel_move_args args, gp_error *err);
    bool turned; /* PyTorch has the channels first, and that is another order */
} samples;

static samples samples_of(const gp_cuda_call *call, gp_operand_name name) {
    const gp_tensor *tensor = gp_cuda_tensor(call, name);
    gp_rows rows = gp_cuda_rows(call, name);
    samples s = {
        .count = tensor->dim[0], .places = rows.count / tensor->dim[0], .width = rows.width, .pitch = rows.pitch};
    s.turned = tensor->rank == 4 && s.places > 1 && s.width > 1;
    s.move = s.turned ? transpose : copy;
    return s;
}

static gp_status run_flatten(const gp_cuda_call *call, gp_error *err) {
    samples from = samples_of(call, GP_NAME_X);
    return from.move(call,
                     (gp_kernel_move_args){.outer = from.count,
                                           .rows = from.places,
                                           .width = from.width,
                                           .y_outer = gp_cuda_rows(call, GP_NAME_Y).pitch,
                                           .y_pitch = from.turned ? from.places : from.width,
                                           .x_outer = from.places * from.pitch,
                                           .x_pitch = from.pitch},
                     err);
}

const gp_cuda_op gp_cuda_flatten = {.run = run_flatten};

static gp_status run_unflatten(const gp_cuda_call *call, gp_error *err) {
    samples to = samples_of(call, GP_NAME_Y);
    int64_t run = to.turned ? to.places : to.width; /* of x */
    return to.move(call,
                   (gp_kernel_move_args){.outer = to.count,
                                         .rows = to.turned ? to.width : to.places,
                                         .width = run,
                                         .y_outer = to.places * to.pitch,
                                         .y_pitch = to.pitch,
                                         .x_outer = gp_cuda_rows(call, GP_NAME_X).pitch,
                                         .x_pitch = run},
                   err);
}

const gp_cuda_op gp_cuda_unflatten = {.run = run_unflatten};

/* ---- weights of convolutions from one format into another ---------------------------------------------------------
 */

static bool is_weights(const gp_tensor *t) {
    bool known = t->format == GP_FORMAT_PLAIN || t->format == GP_CUDA_FORMAT_CHANNELS_LAST;
    return known && t->rank == 4 && t->dtype == GP_F32 && gp_tensor_contiguous(t);
}

static gp_status prepare_reorder(gp_prepared *prepared, gp_error *err) {
    const gp_tensor *x = &prepared->desc.operand[GP_REORDER_X], *y = &prepared->desc.operand[GP_REORDER_Y];
    if (x->format == GP_FORMAT_PLAIN && y->format == GP_FORMAT_PLAIN) return gp_op_prepare_plain(prepared, "cuda", err);
    if (!is_weights(x) || !is_weights(y))
        return gp_fail(err, GP_UNSUPPORTED,
                       "cuda: reorder takes contiguous F32 weights of four dimensions in formats 0 and %d",
                       GP_CUDA_FORMAT_CHANNELS_LAST);
    for (int i = 0; i < 2; i++) {
        prepared->operand[i].format = prepared->desc.operand[i].format;
        prepared->operand[i].bytes = gp_tensor_bytes(&prepared->desc.operand[i]);
    }
    return GP_OK;
}

static gp_status run_reorder(const gp_cuda_call *call, gp_error *err) {
    const gp_tensor *x = &call->prepared->desc.operand[GP_REORDER_X], *y = &call->prepared->desc.operand[GP_REORDER_Y];
    if (x->format == y->format) return copy_plain(call, err);
    int64_t channels = x->dim[1], places = x->dim[2] * x->dim[3];
    int64_t rows = x->format == GP_FORMAT_PLAIN ? channels : places, columns = channels * places / rows;
    return transpose(call,
                     (gp_kernel_move_args){.outer = x->dim[0],
                                           .rows = rows,
                                           .width = columns,
                                           .y_outer = rows * columns,
                                           .y_pitch = rows,
                                           .x_outer = rows * columns,
                                           .x_pitch = columns},
                     err);
}

const gp_cuda_op gp_cuda_reorder = {.prepare = prepare_reorder, .run = run_reorder};
