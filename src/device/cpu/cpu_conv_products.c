#include "device/cpu/cpu_conv_products.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu_conv_gather.h"
#include "device/cpu/cpu_onednn_plan.h"

/* Blocks of the products: the plan's arguments, and the gathered rows. */
enum { X = 0, Y = 1, ROWS = GP_ONEDNN_ARGUMENTS, BLOCKS };

/* A block that is copied first, with longer rows. */
typedef struct padding {
    gp_conv_rows_of of; /* rows 0: it is taken as it lies */
    size_t place;       /* in the workspace */
} padding;

typedef struct gp_conv_products {
    gp_conv_shape shape;
    gp_cpu_products *products;
    int count;
    bool gathers, scatters, zeroes;
    int zeroed; /* block */
    int64_t zeroed_count;
    size_t rows, scratchpad; /* places in the workspace */
    int64_t pitch;           /* of gathered rows */
    padding padded[GP_ONEDNN_ARGUMENTS];
} gp_conv_products;

dnnl_status_t gp_conv_describe_by_taps(const gp_tensor *w, dnnl_memory_desc_t *out) {
    const int64_t *dim = w->dim;
    if (dim[2] == 1 && dim[3] == 1) return gp_onednn_describe(4, dim, w->stride, out);
    return gp_onednn_describe(4, dim, (const int64_t[]){dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]}, out);
}

/* ---- which products ---------------------------------------------------------------------------------------------- */

/* A list under way, with what of the result has been written. */
typedef struct listing {
    gp_conv_shape shape;
    gp_op_kind kind;
    int weights; /* block */
    bool biased, accumulates;
    gp_product product[GP_CONV_MOST_TAPS];
    int count;
    bool zeroes; /* some product writes over a place that has, and one that has not been written */
    bool written[GP_CONV_MOST_TARGETS]; /* places of the input, or taps */
} listing;

static gp_matrix matrix(int block, int64_t first, int64_t down, int64_t right) {
    return (gp_matrix){block, first, {down, right}};
}

/* Samples [begin, end) at once: `rows` are the block of their gathered rows, or the pictures themselves. */
static void list_samples(listing *l, int rows, int64_t begin, int64_t end) {
    const gp_conv_shape *s = &l->shape;
    int64_t places = s->outputs[0] * s->outputs[1], depth = gp_conv_depth(s), out = s->out;
    int64_t count = (end - begin) * places, first = begin * places * out;
    gp_matrix in_rows = matrix(rows, 0, depth, 1), y = matrix(Y, first, out, 1), w = matrix(l->weights, 0, depth, 1);
    gp_product *p = &l->product[l->count++];
    if (l->kind == GP_OP_CONV_FORWARD)
        *p = (gp_product){count, out, depth, in_rows, matrix(l->weights, 0, 1, depth), y, false, l->biased};
    else if (l->kind == GP_OP_CONV_BACKWARD_DATA)
        *p = (gp_product){count, depth, out, y, w, in_rows, false, false};
    else
        *p = (gp_product){out, depth, count, matrix(Y, first, 1, out), in_rows, w, l->accumulates || begin > 0, false};
}

/* Whether a product that writes `count` targets from `first` on adds to what is there. Some but not all written: then
 * the result is zeroed first, and all products add. */
static bool write_targets(listing *l, int64_t first, int64_t count) {
    int64_t before = 0;
    for (int64_t i = first; i < first + count; i++) {
        before += l->written[i];
        l->written[i] = true;
    }
    if (before && before < count) l->zeroes = true;
    return before > 0;
}

/* What a place of the output sees of one line of the picture: `taps` of row `k` of the kernel. */
static void list_line(listing *l, int64_t oy, int64_t ox, int64_t k, gp_taps taps, bool first) {
    const gp_conv_shape *s = &l->shape;
    int64_t places = s->outputs[0] * s->outputs[1], inputs = s->size[0] * s->size[1], depth = gp_conv_depth(s);
    int64_t seen = taps.end - taps.begin, run = seen * s->in, n = s->n, out = s->out;
    int64_t at = (oy * s->stride[0] - s->pad[0] + k * s->dilation[0]) * s->size[1];
    at += ox * s->stride[1] - s->pad[1] + taps.begin;
    int64_t tap = k * s->kernel[1] + taps.begin;
    gp_matrix x = matrix(X, at * s->in, inputs * s->in, 1), w = matrix(l->weights, tap * s->in, depth, 1);
    gp_matrix y = matrix(Y, (oy * s->outputs[1] + ox) * out, places * out, 1);
    gp_product *p = &l->product[l->count++];
    if (l->kind == GP_OP_CONV_FORWARD)
        *p = (gp_product){n, out, run, x, matrix(l->weights, tap * s->in, 1, depth), y, !first, first && l->biased};
    else if (l->kind == GP_OP_CONV_BACKWARD_DATA)
        *p = (gp_product){n, run, out, y, w, x, write_targets(l, at, seen), false};
    else
        *p = (gp_product){out, run, n, matrix(Y, y.first, 1, places * out), x, w, write_targets(l, tap, seen), false};
}

