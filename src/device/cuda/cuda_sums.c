#include "device/cuda/cuda_sums.h"

void gp_cuda_sum_book(gp_prepared *prepared, int64_t blocks, int64_t each) {
    if (blocks > 1) gp_op_book(prepared, (size_t)(blocks * each) * sizeof(double));
}

double *gp_cuda_sum_partial(const gp_cuda_call *call, int64_t blocks, double *out) {
    return blocks > 1 ? call->workspace : out;
}

gp_status gp_cuda_sum_combine(const gp_cuda_call *call, int64_t blocks, int64_t each, gp_operand_name out,
                              gp_error *err) {
    gp_kernel_sum_partial_args args = {
        .partial = call->workspace, .count = blocks, .each = each, .out = gp_cuda_at(call, out)};
    if (blocks <= 1) return GP_OK;
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_sum_partial, 1, GP_KERNEL_SUM_THREADS, &args, sizeof args);
    gp_cuda_reads_bytes(&launch, args.partial, (size_t)(blocks * each) * sizeof(double));
    gp_cuda_writes(&launch, call, out);
    return gp_cuda_enqueue(call, &launch, err);
}

int64_t gp_cuda_sum_blocks(gp_rows x) {
    return (x.count * x.width + GP_KERNEL_SUM_BLOCK - 1) / GP_KERNEL_SUM_BLOCK;
}

/* One launch, each block of elements to `partial`. */
static gp_status launch_sums(const gp_cuda_call *call, gp_cuda_kernel kernel, int64_t function, int64_t each,
                             double *partial, gp_error *err) {
    static const gp_operand_name read[] = {GP_NAME_X, GP_NAME_TARGET};
    gp_rows a = gp_cuda_rows(call, GP_NAME_X), b = gp_cuda_rows(call, GP_NAME_TARGET);
    bool dense = gp_rows_dense(a) && gp_rows_dense(b);
    int64_t blocks = gp_cuda_sum_blocks(a);
    gp_kernel_sum_args args = {.a = gp_cuda_view(call, GP_NAME_X),
                               .b = gp_cuda_view(call, GP_NAME_TARGET),
                               .rows = dense ? 1 : a.count,
                               .width = dense ? a.count * a.width : a.width,
                               .by_four = gp_cuda_by_four(call, read, 2),
                               .function = function,
                               .partial = partial};
    gp_cuda_launch launch = gp_cuda_launch_blocks(kernel, blocks, GP_KERNEL_SUM_THREADS, &args, sizeof args);
    gp_cuda_reads_inputs(&launch, call);
    gp_cuda_writes_bytes(&launch, args.partial, (size_t)(blocks * each) * sizeof(double));
    return gp_cuda_enqueue(call, &launch, err);
}

gp_status gp_cuda_sum_elements(const gp_cuda_call *call, gp_cuda_kernel kernel, int64_t function, int64_t each,
                               gp_operand_name out, gp_error *err) {
    int64_t blocks = gp_cuda_sum_blocks(gp_cuda_rows(call, GP_NAME_X));
    double *partial = gp_cuda_sum_partial(call, blocks, gp_cuda_at(call, out));
    GP_RETURN_IF_FAILED(launch_sums(call, kernel, function, each, partial, err));
    return gp_cuda_sum_combine(call, blocks, each, out, err);
}

/* ---- norms of gradients -------------------------------------------------------------------------------------------
 */

static void book_square_sum(gp_prepared *prepared) {
    gp_cuda_sum_book(prepared, gp_cuda_sum_blocks(gp_rows_of(&prepared->desc.operand[GP_SQUARE_SUM_X])), 1);
}

static gp_status run_square_sum(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda_sum_elements(call, GP_KERNEL_square_sum, 0, 1, GP_NAME_SUM, err);
}

const gp_cuda_op gp_cuda_square_sum = {.book = book_square_sum, .run = run_square_sum};

static gp_status prepare_square_blocks(gp_prepared *prepared, gp_error *err) {
    int64_t elements = prepared->desc.attributes.blocks.elements;
    if (elements != GP_KERNEL_SUM_BLOCK)
        return gp_fail(err, GP_UNSUPPORTED, "cuda: square_blocks has blocks of %d elements, not of %lld",
                       (int)GP_KERNEL_SUM_BLOCK, (long long)elements);
    return gp_op_prepare_plain(prepared, "cuda", err);
}

static gp_status run_square_blocks(const gp_cuda_call *call, gp_error *err) {
    return launch_sums(call, GP_KERNEL_square_sum, 0, 1, gp_cuda_at(call, GP_NAME_SUMS), err);
}

const gp_cuda_op gp_cuda_square_blocks = {.prepare = prepare_square_blocks, .run = run_square_blocks};

static gp_status run_blocks_total(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_sum_partial_args args = {.partial = gp_cuda_at(call, GP_NAME_SUMS),
                                       .count = gp_cuda_tensor(call, GP_NAME_SUMS)->dim[0],
                                       .each = 1,
                                       .out = gp_cuda_at(call, GP_NAME_SUM)};
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_sum_partial, 1, GP_KERNEL_SUM_THREADS, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_blocks_total = {.run = run_blocks_total};

static gp_status run_clip_total(const gp_cuda_call *call, gp_error *err) {
    gp_step_scalars *scalars = gp_cuda_at(call, GP_NAME_SCALARS);
    gp_kernel_clip_total_args args = {.squares = gp_cuda_at(call, GP_NAME_SQUARES),
                                      .count = gp_cuda_tensor(call, GP_NAME_SQUARES)->dim[0],
                                      .limit = call->prepared->desc.attributes.clip.max_norm,
                                      .norm = &scalars->grad_norm,
                                      .clip = &scalars->clip,
                                      .finite = &scalars->finite};
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_clip_total, 1, 1, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_clip_total = {.run = run_clip_total};
