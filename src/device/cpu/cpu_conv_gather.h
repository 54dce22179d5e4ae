/* The loops of convolutions as products: rows of taps gathered from a picture, and added up into one. Internal to
 * device/cpu. The op's own call; the loops are shared out over the device's pool, and the number of threads changes no
 * bit. */
#ifndef GP_DEVICE_CPU_CPU_CONV_GATHER_H
#define GP_DEVICE_CPU_CPU_CONV_GATHER_H

#include "device/cpu/cpu_conv_shape.h"
#include "device/cpu/cpu_pool.h"

/* rows[n·oh·ow, kh·kw·in] from x[n,h,w,in], dense both: each row has what the taps of one place of the output see, with
 * zeros for padding (im2col). */
void gp_conv_gather(gp_cpu_pool *pool, const gp_conv_shape *shape, const float *x, float *rows);
/* The reverse: dx[n,h,w,in] is the sum of what the rows have for it, row after row of the kernel and tap after tap
 * (col2im). */
void gp_conv_scatter(gp_cpu_pool *pool, const gp_conv_shape *shape, const float *rows, float *dx);
void gp_conv_zero(gp_cpu_pool *pool, float *x, int64_t count);

#endif
