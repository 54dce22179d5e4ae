/* Host memory of the planning code: checked sizes, zeroed blocks, growing arrays. Any thread.
 *
 * Blocks are freed with free(). The training step itself allocates nothing: its memory is the arenas of the plan.
 */
#ifndef GP_BASE_MEMORY_H
#define GP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* a·b and a+b into *out; false where the result does not fit. */
bool gp_size_mul(size_t a, size_t b, size_t *out);
bool gp_size_add(size_t a, size_t b, size_t *out);
/* a·b and a+b; SIZE_MAX where the result does not fit: more than can be counted. */
size_t gp_size_times(size_t a, size_t b);
size_t gp_size_plus(size_t a, size_t b);
bool gp_int64_mul(int64_t a, int64_t b, int64_t *out);
bool gp_int64_add(int64_t a, int64_t b, int64_t *out);

/* `value` up to the next multiple of `unit`, a power of two. */
static inline size_t gp_align_up(size_t value, size_t unit) {
    return (value + unit - 1) & ~(unit - 1);
}

/* Bytes at which arenas, frames and buffers begin: a cache line pair, and more than any vector load needs. */
enum { GP_ALIGNMENT = 128 };

/* A zeroed block of count × size bytes, owned by the caller. GP_MEMORY names the size. A count of 0 gives a block. */
GP_MUST_USE gp_status gp_new_array(void **out, size_t count, size_t size, gp_error *err);
#define GP_NEW(pointer, count, err) gp_new_array((void **)(pointer), (size_t)(count), sizeof **(pointer), (err))

/* Makes room for `needed` elements in *items, doubling *capacity; new elements are zeroed. */
GP_MUST_USE gp_status gp_grow_array(void **items, size_t *capacity, size_t needed, size_t size, gp_error *err);
#define GP_GROW(items, capacity, needed, err)                                                                          \
    gp_grow_array((void **)(items), (capacity), (size_t)(needed), sizeof **(items), (err))

/* Bytes of an array that grew so, from nothing, for `count` elements; SIZE_MAX: no size. */
size_t gp_grown_bytes(size_t count, size_t size);

/* Gives back what lies beyond `count` elements; where that cannot be done, it stays. */
void gp_shrink_array(void **items, size_t *capacity, size_t count, size_t size);

/* A copy of text, owned by the caller. */
GP_MUST_USE gp_status gp_copy_text(char **out, const char *text, gp_error *err);
/* A formatted text, owned by the caller. */
GP_MUST_USE gp_status gp_format_text(char **out, gp_error *err, const char *format, ...) GP_PRINTF(3, 4);

/* "1.5 MiB", "512 B": for people. Writes into buffer and returns it. */
const char *gp_bytes_text(char buffer[32], size_t bytes);

#endif
