#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gp_size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool gp_size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

size_t gp_size_times(size_t a, size_t b) {
    size_t product;
    return gp_size_mul(a, b, &product) ? product : SIZE_MAX;
}

size_t gp_size_plus(size_t a, size_t b) {
    size_t sum;
    return gp_size_add(a, b, &sum) ? sum : SIZE_MAX;
}

bool gp_int64_mul(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool gp_int64_add(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

gp_status gp_new_array(void **out, size_t count, size_t size, gp_error *err) {
    void *block = calloc(count ? count : 1, size);
    if (!block) return gp_fail(err, GP_MEMORY, "out of memory: %zu × %zu bytes", count, size);
    *out = block;
    return GP_OK;
}

gp_status gp_grow_array(void **items, size_t *capacity, size_t needed, size_t size, gp_error *err) {
    if (needed <= *capacity) return GP_OK;
    size_t larger = *capacity ? *capacity : 8;
    while (larger < needed)
        if (!gp_size_mul(larger, 2, &larger)) return gp_fail(err, GP_MEMORY, "out of memory: %zu elements", needed);
    size_t bytes;
    if (!gp_size_mul(larger, size, &bytes)) return gp_fail(err, GP_MEMORY, "out of memory: %zu elements", needed);
    void *block = realloc(*items, bytes);
    if (!block) return gp_fail(err, GP_MEMORY, "out of memory: %zu bytes", bytes);
    memset((char *)block + *capacity * size, 0, bytes - *capacity * size);
    *items = block;
    *capacity = larger;
    return GP_OK;
}

size_t gp_grown_bytes(size_t count, size_t size) {
    size_t capacity = 8, bytes;
    if (count == 0) return 0;
    while (capacity < count && capacity <= SIZE_MAX / 2) capacity *= 2;
    return capacity >= count && gp_size_mul(capacity, size, &bytes) ? bytes : SIZE_MAX;
}

void gp_shrink_array(void **items, size_t *capacity, size_t count, size_t size) {
    void *block = count < *capacity ? realloc(*items, (count ? count : 1) * size) : NULL;
    if (!block) return;
    *items = block;
    *capacity = count;
}

gp_status gp_copy_text(char **out, const char *text, gp_error *err) {
    size_t bytes = strlen(text) + 1;
    char *copy = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&copy, bytes, err));
    memcpy(copy, text, bytes);
    *out = copy;
    return GP_OK;
}

gp_status gp_format_text(char **out, gp_error *err, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) return gp_fail(err, GP_MEMORY, "out of memory: a text");
    *out = text;
    return GP_OK;
}

const char *gp_bytes_text(char buffer[32], size_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(buffer, 32, "%zu B", bytes);
        return buffer;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1023.95 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1024;
    snprintf(buffer, 32, value < 10 ? "%.2f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}
