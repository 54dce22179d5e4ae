/* Descriptions of operands in oneDNN's terms, and what else the files of cpu_onednn_plan.h need for them. Internal to
 * device/cpu. Pure functions, but for the registry of formats; any thread. */
#ifndef GP_DEVICE_CPU_CPU_ONEDNN_LAYOUT_H
#define GP_DEVICE_CPU_CPU_ONEDNN_LAYOUT_H

#include "device/cpu/cpu_onednn_plan.h"

/* Descriptions that a function returns through `out` belong to the caller. */
dnnl_status_t gp_onednn_describe(int rank, const int64_t *dim, const int64_t *stride, dnnl_memory_desc_t *out);
/* The same dimensions in a layout that oneDNN is to choose. */
dnnl_status_t gp_onednn_describe_any(const_dnnl_memory_desc_t like, dnnl_memory_desc_t *out);
int gp_onednn_rank(const_dnnl_memory_desc_t layout);
const dnnl_dim_t *gp_onednn_dims(const_dnnl_memory_desc_t layout); /* borrowed from the layout */
GP_MUST_USE gp_status gp_onednn_clone_layout(dnnl_memory_desc_t *out, const_dnnl_memory_desc_t layout, gp_error *err);
void gp_onednn_destroy_layout(dnnl_memory_desc_t *layout);

/* The weights of a convolution in a format: by number, or plain (ANY has only dimensions). */
GP_MUST_USE gp_status gp_onednn_given_weights(const gp_op_desc *desc, const gp_tensor *w, int64_t groups,
                                              gp_format format, dnnl_memory_desc_t *out, gp_error *err);
/* Adds an operand that stands in memory as `lies` and that the primitive is to see as `dense`. */
dnnl_status_t gp_onednn_add_operand(gp_onednn_plan *plan, int slot, int operand, bool written, int rank,
                                    const int64_t *dim, const int64_t *lies, const int64_t *dense);

/* Whether the name of oneDNN's implementation begins so. */
bool gp_onednn_is_named(const_dnnl_primitive_desc_t desc, const char *beginning);
/* Attributes of a product that adds to its result. */
dnnl_status_t gp_onednn_adding_attributes(dnnl_primitive_attr_t *out);

#endif
