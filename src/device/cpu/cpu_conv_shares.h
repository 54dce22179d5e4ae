/* oneDNN's own convolutions, with samples divided among the threads of the device. Internal to device/cpu.
 *
 * Each thread of the device's pool runs a primitive for one thread on its share of the samples: its helpers spin, while
 * libgomp's sleep and take 50 µs to wake. Shares differ by one sample at most, so there are one or two primitives. In a
 * gradient of weights, share 0 writes the result; each other share writes to the workspace, and is added in its order.
 *
 * gp_conv_shares is made while planning, in any thread, belongs to the plan of its op, and is read-only then. A
 * gp_bound_shares belongs to one stream; its worker runs it.
 */
#ifndef GP_DEVICE_CPU_CPU_CONV_SHARES_H
#define GP_DEVICE_CPU_CPU_CONV_SHARES_H

#include "device/cpu/cpu_onednn_plan.h"

struct gp_conv_shares;
typedef struct gp_bound_shares gp_bound_shares;

/* Samples of share `share` of `shares`; the first ones have one more. */
static inline int64_t gp_conv_share(int64_t samples, int shares, int share) {
    return samples / shares + (share < samples % shares);
}

/* The plan has input, output, a bias or none, and weights, in this order. Makes primitives of desc[0], for the larger
 * shares, and desc[1], for those with a sample less (NULL: all are equal), and books the workspace. */
GP_MUST_USE gp_status gp_conv_shares_plan(gp_prepared *prepared, gp_onednn_plan *plan,
                                          const const_dnnl_primitive_desc_t desc[2], gp_error *err);
void gp_conv_shares_destroy(struct gp_conv_shares **shares);

dnnl_status_t gp_conv_shares_bind(const struct gp_conv_shares *shares, gp_bound_shares **out);
void gp_conv_shares_unbind(gp_bound_shares **bound);
/* What bind takes of the host's memory, about. */
size_t gp_conv_shares_bound_bytes(const struct gp_conv_shares *shares);
dnnl_status_t gp_conv_shares_run(const gp_onednn_plan *plan, gp_bound_shares *bound, const gp_cpu_call *call);

#endif
