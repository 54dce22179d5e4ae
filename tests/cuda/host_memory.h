/* Blocks of host memory that stand for the device's: filled with poison, with red zones around them, and known, so that
 * an address can be looked up. Any thread. */
#ifndef GP_TESTS_CUDA_HOST_MEMORY_H
#define GP_TESTS_CUDA_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct gp_host_block {
    char *at;
    size_t bytes;
} gp_host_block;

/* Aligned to 256 bytes, as the runtime's are, full of 0xff. */
GP_MUST_USE gp_status gp_host_memory_allocate(size_t bytes, void **out, gp_error *err);
/* The block may not be used again. Ends the program with a sentence where it is none, or where a red zone was
 * overwritten. */
void gp_host_memory_release(void *block);
/* The block in which [at, at + bytes) lies whole; false where there is none. */
bool gp_host_memory_find(const void *at, size_t bytes, gp_host_block *out);
/* All blocks there are; at most `most` are written. Returns how many there are. */
size_t gp_host_memory_list(gp_host_block *out, size_t most);

#endif
