/* Inside the device room: the parts of gp_op_check_kind that have files of their own. Pure functions; any thread; what
 * does not fit is refused as gp_op_refuse does. */
#ifndef GP_DEVICE_OP_CHECK_PARTS_H
#define GP_DEVICE_OP_CHECK_PARTS_H

#include "device/op_check.h"

/* op_check_norms.c */
GP_MUST_USE gp_status gp_op_check_norm(const gp_op_desc *desc, gp_error *err);
GP_MUST_USE gp_status gp_op_check_norm_commit(const gp_op_desc *desc, gp_error *err);
GP_MUST_USE gp_status gp_op_check_group_norm(const gp_op_desc *desc, gp_error *err);

/* op_check_pools.c. at_x and at_y: the positions of the large and the small picture, or of their gradients. */
GP_MUST_USE gp_status gp_op_check_max_pool(const gp_op_desc *desc, gp_error *err);
GP_MUST_USE gp_status gp_op_check_pool(const gp_op_desc *desc, int at_x, int at_y, gp_error *err);
GP_MUST_USE gp_status gp_op_check_upsample(const gp_op_desc *desc, int at_x, int at_y, gp_error *err);
GP_MUST_USE gp_status gp_op_check_mean_pool(const gp_op_desc *desc, int at_x, int at_y, gp_error *err);

#endif
