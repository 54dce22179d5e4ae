/* The loops of convolutions as products: rows of taps gathered from a picture, and added up into one. Internal to
 * device/cpu. The op's own call; the loops are shared out over the device's pool, and the number of threads changes no
 * bit. */
#ifndef GP_DEVICE_CPU_CPU_CONV_GATHER_H
#define GP_DEVICE_CPU_CPU_CONV_GATHER_H

#include "device/cpu/cpu_conv_shape.h"
#include "device/cpu/cpu_pool.h"

/* rows[n·oh·ow, kh·kw·in] from x[n,h,w,in]: each row has what the taps of one place of the output see, with zeros for
 * padding (im2col). x is dense, the rows begin `pitch` floats apart; what lies between them is not written. */
void gp_conv_gather(gp_cpu_pool *pool, const gp_conv_shape *shape, const float *x, float *rows, int64_t pitch);
/* The reverse, dense both: dx[n,h,w,in] is the sum of what the rows have for it, row after row of the kernel and tap
 * after tap (col2im). */
void gp_conv_scatter(gp_cpu_pool *pool, const gp_conv_shape *shape, const float *rows, float *dx);
/* Copies rows of `floats`, dense, to rows that begin `pitch` floats apart. */
void gp_conv_spread(gp_cpu_pool *pool, const float *from, int64_t rows, int64_t floats, float *to, int64_t pitch);
void gp_conv_zero(gp_cpu_pool *pool, float *x, int64_t count);
/* Adds `parts` ≥ 1 blocks of `count` floats to x, one after another; they begin `pitch` floats apart. */
void gp_conv_add(gp_cpu_pool *pool, float *x, int64_t count, const float *part, int64_t pitch, int parts);

#endif
