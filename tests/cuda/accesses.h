/* Memory of the recorder, and who has touched it when: blocks, ranges, vector clocks. For one caller at a time: the
 * recorder, under its lock; any thread. */
#ifndef GP_TESTS_CUDA_ACCESSES_H
#define GP_TESTS_CUDA_ACCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cuda/cuda_api.h"

enum { MOST_STREAMS = 64, MOST_THREADS = 64 };

/* For each stream, how many of its accesses come before. */
typedef struct clock_vector {
    uint32_t of[MOST_STREAMS];
} clock_vector;

void clock_clear(clock_vector *clock);
void clock_join(clock_vector *clock, const clock_vector *other);

/* An access of a stream: its own number is clock.of[stream]. */
typedef struct moment {
    int stream, device;
    const char *name; /* static */
    clock_vector clock;
} moment;

/* A block of poison, on `device` or, −1, on the host. NULL where memory is out. */
void *accesses_reserve(size_t bytes, int device, unsigned char poison);
/* False, and a sentence, where something that is not known to have happened touches it. */
bool accesses_release(void *block, const clock_vector *known, char *text, size_t size);
/* Notes an access; false, and a sentence, where the memory is not there, is another device's (but for the one allowed),
 * or nothing orders the access and an earlier one. */
bool accesses_note(const moment *when, const gp_cuda_range *range, bool write, char *text, size_t size);
void accesses_allow(int device); /* −1: none */
/* Everything up to here is known to all. */
void accesses_forget(const clock_vector *known);
/* How many blocks are left; they are freed. */
int accesses_end(void);

#endif
