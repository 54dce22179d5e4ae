/* Inside the room: bytes whose number is not known before they come: in memory up to a bound, beyond it in a temporary
 * file that has no name and goes with its last user.
 *
 * Filled by one thread; then any number may read at once. The creator closes.
 */
#ifndef GP_DATA_SPILL_H
#define GP_DATA_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_spill {
    const char *what; /* whose bytes they are, for messages; borrowed */
    size_t memory;    /* so many at most are held in memory */
    uint64_t bytes;   /* so many there are */
    unsigned char *data;
    size_t capacity;
    int fd; /* of the temporary file; −1: none */
} gp_spill;

void gp_spill_open(gp_spill *spill, const char *what, size_t memory);
void gp_spill_close(gp_spill *spill);
/* Bytes that are held in memory. */
size_t gp_spill_held(const gp_spill *spill);
/* GP_IO where the folder for temporary files ($TMPDIR, else /tmp) takes no more. */
GP_MUST_USE gp_status gp_spill_append(gp_spill *spill, const void *from, size_t bytes, gp_error *err);
/* [from, from+bytes) must be there. */
GP_MUST_USE gp_status gp_spill_read(const gp_spill *spill, uint64_t from, size_t bytes, void *to, gp_error *err);

#endif
