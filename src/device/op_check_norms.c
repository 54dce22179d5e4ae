#include <math.h>

#include "device/op_check_parts.h"
#include "device/op_expect.h"

static gp_status check_norm_attributes(const gp_op_desc *desc, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    if (!(norm->eps >= 0) || !isfinite(norm->eps)) {
        return gp_op_refuse(desc, err, "eps is %g, which must be at least 0", norm->eps);
    }
    if (!(norm->momentum >= 0 && norm->momentum <= 1)) {
        return gp_op_refuse(desc, err, "momentum is %g, which must be 0 to 1", norm->momentum);
    }
    return GP_OK;
}

/* Every operand of the ops on rows is like x, or a vector over its channels, or a pair of these; statistics are three.
 */
gp_status gp_op_check_norm(const gp_op_desc *desc, gp_error *err) {
    static const struct {
        gp_op_kind kind;
        int same[3], vector[4], pair;
    } table[] = {
        {GP_OP_NORM_STATISTICS,
         {GP_OP_ABSENT, GP_OP_ABSENT, GP_OP_ABSENT},
         {GP_OP_ABSENT, GP_OP_ABSENT, GP_OP_ABSENT, GP_OP_ABSENT},
         GP_NORM_STATISTICS_STATS},
        {GP_OP_NORM_APPLY,
         {GP_NORM_APPLY_Y, GP_OP_ABSENT, GP_OP_ABSENT},
         {GP_NORM_APPLY_MEAN, GP_NORM_APPLY_VARIANCE, GP_NORM_APPLY_GAMMA, GP_NORM_APPLY_BETA},
         GP_OP_ABSENT},
        {GP_OP_NORM_BACKWARD_REDUCE,
         {GP_NORM_BACKWARD_REDUCE_DY, GP_OP_ABSENT, GP_OP_ABSENT},
         {GP_NORM_BACKWARD_REDUCE_MEAN, GP_NORM_BACKWARD_REDUCE_VARIANCE, GP_OP_ABSENT, GP_OP_ABSENT},
         GP_NORM_BACKWARD_REDUCE_SUMS},
        {GP_OP_NORM_BACKWARD_DATA,
         {GP_NORM_BACKWARD_DATA_DY, GP_NORM_BACKWARD_DATA_DX, GP_OP_ABSENT},
         {GP_NORM_BACKWARD_DATA_MEAN, GP_NORM_BACKWARD_DATA_VARIANCE, GP_NORM_BACKWARD_DATA_GAMMA, GP_OP_ABSENT},
         GP_NORM_BACKWARD_DATA_SUMS},
        {GP_OP_NORM_APPLY_RELU,
         {GP_NORM_APPLY_RELU_ADDEND, GP_NORM_APPLY_RELU_Y, GP_OP_ABSENT},
         {GP_NORM_APPLY_RELU_MEAN, GP_NORM_APPLY_RELU_VARIANCE, GP_NORM_APPLY_RELU_GAMMA, GP_NORM_APPLY_RELU_BETA},
         GP_OP_ABSENT},
        {GP_OP_NORM_RELU_BACKWARD_REDUCE,
         {GP_NORM_RELU_BACKWARD_REDUCE_DY, GP_OP_ABSENT, GP_OP_ABSENT},
         {GP_NORM_RELU_BACKWARD_REDUCE_MEAN, GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE, GP_NORM_RELU_BACKWARD_REDUCE_GAMMA,
          GP_NORM_RELU_BACKWARD_REDUCE_BETA},
         GP_NORM_RELU_BACKWARD_REDUCE_SUMS},
        {GP_OP_NORM_RELU_BACKWARD_DATA,
         {GP_NORM_RELU_BACKWARD_DATA_DY, GP_NORM_RELU_BACKWARD_DATA_DX, GP_OP_ABSENT},
         {GP_NORM_RELU_BACKWARD_DATA_MEAN, GP_NORM_RELU_BACKWARD_DATA_VARIANCE, GP_NORM_RELU_BACKWARD_DATA_GAMMA,
          GP_NORM_RELU_BACKWARD_DATA_BETA},
         GP_NORM_RELU_BACKWARD_DATA_SUMS},
        {GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE,
         {GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ},
         {GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN, GP_NORM_ADD_RELU_BACKWARD_REDUCE_VARIANCE, GP_OP_ABSENT, GP_OP_ABSENT},
         GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS},
    };
    GP_RETURN_IF_FAILED(check_norm_attributes(desc, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, 0, 2, 4, err));
    int64_t width = gp_op_last_dim(&desc->operand[0]);
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        if (table[t].kind != desc->kind) continue;
        for (int i = 0; i < 3; i++) {
            if (table[t].same[i] != GP_OP_ABSENT)
                GP_RETURN_IF_FAILED(gp_op_expect_same(desc, table[t].same[i], 0, err));
        }
        for (int i = 0; i < 4; i++) {
            if (table[t].vector[i] != GP_OP_ABSENT)
                GP_RETURN_IF_FAILED(gp_op_expect_vector(desc, table[t].vector[i], width, err));
        }
        if (table[t].pair == GP_OP_ABSENT) continue;
        int64_t rows = desc->kind == GP_OP_NORM_STATISTICS ? 3 : 2;
        GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, table[t].pair, 2, (const int64_t[]){rows, width}, err));
    }
    return GP_OK;
}

