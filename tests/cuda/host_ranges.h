/* The memory that launches declare (gp_cuda_range): its bytes, saved, put back and compared. Pure; any thread. */
#ifndef GP_TESTS_CUDA_HOST_RANGES_H
#define GP_TESTS_CUDA_HOST_RANGES_H

#include <stdbool.h>

#include "device/cuda/cuda_api.h"

/* Of all ranges together. */
size_t gp_ranges_bytes(const gp_cuda_range *ranges, int count);
/* From and to a block of gp_ranges_bytes, range after range, row after row. */
void gp_ranges_save(const gp_cuda_range *ranges, int count, void *to);
void gp_ranges_restore(const gp_cuda_range *ranges, int count, const void *from);
/* Whether the memory is as it was saved; else *range and *byte (of the range's bytes, row after row) say where not. */
bool gp_ranges_same(const gp_cuda_range *ranges, int count, const void *saved, int *range, size_t *byte);
/* From the first to the last byte of a range: to `end`, which does not belong to it. */
const void *gp_range_end(const gp_cuda_range *range);
/* Sets mask[i] to `value` where byte `block + i` belongs to the range; what lies outside of the block is left out. */
void gp_range_mark(const gp_cuda_range *range, const void *block, size_t bytes, unsigned char *mask,
                   unsigned char value);

#endif
