#include "device/cpu/cpu_book.h"

#include "base/memory.h"
#include "device/cpu/cpu_blocks.h"
#include "device/cpu/cpu_column.h"

size_t gp_cpu_norm_partial_bytes(gp_op_kind kind, gp_rows x) {
    bool sums = kind == GP_OP_NORM_STATISTICS || kind == GP_OP_NORM_BACKWARD_REDUCE ||
                kind == GP_OP_NORM_RELU_BACKWARD_REDUCE || kind == GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE;
    return sums ? gp_align_up(gp_cpu_column_bytes(x), GP_ALIGNMENT) : 0;
}

int gp_cpu_norm_coefficients(gp_op_kind kind) {
    switch (kind) {
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE: return 2;
    case GP_OP_NORM_BACKWARD_DATA: return 3; /* no shift */
    case GP_OP_NORM_RELU_BACKWARD_DATA: return 4;
    default: return 0;
    }
}

void gp_cpu_book_norm(gp_prepared *prepared) {
    gp_op_kind kind = prepared->desc.kind;
    gp_rows x = gp_rows_of(&prepared->desc.operand[0]);
    size_t coefficients = (size_t)gp_cpu_norm_coefficients(kind) * (size_t)x.width;
    gp_op_book(prepared, gp_cpu_norm_partial_bytes(kind, x) + coefficients * sizeof(float));
}

void gp_cpu_book_columns(gp_prepared *prepared) {
    gp_op_book(prepared, gp_cpu_column_bytes(gp_rows_of(&prepared->desc.operand[0])));
}

void gp_cpu_book_blocks(gp_prepared *prepared) {
    gp_op_book(prepared, (size_t)gp_cpu_blocks(gp_rows_of(&prepared->desc.operand[0])) * sizeof(double));
}

int64_t gp_cpu_loss_blocks(gp_rows x) {
    return (x.count + GP_CPU_LOSS_ROWS - 1) / GP_CPU_LOSS_ROWS;
}

void gp_cpu_book_losses(gp_prepared *prepared) {
    gp_rows x = gp_rows_of(&prepared->desc.operand[GP_CROSS_ENTROPY_FORWARD_X]);
    gp_op_book(prepared, (size_t)gp_cpu_loss_blocks(x) * 2 * sizeof(double));
}
