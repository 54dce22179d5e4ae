/* What the files of cpu_onednn.h share: cpu_onednn_ops.c and cpu_onednn_conv.c say what each op asks of oneDNN,
 * cpu_onednn_plan.c makes it, cpu_onednn_bound.c binds it and runs it. Internal to device/cpu. A plan belongs to the
 * prepared op that it stands in and is read-only once made: any thread may run it.
 */
#ifndef GP_DEVICE_CPU_CPU_ONEDNN_PLAN_H
#define GP_DEVICE_CPU_CPU_ONEDNN_PLAN_H

#include <oneapi/dnnl/dnnl.h>

#include "device/cpu/cpu_call.h"
#include "device/cpu/cpu_conv_choice.h"

enum { GP_ONEDNN_ARGUMENTS = 4 };
enum { GP_ONEDNN_MEMORY = 832 }; /* bytes of a memory object, as malloc gives them */

/* A primitive and its scratchpad, which lies at the beginning of the workspace. */
typedef struct gp_onednn_step {
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t scratchpad;
    int threads; /* of libgomp, when it is made and when it runs */
} gp_onednn_step;

typedef struct gp_onednn_argument {
    int slot; /* DNNL_ARG_… */
    int operand;
    bool written;
    dnnl_memory_desc_t given;  /* as the operand lies in memory */
    dnnl_memory_desc_t wanted; /* as the primitive takes it */
    gp_onednn_step move;       /* between the two, where they differ */
    size_t stage;              /* place in the workspace of the operand as wanted, where they differ */
} gp_onednn_argument;

struct gp_conv_products;
struct gp_conv_shares;

/* The context of a prepared op. */
typedef struct gp_onednn_plan {
    gp_onednn_step main;               /* without a primitive: products or shares are in its place */
    struct gp_conv_products *products; /* of cpu_conv_products.h; NULL: none */
    struct gp_conv_shares *shares;     /* of cpu_conv_shares.h; NULL: none */
    gp_conv_method method;             /* of a convolution */
    int arguments;
    gp_onednn_argument argument[GP_ONEDNN_ARGUMENTS];
} gp_onednn_plan;

/* The process's engine, and attributes that say that the scratchpad comes from the caller. Valid once gp_onednn_start
 * has succeeded, as it has where there is a plan. */
GP_MUST_USE gp_status gp_onednn_start(gp_error *err);
dnnl_engine_t gp_onednn_engine(void);
const_dnnl_primitive_attr_t gp_onednn_attributes(void);

/* Begins the plan of a prepared op: checks dtypes, states plain storage. Where anything fails after it,
 * gp_cpu_onednn_release frees what there is. */
GP_MUST_USE gp_status gp_onednn_plan_start(gp_prepared *prepared, gp_onednn_plan **out, gp_error *err);
/* The plan takes both descriptors over, NULL included. */
void gp_onednn_plan_add(gp_onednn_plan *plan, int slot, int operand, bool written, dnnl_memory_desc_t given,
                        dnnl_memory_desc_t wanted);
/* Adds an operand that stands in memory as `lies` and that the primitive is to see as `dense`. */
dnnl_status_t gp_onednn_add_operand(gp_onednn_plan *plan, int slot, int operand, bool written, int rank,
                                    const int64_t *dim, const int64_t *lies, const int64_t *dense);
/* Fills in the plan of a prepared op, which is released where that fails. */
typedef gp_status gp_onednn_planner(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err);
GP_MUST_USE gp_status gp_onednn_plan_make(gp_prepared *prepared, gp_onednn_planner *fill_in, gp_error *err);
/* Says how many threads of libgomp the main primitive has; all of the device's, if this is not called. */
void gp_onednn_plan_threads(gp_onednn_plan *plan, int threads);
/* Threads that reorder so many bytes: one, if that takes no longer than to wake another one. */
int gp_onednn_reorder_threads(const gp_op_desc *desc, size_t bytes);
/* Makes the primitives and lays out the workspace. desc NULL: the plan has no main primitive. */
GP_MUST_USE gp_status gp_onednn_plan_finish(gp_prepared *prepared, const_dnnl_primitive_desc_t desc, gp_error *err);

/* The number of a layout of weights; equal layouts, equal numbers. */
GP_MUST_USE gp_status gp_onednn_format_of(const_dnnl_memory_desc_t layout, gp_format *out, gp_error *err);
/* The layout of a number; borrowed from the registry, to the end of the process. */
GP_MUST_USE gp_status gp_onednn_layout_of(gp_format format, const_dnnl_memory_desc_t *out, gp_error *err);

/* "cpu: conv_forward of [2, 7, 7, 3] and [5, 3, 3, 3]: oneDNN could not make …: unimplemented". */
GP_MUST_USE gp_status gp_onednn_refused(gp_error *err, const gp_op_desc *desc, const char *what, dnnl_status_t status);

/* ---- descriptions of operands in oneDNN's terms: cpu_onednn_layout.c ----------------------------------------------
 */

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
/* Whether the name of oneDNN's implementation begins so. */
bool gp_onednn_is_named(const_dnnl_primitive_desc_t desc, const char *beginning);
/* Attributes of a product that adds to its result. */
dnnl_status_t gp_onednn_adding_attributes(dnnl_primitive_attr_t *out);

#endif
