/* Convolutions as products of matrices: which products each method needs, and the loops around them. Internal to
 * device/cpu. They are planned in any thread; a stream's worker runs what was bound for it.
 *
 * The weights lie by taps, [out, kh, kw, in]: for a 1x1 kernel that is the plain order. One copy of them serves the
 * forward op and both backward ops.
 *   product           1x1: the pictures themselves are the rows
 *   gathered product  the taps that each place sees, gathered into rows (im2col); backward, the rows are added up
 *   by places         a product for each place of the output and row of the kernel: no copies, and no work for padding.
 *                     Backward-data of few samples has one for each tap, and is shared out by input channels
 */
#ifndef GP_DEVICE_CPU_CPU_CONV_PRODUCTS_H
#define GP_DEVICE_CPU_CPU_CONV_PRODUCTS_H

#include "device/cpu/cpu_conv_shape.h"
#include "device/cpu/cpu_onednn_plan.h"
#include "device/cpu/cpu_product.h"

/* A description of weights [out, in, kh, kw] that lie by taps. The caller's. */
dnnl_status_t gp_conv_describe_by_taps(const gp_tensor *w, dnnl_memory_desc_t *out);

/* The plan has input, output, a bias or none, and weights, in this order. Makes the products, and books their
 * workspace. GP_UNSUPPORTED: oneDNN has no fast code for them. */
GP_MUST_USE gp_status gp_conv_products_plan(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err);
void gp_conv_products_destroy(struct gp_conv_products **products);

dnnl_status_t gp_conv_products_bind(const struct gp_conv_products *products, gp_cpu_bound_products **out);
size_t gp_conv_products_bound_bytes(const struct gp_conv_products *products);
dnnl_status_t gp_conv_products_run(const gp_onednn_plan *plan, gp_cpu_bound_products *bound, const gp_cpu_call *call);

#endif
