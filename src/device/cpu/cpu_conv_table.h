/* The table that methods of convolutions are chosen by: what its rows mean. Internal to device/cpu, and to
 * bench/convolutions.c, which makes the rows. */
#ifndef GP_DEVICE_CPU_CPU_CONV_TABLE_H
#define GP_DEVICE_CPU_CPU_CONV_TABLE_H

#include "device/cpu/cpu_conv_choice.h"

/* Raise it with each change of the table, or of what cpu_conv_choice.c makes of it: snapshots and profiles have it. */
enum { GP_CONV_TABLE_VERSION = 1 };

/* GB/s at which a thread reorders weights. */
#define GP_CONV_REORDER 4.0

/* What one op has to do by a method. */
typedef struct gp_conv_work {
    double flops;
    double weights;  /* bytes of weights that are read; oneDNN's convolutions read all of them for each picture */
    double moved;    /* bytes of gathered rows, or of results that are added to */
    double products; /* or convolutions */
} gp_conv_work;

/* How fast that is: the times add up. So a method's time grows with each of the four, at any size. */
typedef struct gp_conv_rates {
    double flops;   /* GFLOP/s */
    double weights; /* GB/s */
    double moved;   /* GB/s */
    double each;    /* µs */
} gp_conv_rates;

typedef struct gp_conv_row {
    gp_conv_isa isa;
    uint32_t threads; /* 1; 2: two or more */
    gp_conv_method method;
    gp_op_kind kind;
    gp_conv_rates rate;
} gp_conv_row;

gp_conv_work gp_conv_work_of(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method);

#endif
