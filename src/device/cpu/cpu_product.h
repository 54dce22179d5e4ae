/* Products of matrices that one op consists of, on oneDNN's matmul. Internal to device/cpu.
 *
 * Each product is shared out among the threads of the device by rows or by columns of its result. Each part is a
 * primitive for one thread, which the device's pool runs: oneDNN's own division leaves one of two threads idle at many
 * of these sizes. All products of an op are divided alike, so that one thread writes a place of the result in the order
 * of the products, and no thread waits for another one.
 *
 * gp_cpu_products is made while planning, in any thread, belongs to the plan of its op, and is read-only then. A
 * gp_cpu_bound_products belongs to one stream.
 */
#ifndef GP_DEVICE_CPU_CPU_PRODUCT_H
#define GP_DEVICE_CPU_CPU_PRODUCT_H

#include <oneapi/dnnl/dnnl.h>

#include "device/cpu/cpu_call.h"
#include "device/cpu/cpu_division.h"

/* Where a matrix lies: from element `first` of a block; element [i, j] at i·stride[0] + j·stride[1]. Blocks are
 * numbered by the user of this header; he gives their addresses at each run. */
typedef struct gp_matrix {
    int block;
    int64_t first, stride[2];
} gp_matrix;

/* c[m,n] = a[m,k]·b[k,n], plus what c was (adds), plus a bias[n]. */
typedef struct gp_product {
    int64_t m, n, k;
    gp_matrix a, b, c;
    bool adds, biased;
} gp_product;

typedef struct gp_cpu_products gp_cpu_products;
typedef struct gp_cpu_bound_products gp_cpu_bound_products;

/* Makes the primitives. oneDNN's scratchpads, `bytes` of *scratchpad altogether, are the caller's to place in the
 * workspace. unimplemented: oneDNN has only its reference code for one of them. *out is the caller's. */
dnnl_status_t gp_cpu_products_create(const gp_product *products, int count, gp_division division, gp_cpu_products **out,
                                     size_t *scratchpad);
void gp_cpu_products_destroy(gp_cpu_products **products);

dnnl_status_t gp_cpu_products_bind(const gp_cpu_products *products, gp_cpu_bound_products **out);
void gp_cpu_products_unbind(gp_cpu_bound_products **bound);
/* What bind takes of the host's memory, about. */
size_t gp_cpu_products_bound_bytes(const gp_cpu_products *products);

/* Runs `count` products from `first` on. Addresses of the blocks by their numbers, of the bias (NULL: none), of the
 * scratchpads. */
dnnl_status_t gp_cpu_products_run(const gp_cpu_products *products, int first, int count, gp_cpu_bound_products *bound,
                                  gp_cpu_pool *pool, float *const *block, float *bias, char *scratchpad);

#endif
