/* What the files that make a stage's plan share: lowering its nodes, preparing ops, addresses of what is fixed.
 *
 * Internal to stage_*.c. The plan owns what comes of it; one thread while a plan is made. */
#ifndef GP_COMPILE_STAGE_INTERNAL_H
#define GP_COMPILE_STAGE_INTERNAL_H

#include "compile/stage_plan.h"

/* The lowerings of a stage's nodes for micro-batches of so many samples, of which a replica has its share. Owned by the
 * caller. `trains`: some training program meets this size, so that what training forbids is refused. */
typedef struct gp_stage_lowering {
    gp_lowering *nodes; /* node_count of the stage */
    int count;
} gp_stage_lowering;

GP_MUST_USE gp_status gp_stage_lower(const gp_stage_plan *plan, const gp_stage_request *request, int replica,
                                     int64_t micro_batch, bool trains, gp_stage_lowering *out, gp_error *err);
void gp_stage_lowering_fini(gp_stage_lowering *lowering);

static inline const gp_stage *gp_stage_of(const gp_stage_plan *plan, const gp_stage_request *request) {
    return &request->stages->stage[plan->stage];
}

/* Samples that the stage has of a micro-batch: its share, if it has other replicas. */
int64_t gp_stage_samples(const gp_stage_plan *plan, const gp_stage_request *request, int64_t micro_batch);

/* Prepares a lowered op for the stage's device, in the formats that were chosen (`chosen`), or freely. flags are added
 * to the descriptor's. */
GP_MUST_USE gp_status gp_stage_prepare(const gp_stage_plan *plan, const gp_stage_request *request, int node,
                                       int op_index, const gp_lowered_op *op, unsigned flags, bool chosen,
                                       const gp_prepared **out, gp_error *err);
/* A descriptor of the planner's own. */
GP_MUST_USE gp_status gp_stage_prepare_own(const gp_stage_plan *plan, const gp_stage_request *request,
                                           const gp_op_desc *desc, const gp_prepared **out, gp_error *err);
/* y = a + b, or y = x where b is absent, on flat tensors of `bytes` bytes. */
GP_MUST_USE gp_status gp_stage_prepare_flat(const gp_stage_plan *plan, const gp_stage_request *request, gp_op_kind kind,
                                            size_t bytes, const gp_prepared **out, gp_error *err);

/* Reorders a parameter, or what has its shape. */
GP_MUST_USE gp_status gp_stage_prepare_reorder(const gp_stage_plan *plan, const gp_stage_request *request, int param,
                                               gp_format from, gp_format to, const gp_prepared **out, gp_error *err);

/* An operand at a place in the fixed area. */
static inline gp_staged_operand gp_stage_fixed(size_t offset) {
    return (gp_staged_operand){.thing = -1, .fixed = {GP_AREA_FIXED, offset, 0}};
}
/* `bytes` bytes of a parameter in any format, one element after another, padding included. */
static inline gp_tensor gp_stage_flat_tensor(const gp_stage_request *request, size_t bytes) {
    return gp_tensor_plain(request->types.master, 1,
                           &(int64_t){(int64_t)(bytes / gp_dtype_size(request->types.master))});
}

/* Addresses in the fixed area. */
/* NONE: it is not stored in that format. */
gp_address gp_stage_param_address(const gp_stage_plan *plan, const gp_graph *graph, int node, int index,
                                  gp_format format);
/* At GP_NO_OFFSET if the gradient does not stay: until the backward gets its updates (stage_consume.c). */
gp_address gp_stage_grad_address(const gp_stage_plan *plan, const gp_graph *graph, int node, int index);
/* In the stage's list; −1: there are none. */
int gp_stage_find_stats(const gp_stage_plan *plan, int node, int index);
/* A replica's own; `all`: of all micro-batches and replicas. */
gp_address gp_stage_stats_address(const gp_stage_plan *plan, int replica, int node, int index, bool all);
gp_address gp_stage_scalars_address(const gp_stage_plan *plan);
/* Of a parameter's square. */
gp_address gp_stage_square_address(const gp_stage_plan *plan, const gp_stages *stages, const gp_param_plan *param);

/* The update of what this replica updates of one parameter, from its gradient at `grad`. `thing`: as large as the
 * master, for the gradient in the master's format; not used if it has that format already. */
GP_MUST_USE gp_status gp_stage_update(const gp_stage_plan *plan, const gp_stage_request *request,
                                      const gp_param_plan *param, gp_staged_operand grad, int thing,
                                      gp_staged_list *list, gp_error *err);

/* The sums of blocks of what this replica adds up of a parameter's gradient. */
GP_MUST_USE gp_status gp_stage_square_blocks(const gp_stage_plan *plan, const gp_stage_request *request,
                                             const gp_param_plan *param, gp_staged_list *list, gp_error *err);

/* Steps of gp_stage_plan_init. */
GP_MUST_USE gp_status gp_stage_choose_formats(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
GP_MUST_USE gp_status gp_stage_place_fixed(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
/* Once the gradients have their places. */
GP_MUST_USE gp_status gp_stage_place_shards(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
GP_MUST_USE gp_status gp_stage_place_received(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
GP_MUST_USE gp_status gp_stage_compile(gp_stage_plan *plan, const gp_stage_request *request, gp_sized *sized,
                                       gp_error *err);
/* Behind its routines. */
GP_MUST_USE gp_status gp_stage_find_users(const gp_stage_plan *plan, const gp_stage_request *request, gp_sized *sized,
                                          gp_error *err);
GP_MUST_USE gp_status gp_stage_compile_norm(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
/* Of its own shard; empty if the stage does not shard. */
GP_MUST_USE gp_status gp_stage_compile_update(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
GP_MUST_USE gp_status gp_stage_compile_refresh(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);

#endif
