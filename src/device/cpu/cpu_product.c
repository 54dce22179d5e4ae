#include "device/cpu/cpu_product.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu_onednn_plan.h"

/* libgomp's; clang has no omp.h for it. */
extern void omp_set_num_threads(int threads);

enum { A, B, C, BIAS, SCRATCHPAD, ROLES };
static const int slots[ROLES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD};

/* A primitive for parts of one size, lying alike. */
typedef struct kernel {
    gp_product shape; /* of the part; blocks and first elements are 0 */
    dnnl_memory_desc_t layout[ROLES];
    dnnl_primitive_t primitive;
} kernel;

/* One part of one product. */
typedef struct part {
    int kernel;
    int64_t skipped; /* rows or columns before it */
} part;

struct gp_cpu_products {
    gp_product *product;
    part *part; /* [product][parts] */
    kernel *kernel;
    int count, parts, kernels;
    gp_division division;
    size_t scratchpad; /* of one part */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static dnnl_status_t describe(int64_t rows, int64_t columns, const int64_t stride[2], dnnl_memory_desc_t *out) {
    const dnnl_dims_t dims = {rows, columns}, strides = {stride[0], stride[1]};
    return dnnl_memory_desc_create_with_strides(out, 2, dims, dnnl_f32, strides);
}

static dnnl_status_t describe_all(kernel *its) {
    const gp_product *p = &its->shape;
    const int64_t bias[] = {p->n, 1};
    dnnl_status_t status = describe(p->m, p->k, p->a.stride, &its->layout[A]);
    if (status == dnnl_success) status = describe(p->k, p->n, p->b.stride, &its->layout[B]);
    if (status == dnnl_success) status = describe(p->m, p->n, p->c.stride, &its->layout[C]);
    if (status == dnnl_success && p->biased) status = describe(1, p->n, bias, &its->layout[BIAS]);
    return status;
}

static dnnl_status_t make_primitive(kernel *its) {
    dnnl_primitive_attr_t adding = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = describe_all(its);
    if (status == dnnl_success && its->shape.adds) status = gp_onednn_adding_attributes(&adding);
    if (status == dnnl_success)
        status = dnnl_matmul_primitive_desc_create(&desc, gp_onednn_engine(), its->layout[A], its->layout[B],
                                                   its->layout[BIAS], its->layout[C],
                                                   adding ? adding : gp_onednn_attributes());
    if (status == dnnl_success && gp_onednn_is_named(desc, "ref")) status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = dnnl_memory_desc_clone(&its->layout[SCRATCHPAD],
                                        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    if (status == dnnl_success) status = dnnl_primitive_create(&its->primitive, desc);
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (adding) dnnl_primitive_attr_destroy(adding);
    return status;
}

static void forget_places(gp_product *p) {
    gp_matrix *of[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++) {
        of[i]->block = 0;
        of[i]->first = 0;
    }
}

static bool same_strides(const gp_matrix *a, const gp_matrix *b) {
    return a->stride[0] == b->stride[0] && a->stride[1] == b->stride[1];
}

static bool same_kernel(const gp_product *p, const gp_product *q) {
    return p->m == q->m && p->n == q->n && p->k == q->k && p->adds == q->adds && p->biased == q->biased &&
           same_strides(&p->a, &q->a) && same_strides(&p->b, &q->b) && same_strides(&p->c, &q->c);
}

static dnnl_status_t find_kernel(gp_cpu_products *its, gp_product shape, int *out) {
    forget_places(&shape);
    for (*out = 0; *out < its->kernels; ++*out)
        if (same_kernel(&its->kernel[*out].shape, &shape)) return dnnl_success;
    kernel *made = &its->kernel[its->kernels++];
    made->shape = shape;
    dnnl_status_t status = make_primitive(made);
    if (status != dnnl_success) return status;
    size_t bytes = gp_align_up(dnnl_memory_desc_get_size(made->layout[SCRATCHPAD]), GP_ALIGNMENT);
    if (bytes > its->scratchpad) its->scratchpad = bytes;
    return dnnl_success;
}

static dnnl_status_t make_parts(gp_cpu_products *its, int product) {
    const gp_product *whole = &its->product[product];
    bool by_rows = its->division.by_rows;
    int64_t side = by_rows ? whole->m : whole->n, unit = its->division.unit, units = (side + unit - 1) / unit;
    assert(units >= its->parts);
    dnnl_status_t status = dnnl_success;
    for (int p = 0; p < its->parts && status == dnnl_success; p++) {
        int64_t begin = units * p / its->parts * unit, end = units * (p + 1) / its->parts * unit;
        if (end > side) end = side;
        gp_product shape = *whole;
        *(by_rows ? &shape.m : &shape.n) = end - begin;
        part *made = &its->part[product * its->parts + p];
        made->skipped = begin;
        status = find_kernel(its, shape, &made->kernel);
    }
    return status;
}

dnnl_status_t gp_cpu_products_create(const gp_product *products, int count, gp_division division, gp_cpu_products **out,
                                     size_t *scratchpad) {
    gp_cpu_products *its = calloc(1, sizeof *its);
    if (!its) return dnnl_out_of_memory;
    *its = (gp_cpu_products){.count = count, .parts = division.parts, .division = division};
    its->product = calloc((size_t)count, sizeof *its->product);
    its->part = calloc((size_t)count * (size_t)its->parts, sizeof *its->part);
    its->kernel = calloc((size_t)count * (size_t)its->parts, sizeof *its->kernel);
    dnnl_status_t status = its->product && its->part && its->kernel ? dnnl_success : dnnl_out_of_memory;
    if (status == dnnl_success) memcpy(its->product, products, (size_t)count * sizeof *products);
    omp_set_num_threads(1); /* oneDNN bakes the number in when it creates a primitive */
    for (int i = 0; i < count && status == dnnl_success; i++) status = make_parts(its, i);
    if (status != dnnl_success) {
        gp_cpu_products_destroy(&its);
        return status;
    }
    *scratchpad = its->scratchpad * (size_t)its->parts;
    *out = its;
    return dnnl_success;
}

void gp_cpu_products_destroy(gp_cpu_products **products) {
    gp_cpu_products *its = *products;
    if (!its) return;
    for (int k = 0; k < its->kernels; k++) {
        if (its->kernel[k].primitive) dnnl_primitive_destroy(its->kernel[k].primitive);
        for (int r = 0; r < ROLES; r++)
            if (its->kernel[k].layout[r]) dnnl_memory_desc_destroy(its->kernel[k].layout[r]);
    }
    free(its->kernel);
    free(its->part);
    free(its->product);
    free(its);
    *products = NULL;
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

/* The objects of one kernel in one thread. */
typedef struct objects {
    int count;
    dnnl_exec_arg_t argument[ROLES];
    int role[ROLES];
} objects;

struct gp_cpu_bound_products {
    int parts, kernels;
    dnnl_stream_t *stream; /* [part] */
    dnnl_status_t *status; /* [part] of the last run */
    objects *of;           /* [part][kernel] */
};

static bool has_role(const kernel *its, int role) {
    return its->layout[role] && (role != SCRATCHPAD || dnnl_memory_desc_get_size(its->layout[role]) > 0);
}

static dnnl_status_t make_objects(const kernel *its, objects *out) {
    dnnl_status_t status = dnnl_success;
    for (int r = 0; r < ROLES && status == dnnl_success; r++) {
        if (!has_role(its, r)) continue;
        dnnl_memory_t memory;
        status = dnnl_memory_create(&memory, its->layout[r], gp_onednn_engine(), DNNL_MEMORY_NONE);
        if (status != dnnl_success) break;
        out->role[out->count] = r;
        out->argument[out->count++] = (dnnl_exec_arg_t){slots[r], memory};
    }
    return status;
}

dnnl_status_t gp_cpu_products_bind(const gp_cpu_products *products, gp_cpu_bound_products **out) {
    gp_cpu_bound_products *its = calloc(1, sizeof *its);
    if (!its) return dnnl_out_of_memory;
    *its = (gp_cpu_bound_products){.parts = products->parts, .kernels = products->kernels};
    its->stream = calloc((size_t)its->parts, sizeof(dnnl_stream_t));
    its->status = calloc((size_t)its->parts, sizeof *its->status);
    its->of = calloc((size_t)its->parts * (size_t)its->kernels, sizeof *its->of);
    dnnl_status_t status = its->stream && its->status && its->of ? dnnl_success : dnnl_out_of_memory;
    for (int p = 0; p < its->parts && status == dnnl_success; p++) {
        status = dnnl_stream_create(&its->stream[p], gp_onednn_engine(), dnnl_stream_default_flags);
        for (int k = 0; k < its->kernels && status == dnnl_success; k++)
            status = make_objects(&products->kernel[k], &its->of[p * its->kernels + k]);
    }
    if (status != dnnl_success)
        gp_cpu_products_unbind(&its);
    else
        *out = its;
    return status;
}

void gp_cpu_products_unbind(gp_cpu_bound_products **bound) {
    gp_cpu_bound_products *its = *bound;
    if (!its) return;
    for (int i = 0; its->of && i < its->parts * its->kernels; i++)
        for (int a = 0; a < its->of[i].count; a++) dnnl_memory_destroy(its->of[i].argument[a].memory);
    for (int p = 0; its->stream && p < its->parts; p++)
        if (its->stream[p]) dnnl_stream_destroy(its->stream[p]);
    free(its->of);
    free(its->stream);
    free(its->status);
    free(its);
    *bound = NULL;
}

size_t gp_cpu_products_bound_bytes(const gp_cpu_products *products) {
    enum { STREAM = 256 };
    size_t memories = 0;
    for (int k = 0; k < products->kernels; k++)
        for (int r = 0; r < ROLES; r++) memories += has_role(&products->kernel[k], r);
    size_t of_part = (size_t)products->kernels * sizeof(objects) + memories * GP_ONEDNN_MEMORY + STREAM;
    return sizeof(gp_cpu_bound_products) + (size_t)products->parts * of_part;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct running {
    const gp_cpu_products *products;
    int first, end; /* of the products */
    gp_cpu_bound_products *bound;
    float *const *block;
    float *bias;
    char *scratchpad;

} running;

static void *address(const running *run, const gp_product *whole, int64_t skipped, int part_number, int role) {
    bool by_rows = run->products->division.by_rows;
    int64_t rows = by_rows ? skipped : 0, columns = by_rows ? 0 : skipped;
    switch (role) {
    case A: return run->block[whole->a.block] + whole->a.first + rows * whole->a.stride[0];
    case B: return run->block[whole->b.block] + whole->b.first + columns * whole->b.stride[1];
    case C:
        return run->block[whole->c.block] + whole->c.first + rows * whole->c.stride[0] + columns * whole->c.stride[1];
    case BIAS: return run->bias + columns;
    default: return run->scratchpad + run->products->scratchpad * (size_t)part_number;
    }
}

static dnnl_status_t run_part(const running *run, int product, int p) {
    const gp_cpu_products *its = run->products;
    const part *at = &its->part[product * its->parts + p];
    const objects *with = &run->bound->of[p * its->kernels + at->kernel];
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < with->count && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle(with->argument[i].memory,
                                             address(run, &its->product[product], at->skipped, p, with->role[i]));
    if (status != dnnl_success) return status;
    return dnnl_primitive_execute(its->kernel[at->kernel].primitive, run->bound->stream[p], with->count,
                                  with->argument);
}

static void run_parts(void *context, int64_t begin, int64_t end) {
    const running *run = context;
    omp_set_num_threads(1); /* of this thread */
    for (int p = (int)begin; p < (int)end; p++) {
        run->bound->status[p] = dnnl_success;
        for (int i = run->first; i < run->end && run->bound->status[p] == dnnl_success; i++)
            run->bound->status[p] = run_part(run, i, p);
    }
}

dnnl_status_t gp_cpu_products_run(const gp_cpu_products *products, int first, int count, gp_cpu_bound_products *bound,
                                  gp_cpu_pool *pool, float *const *block, float *bias, char *scratchpad) {
    running run = {products, first, first + count, bound, block, bias, scratchpad};
    gp_cpu_pool_for(pool, products->parts, 1, run_parts, &run);
    dnnl_status_t status = dnnl_success;
    for (int p = 0; p < products->parts && status == dnnl_success; p++) status = bound->status[p];
    return status;
}
