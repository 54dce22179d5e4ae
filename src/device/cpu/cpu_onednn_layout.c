/* Layouts of operands as oneDNN describes them, and what its primitives are asked with. */
#include "device/cpu/cpu_onednn_plan.h"

#include <string.h>

dnnl_status_t gp_onednn_describe(int rank, const int64_t *dim, const int64_t *stride, dnnl_memory_desc_t *out) {
    dnnl_dims_t dims, strides;
    for (int d = 0; d < rank; d++) {
        dims[d] = dim[d];
        strides[d] = stride[d];
    }
    return dnnl_memory_desc_create_with_strides(out, rank, dims, dnnl_f32, strides);
}

int gp_onednn_rank(const_dnnl_memory_desc_t layout) {
    int rank = 0;
    return dnnl_memory_desc_query(layout, dnnl_query_ndims_s32, &rank) == dnnl_success ? rank : 0;
}

const dnnl_dim_t *gp_onednn_dims(const_dnnl_memory_desc_t layout) {
    static const dnnl_dims_t none = {0};
    dnnl_dims_t *dims = NULL;
    return dnnl_memory_desc_query(layout, dnnl_query_dims, (void *)&dims) == dnnl_success ? *dims : none;
}

dnnl_status_t gp_onednn_describe_any(const_dnnl_memory_desc_t like, dnnl_memory_desc_t *out) {
    return dnnl_memory_desc_create_with_tag(out, gp_onednn_rank(like), gp_onednn_dims(like), dnnl_f32,
                                            dnnl_format_tag_any);
}

/* Weights of a convolution, plain: [out, in/groups, kh, kw], with the groups as a dimension of their own. */
static dnnl_status_t describe_weights(const gp_tensor *w, int64_t groups, dnnl_memory_desc_t *out) {
    const int64_t *dim = w->dim, *stride = w->stride;
    if (groups == 1) return gp_onednn_describe(4, dim, stride, out);
    return gp_onednn_describe(
        5, (const int64_t[]){groups, dim[0] / groups, dim[1], dim[2], dim[3]},
        (const int64_t[]){dim[0] / groups * stride[0], stride[0], stride[1], stride[2], stride[3]}, out);
}

gp_status gp_onednn_clone_layout(dnnl_memory_desc_t *out, const_dnnl_memory_desc_t layout, gp_error *err) {
    if (dnnl_memory_desc_clone(out, layout) == dnnl_success) return GP_OK;
    return gp_fail(err, GP_MEMORY, "out of memory: a format of weights");
}

/* A copy of the layout that a format's number names, which must be one of weights with the dimensions of `plain`. */
static gp_status copy_numbered(const gp_op_desc *desc, gp_format format, const_dnnl_memory_desc_t plain,
                               dnnl_memory_desc_t *out, gp_error *err) {
    const_dnnl_memory_desc_t layout = NULL;
    GP_RETURN_IF_FAILED(gp_onednn_layout_of(format, &layout, err));
    int rank = gp_onednn_rank(plain);
    if (gp_onednn_rank(layout) != rank ||
        memcmp(gp_onednn_dims(layout), gp_onednn_dims(plain), (size_t)rank * sizeof(dnnl_dim_t)) != 0) {
        return gp_fail(err, GP_INTERNAL, "cpu: %s: format %u belongs to weights of other dimensions or groups",
                       gp_op_name(desc->kind), format);
    }
    return gp_onednn_clone_layout(out, layout, err);
}

void gp_onednn_destroy_layout(dnnl_memory_desc_t *layout) {
    if (*layout) dnnl_memory_desc_destroy(*layout);
    *layout = NULL;
}

gp_status gp_onednn_given_weights(const gp_op_desc *desc, const gp_tensor *w, int64_t groups, gp_format format,
                                  dnnl_memory_desc_t *out, gp_error *err) {
    dnnl_memory_desc_t plain = NULL;
    dnnl_status_t status = describe_weights(w, groups, &plain);
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "a description of the weights", status);
    if (format == GP_FORMAT_PLAIN || format == GP_FORMAT_ANY) {
        *out = plain;
        return GP_OK;
    }
    gp_status result = copy_numbered(desc, format, plain, out, err);
    gp_onednn_destroy_layout(&plain);
    return result;
}

bool gp_onednn_is_named(const_dnnl_primitive_desc_t desc, const char *beginning) {
    const char *name = NULL;
    dnnl_status_t status = dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return status == dnnl_success && name && strncmp(name, beginning, strlen(beginning)) == 0;
}

dnnl_status_t gp_onednn_adding_attributes(dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t adds = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&adds);
    if (status == dnnl_success) status = dnnl_post_ops_append_sum(adds, 1.0F, 0, dnnl_f32);
    if (status == dnnl_success) status = dnnl_primitive_attr_clone(&attributes, gp_onednn_attributes());
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, adds);
    if (adds) dnnl_post_ops_destroy(adds);
    if (status == dnnl_success)
        *out = attributes;
    else if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}
