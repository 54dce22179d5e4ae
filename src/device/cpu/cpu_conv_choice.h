/* How the CPU computes a convolution: one of several methods, chosen when its op is prepared. Internal to device/cpu.
 *
 * The choice is a pure function of the descriptor, the instruction set that oneDNN uses, and cpu_conv_table.inc, which
 * bench/convolutions.c makes from measurements. A run never measures in order to choose. The forward op and the two
 * backward ops of a convolution are looked at together, whichever of them asks: they share one copy of the weights. Any
 * thread.
 */
#ifndef GP_DEVICE_CPU_CPU_CONV_CHOICE_H
#define GP_DEVICE_CPU_CPU_CONV_CHOICE_H

#include "device/cpu/cpu_conv_shape.h"
#include "device/cpu/cpu_division.h"

typedef enum gp_conv_method {
    GP_CONV_DIRECT,  /* oneDNN's convolution */
    GP_CONV_PRODUCT, /* the others: see cpu_conv_products.h */
    GP_CONV_GATHERED,
    GP_CONV_PLACES,
    GP_CONV_METHODS
} gp_conv_method;

const char *gp_conv_method_name(gp_conv_method method);

/* The instruction sets that the table tells apart. */
typedef enum gp_conv_isa { GP_CONV_SSE41, GP_CONV_AVX2, GP_CONV_AVX512, GP_CONV_ISAS } gp_conv_isa;
gp_conv_isa gp_conv_isa_now(void);
const char *gp_conv_isa_name(gp_conv_isa isa);

/* Limits: products of an op; of GP_CONV_PLACES places of the input, or taps; of GP_CONV_GATHERED bytes of rows. */
enum { GP_CONV_MOST_PRODUCTS = 48, GP_CONV_MOST_TARGETS = 256, GP_CONV_MOST_GATHERED = 16 << 20 };
/* Of products of single taps. */
enum { GP_CONV_MOST_TAPS = 4 * GP_CONV_MOST_PRODUCTS };
/* Whether a method can compute it at all. */
bool gp_conv_is_possible(const gp_conv_shape *shape, gp_conv_method method);

/* Products of GP_CONV_GATHERED: the rows of each are about as many as the cache holds. Their samples differ by one at
 * most: product i has those from n·i/products on. */
int64_t gp_conv_gathered_products(const gp_conv_shape *shape);
/* The most samples of one of them; bytes of the rows of samples (SIZE_MAX: more than fit). */
int64_t gp_conv_gathered_samples(const gp_conv_shape *shape);
size_t gp_conv_gathered_bytes(const gp_conv_shape *shape, int64_t samples);

/* Whether backward-data by places has a product for each tap, not for each row of the kernel: of few samples the input
 * channels are shared out among threads. */
bool gp_conv_by_channels(const gp_conv_shape *shape);
/* How a method other than direct shares out its products among threads. */
gp_division gp_conv_divide(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method, int threads);

/* Which factors of its products a method takes with longer rows, GP_CONV_PAD floats more: rows whose starts are a
 * multiple of 512 bytes apart share few lines of the caches. x, y and weights are copied first; gathered rows are
 * written so. */
typedef struct gp_conv_pads {
    bool x, y, weights, gathered;
} gp_conv_pads;
enum { GP_CONV_PAD = 16 };
gp_conv_pads gp_conv_padded(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method, gp_conv_isa isa,
                            int threads);
/* Rows of a factor, and their floats. */
typedef struct gp_conv_rows_of {
    int64_t rows, floats;
} gp_conv_rows_of;
gp_conv_rows_of gp_conv_rows_of_x(const gp_conv_shape *shape, gp_conv_method method);
gp_conv_rows_of gp_conv_rows_of_y(const gp_conv_shape *shape, gp_conv_method method);
gp_conv_rows_of gp_conv_rows_of_weights(const gp_conv_shape *shape);

/* Of the weights, or their gradient: the format that the descriptor gives. */
typedef enum gp_conv_weights {
    GP_CONV_WEIGHTS_ANY,     /* the device may choose */
    GP_CONV_WEIGHTS_BY_TAPS, /* as the methods take them that are products */
    GP_CONV_WEIGHTS_OTHER
} gp_conv_weights;

typedef struct gp_conv_choice {
    gp_conv_method method;
    bool by_taps; /* the format to choose for the weights; else the one that oneDNN wants */
} gp_conv_choice;

gp_conv_choice gp_conv_choose(const gp_op_desc *desc, gp_conv_weights weights, gp_conv_isa isa);
/* Whether the device's threads compute oneDNN's convolution on a share of the samples each (cpu_conv_shares.h): if none
 * lacks a sample, the second gradients of the weights are small, and waiting for the largest share takes no longer than
 * waking libgomp's threads. */
bool gp_conv_is_shared(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_isa isa, uint32_t threads);
/* Bytes of the shares' gradients of weights, but for the first. */
enum { GP_CONV_MOST_PARTIAL = 1 << 20 };
/* What the table expects of a method that is possible. Milliseconds, without reorders of weights. */
double gp_conv_expected(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method, gp_conv_isa isa,
                        uint32_t threads);

/* The effort of gp_device_kind: what the table expects of the method with AVX2, on any machine, beside a large forward
 * convolution. So counted costs do not depend on the machine. */
double gp_conv_effort(const gp_op_desc *desc);

/* ---- the table: for bench/convolutions.c, which makes its rows, and tests ------------------------------------------
 */

/* Raise it with each change of the table, or of what cpu_conv_choice.c makes of it: snapshots and profiles have it. */
enum { GP_CONV_TABLE_VERSION = 6 };

/* GB/s at which a thread reorders weights. */
#define GP_CONV_REORDER 4.0

/* Milliseconds that oneDNN's own division takes to wake libgomp's threads: not in the rows of the table. */
#define GP_CONV_WAKING 0.045

/* What one op has to do by a method. */
typedef struct gp_conv_work {
    double flops;
    double weights;  /* bytes of weights that are read; oneDNN's convolutions read all of them for each picture */
    double moved;    /* bytes of gathered rows, of results that are added to, and of factors that are copied */
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

gp_conv_work gp_conv_work_of(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method, gp_conv_isa isa,
                             uint32_t threads);

#endif