static void list_row(listing *l, int64_t oy, int64_t ox, int64_t k, gp_taps taps, bool first) {
    if (l->kind != GP_OP_CONV_BACKWARD_DATA || !gp_conv_by_channels(&l->shape)) {
        list_line(l, oy, ox, k, taps, first);
        return;
    }
    for (int64_t tap = taps.begin; tap < taps.end; tap++) list_line(l, oy, ox, k, (gp_taps){tap, tap + 1}, first);
}

static void list_places(listing *l) {
    const gp_conv_shape *s = &l->shape;
    for (int64_t oy = 0; oy < s->outputs[0]; oy++) {
        for (int64_t ox = 0; ox < s->outputs[1]; ox++) {
            gp_taps down = gp_conv_taps(s, 0, oy), right = gp_conv_taps(s, 1, ox);
            for (int64_t k = down.begin; k < down.end; k++) list_row(l, oy, ox, k, right, k == down.begin);
        }
    }
    if (l->kind == GP_OP_CONV_FORWARD) return;
    int64_t targets = l->kind == GP_OP_CONV_BACKWARD_DATA ? s->size[0] * s->size[1] : s->kernel[0] * s->kernel[1];
    for (int64_t i = 0; i < targets; i++) l->zeroes = l->zeroes || !l->written[i];
    for (int i = 0; i < l->count; i++) l->product[i].adds = l->product[i].adds || l->zeroes || l->accumulates;
    l->zeroes = l->zeroes && !l->accumulates;
}

/* ---- padded rows ------------------------------------------------------------------------------------------------- */

static void lengthen(gp_matrix *m, int64_t floats) {
    for (int d = 0; d < 2; d++)
        if (m->stride[d] == floats) m->stride[d] += GP_CONV_PAD;
    m->first += m->first / floats * GP_CONV_PAD;
}

/* The rows of a block begin farther apart. */
static void lengthen_rows(listing *l, int block, int64_t floats) {
    for (int i = 0; i < l->count; i++) {
        if (l->product[i].a.block == block) lengthen(&l->product[i].a, floats);
        if (l->product[i].b.block == block) lengthen(&l->product[i].b, floats);
    }
}

static void pad(listing *l, int block, gp_conv_rows_of rows, gp_prepared *prepared, gp_conv_products *its) {
    size_t row = gp_size_times((size_t)(rows.floats + GP_CONV_PAD), sizeof(float));
    lengthen_rows(l, block, rows.floats);
    its->padded[block] = (padding){rows, gp_op_book(prepared, gp_size_times((size_t)rows.rows, row))};
}