gp_status gp_op_check_norm_commit(const gp_op_desc *desc, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    const gp_tensor *stats = &desc->operand[GP_NORM_COMMIT_STATS];
    GP_RETURN_IF_FAILED(check_norm_attributes(desc, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, GP_NORM_COMMIT_STATS, 3, 3, err));
    int64_t pieces = stats->dim[0], width = stats->dim[2];
    GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, GP_NORM_COMMIT_STATS, 3, (const int64_t[]){pieces, 3, width}, err));
    GP_RETURN_IF_FAILED(gp_op_expect_vector(desc, GP_NORM_COMMIT_MEAN, width, err));
    GP_RETURN_IF_FAILED(gp_op_expect_vector(desc, GP_NORM_COMMIT_VARIANCE, width, err));
    if (norm->rows_last < 1 || (pieces > 1 && norm->rows_full < norm->rows_last)) {
        return gp_op_refuse(desc, err, "parts of %lld rows and a last part of %lld", (long long)norm->rows_full,
                            (long long)norm->rows_last);
    }
    if (pieces == 1 && norm->rows_last == 1) {
        return gp_op_refuse(desc, err, "only one row, which has no unbiased variance");
    }
    return GP_OK;
}

/* Like x, vectors over its channels, and the stats of each group, by operand of the three ops. */
gp_status gp_op_check_group_norm(const gp_op_desc *desc, gp_error *err) {
    static const struct {
        gp_op_kind kind;
        int same[2], vector[2], stats;
    } table[] = {
        {GP_OP_GROUP_NORM_FORWARD,
         {GP_GROUP_NORM_FORWARD_Y, GP_OP_ABSENT},
         {GP_GROUP_NORM_FORWARD_GAMMA, GP_GROUP_NORM_FORWARD_BETA},
         GP_GROUP_NORM_FORWARD_STATS},
        {GP_OP_GROUP_NORM_BACKWARD_DATA,
         {GP_GROUP_NORM_BACKWARD_DATA_DY, GP_GROUP_NORM_BACKWARD_DATA_DX},
         {GP_GROUP_NORM_BACKWARD_DATA_GAMMA, GP_OP_ABSENT},
         GP_GROUP_NORM_BACKWARD_DATA_STATS},
        {GP_OP_GROUP_NORM_BACKWARD_WEIGHTS,
         {GP_GROUP_NORM_BACKWARD_WEIGHTS_DY, GP_OP_ABSENT},
         {GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA},
         GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS},
    };
    const gp_group_norm_attributes *norm = &desc->attributes.group_norm;
    if (!(norm->eps >= 0) || !isfinite(norm->eps)) {
        return gp_op_refuse(desc, err, "eps is %g, which must be at least 0", norm->eps);
    }
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, 0, 2, 4, err));
    const gp_tensor *x = &desc->operand[0];
    if (norm->groups < 1 || gp_op_last_dim(x) % norm->groups) {
        return gp_op_refuse(desc, err, "%lld groups do not divide %lld channels", (long long)norm->groups,
                            (long long)gp_op_last_dim(x));
    }
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        if (table[t].kind != desc->kind) continue;
        for (int i = 0; i < 2; i++) {
            if (table[t].same[i] != GP_OP_ABSENT)
                GP_RETURN_IF_FAILED(gp_op_expect_same(desc, table[t].same[i], 0, err));
            if (table[t].vector[i] == GP_OP_ABSENT) continue;
            GP_RETURN_IF_FAILED(gp_op_expect_vector(desc, table[t].vector[i], gp_op_last_dim(x), err));
        }
        const int64_t stats[] = {x->dim[0], norm->groups, 2};
        GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, table[t].stats, 3, stats, err));
    }
    return GP_OK;
}
