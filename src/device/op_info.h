/* Inside the device room: what checks and devices read of a row of op_table.inc, which explains the words. Static
 * storage; any thread. */
#ifndef GP_DEVICE_OP_INFO_H
#define GP_DEVICE_OP_INFO_H

#include "device/op.h"

enum { GP_OPERAND_READ = 1, GP_OPERAND_WRITTEN = 2, GP_OPERAND_OPTIONAL = 4, GP_OPERAND_REPLACED = 8 };

typedef enum gp_operand_type {
    GP_OPERAND_REAL,
    GP_OPERAND_WEIGHTS,
    GP_OPERAND_ANY,
    GP_OPERAND_INDEX,
    GP_OPERAND_I64,
    GP_OPERAND_F64,
    GP_OPERAND_SCALARS
} gp_operand_type;

enum { GP_OP_ACCUMULATES = 1, GP_OP_PRODUCT = 2, GP_OP_FORMATS = 4 };

typedef struct gp_operand_info {
    const char *name;
    gp_operand_name named;
    unsigned access;
    gp_operand_type type;
    const char *shape;
} gp_operand_info;

typedef struct gp_op_info {
    const char *name;
    size_t attributes; /* bytes */
    unsigned flags;
    int operands;
    gp_operand_info operand[GP_MAX_OPERANDS];
} gp_op_info;

const gp_op_info *gp_op_info_of(gp_op_kind kind);

#endif
