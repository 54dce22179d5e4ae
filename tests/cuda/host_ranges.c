#include "cuda/host_ranges.h"

#include <string.h>

static char *row_of(const gp_cuda_range *range, size_t row) {
    return (char *)(uintptr_t)range->at + row * range->pitch;
}

size_t gp_ranges_bytes(const gp_cuda_range *ranges, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += ranges[i].width * ranges[i].rows;
    return bytes;
}

void gp_ranges_save(const gp_cuda_range *ranges, int count, void *to) {
    char *at = to;
    for (int i = 0; i < count; i++) {
        for (size_t row = 0; row < ranges[i].rows; row++, at += ranges[i].width)
            memcpy(at, row_of(&ranges[i], row), ranges[i].width);
    }
}

void gp_ranges_restore(const gp_cuda_range *ranges, int count, const void *from) {
    const char *at = from;
    for (int i = 0; i < count; i++) {
        for (size_t row = 0; row < ranges[i].rows; row++, at += ranges[i].width)
            memcpy(row_of(&ranges[i], row), at, ranges[i].width);
    }
}

bool gp_ranges_same(const gp_cuda_range *ranges, int count, const void *saved, int *range, size_t *byte) {
    const char *at = saved;
    for (int i = 0; i < count; i++) {
        for (size_t row = 0; row < ranges[i].rows; row++, at += ranges[i].width) {
            const char *now = row_of(&ranges[i], row);
            if (memcmp(at, now, ranges[i].width) == 0) continue;
            size_t column = 0;
            while (at[column] == now[column]) column++;
            *range = i;
            *byte = row * ranges[i].width + column;
            return false;
        }
    }
    return true;
}

const void *gp_range_end(const gp_cuda_range *range) {
    return range->rows == 0 ? range->at : row_of(range, range->rows - 1) + range->width;
}

void gp_range_mark(const gp_cuda_range *range, const void *block, size_t bytes, unsigned char *mask,
                   unsigned char value) {
    for (size_t row = 0; row < range->rows; row++) {
        uintptr_t from = (uintptr_t)row_of(range, row), to = from + range->width, first = (uintptr_t)block;
        if (from < first) from = first;
        if (to > first + bytes) to = first + bytes;
        if (from < to) memset(mask + (from - first), value, to - from);
    }
}
