#include "device/op_expect.h"

const char *gp_op_dims_text(char buffer[GP_SHAPE_TEXT], const gp_tensor *tensor) {
    gp_shape shape = {.rank = tensor->rank};
    for (int d = 0; d < tensor->rank; d++) shape.dim[d] = tensor->dim[d];
    return gp_shape_text(buffer, shape);
}

int64_t gp_op_last_dim(const gp_tensor *tensor) {
    return tensor->dim[tensor->rank - 1];
}

gp_status gp_op_expect_rank(const gp_op_desc *desc, int i, int least, int most, gp_error *err) {
    int rank = desc->operand[i].rank;
    if (rank >= least && rank <= most) return GP_OK;
    if (least == most) {
        return gp_op_refuse(desc, err, "rank of %s is %d, which must be %d", gp_op_operand_name(desc->kind, i), rank,
                            least);
    }
    return gp_op_refuse(desc, err, "rank of %s is %d, which must be %d to %d", gp_op_operand_name(desc->kind, i), rank,
                        least, most);
}

/* An absent operand fits. */
gp_status gp_op_expect_dims(const gp_op_desc *desc, int i, int rank, const int64_t *dim, gp_error *err) {
    const gp_tensor *tensor = &desc->operand[i];
    if (!tensor->present) return GP_OK;
    gp_tensor expected = gp_tensor_plain(tensor->dtype, rank, dim);
    if (gp_tensor_same_dims(tensor, &expected)) return GP_OK;
    char is[GP_SHAPE_TEXT], must[GP_SHAPE_TEXT];
    return gp_op_refuse(desc, err, "%s is %s, which must be %s", gp_op_operand_name(desc->kind, i),
                        gp_op_dims_text(is, tensor), gp_op_dims_text(must, &expected));
}

gp_status gp_op_expect_same(const gp_op_desc *desc, int i, int as, gp_error *err) {
    return gp_op_expect_dims(desc, i, desc->operand[as].rank, desc->operand[as].dim, err);
}

gp_status gp_op_expect_vector(const gp_op_desc *desc, int i, int64_t width, gp_error *err) {
    return gp_op_expect_dims(desc, i, 1, &width, err);
}

gp_status gp_op_expect_range(const gp_op_desc *desc, const char *what, const int64_t value[2], int64_t least,
                             gp_error *err) {
    for (int d = 0; d < 2; d++) {
        if (value[d] < least || value[d] > INT32_MAX) {
            return gp_op_refuse(desc, err, "%s %lldx%lld, which must be at least %lld", what, (long long)value[0],
                                (long long)value[1], (long long)least);
        }
    }
    return GP_OK;
}