static void pad_factors(listing *l, gp_conv_method method, gp_prepared *prepared, gp_conv_products *its) {
    const gp_conv_shape *s = &l->shape;
    gp_conv_pads pads = gp_conv_padded(s, l->kind, method, gp_conv_isa_now(), (int)prepared->desc.threads);
    its->pitch = gp_conv_depth(s);
    if (pads.x) pad(l, X, gp_conv_rows_of_x(s, method), prepared, its);
    if (pads.y) pad(l, Y, gp_conv_rows_of_y(s, method), prepared, its);
    if (pads.weights) pad(l, l->weights, gp_conv_rows_of_weights(s), prepared, its);
    if (pads.gathered) {
        lengthen_rows(l, ROWS, its->pitch);
        its->pitch += GP_CONV_PAD;
    }
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static void list_products(listing *l, gp_conv_method method, gp_conv_products *its) {
    const gp_conv_shape *s = &l->shape;
    if (method == GP_CONV_PLACES) {
        list_places(l);
        its->zeroes = l->zeroes;
        its->zeroed = l->kind == GP_OP_CONV_BACKWARD_DATA ? X : l->weights;
        its->zeroed_count = its->zeroed == X ? s->n * s->size[0] * s->size[1] * s->in : gp_conv_depth(s) * s->out;
        return;
    }
    int64_t count = method == GP_CONV_PRODUCT ? 1 : gp_conv_gathered_products(s);
    for (int64_t i = 0; i < count; i++)
        list_samples(l, method == GP_CONV_PRODUCT ? X : ROWS, s->n * i / count, s->n * (i + 1) / count);
    its->scatters = method == GP_CONV_GATHERED && l->kind == GP_OP_CONV_BACKWARD_DATA;
    its->gathers = method == GP_CONV_GATHERED && !its->scatters;
}

void gp_conv_products_destroy(gp_conv_products **products) {
    if (!*products) return;
    gp_cpu_products_destroy(&(*products)->products);
    free(*products);
    *products = NULL;
}

gp_status gp_conv_products_plan(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    int weights = plan->arguments - 1;
    gp_conv_products *its;
    listing *l;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    plan->products = its;
    GP_RETURN_IF_FAILED(GP_NEW(&l, 1, err));
    *l = (listing){.shape = gp_conv_shape_of(desc), .kind = desc->kind, .weights = weights, .biased = weights > 2};
    l->accumulates = desc->flags & GP_OP_ACCUMULATE;
    its->shape = l->shape;
    list_products(l, plan->method, its);
    its->count = l->count;
    pad_factors(l, plan->method, prepared, its);
    size_t scratchpad = 0;
    gp_division division = gp_conv_divide(&its->shape, desc->kind, plan->method, (int)desc->threads);
    dnnl_status_t status = gp_cpu_products_create(l->product, l->count, division, &its->products, &scratchpad);
    free(l);
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "the products", status);
    if (its->gathers || its->scatters) {
        int64_t rows = gp_conv_gathered_samples(&its->shape) * its->shape.outputs[0] * its->shape.outputs[1];
        its->rows = gp_op_book(prepared, (size_t)rows * (size_t)its->pitch * sizeof(float));
    }
    its->scratchpad = gp_op_book(prepared, scratchpad);
    return GP_OK;
}

dnnl_status_t gp_conv_products_bind(const gp_conv_products *products, gp_cpu_bound_products **out) {
    return gp_cpu_products_bind(products->products, out);
}

size_t gp_conv_products_bound_bytes(const gp_conv_products *products) {
    return gp_cpu_products_bound_bytes(products->products);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static dnnl_status_t run_gathered(const gp_conv_products *its, gp_cpu_bound_products *bound, gp_cpu_pool *pool,
                                  float *const *block, float *bias, char *scratchpad) {
    gp_conv_shape shape = its->shape; /* of the samples of one product */
    int64_t n = shape.n, picture = shape.size[0] * shape.size[1] * shape.in;
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < its->count && status == dnnl_success; i++) {
        int64_t begin = n * i / its->count;
        float *pictures = block[X] + begin * picture;
        shape.n = n * (i + 1) / its->count - begin;
        if (its->gathers) gp_conv_gather(pool, &shape, pictures, block[ROWS], its->pitch);
        status = gp_cpu_products_run(its->products, i, 1, bound, pool, block, bias, scratchpad);
        if (status == dnnl_success && its->scatters) gp_conv_scatter(pool, &shape, block[ROWS], pictures);
    }
    return status;
}

dnnl_status_t gp_conv_products_run(const gp_onednn_plan *plan, gp_cpu_bound_products *bound, const gp_cpu_call *call) {
    const gp_conv_products *its = plan->products;
    char *workspace = call->workspace, *scratchpad = workspace + its->scratchpad;
    float *block[BLOCKS] = {NULL};
    for (int i = 0; i < plan->arguments; i++) {
        const gp_onednn_argument *argument = &plan->argument[i];
        block[i] = argument->move.primitive ? (void *)(workspace + argument->stage) : call->operand[argument->operand];
    }
    block[ROWS] = (void *)(workspace + its->rows);
    for (int i = 0; i < plan->arguments; i++) {
        const padding *padded = &its->padded[i];
        if (padded->of.rows == 0) continue;
        float *copy = (void *)(workspace + padded->place);
        gp_conv_spread(call->pool, block[i], padded->of.rows, padded->of.floats, copy, padded->of.floats + GP_CONV_PAD);
        block[i] = copy;
    }
    float *bias = plan->arguments > 3 ? block[2] : NULL;
    if (its->zeroes) gp_conv_zero(call->pool, block[its->zeroed], its->zeroed_count);
    if (its->gathers || its->scatters) return run_gathered(its, bound, call->pool, block, bias, scratchpad);
    return gp_cpu_products_run(its->products, 0, its->count, bound, call->pool, block, bias, scratchpad);
}
