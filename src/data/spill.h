/* Inside the room: bytes whose number is known before they come: few in memory, many in a temporary file that has no
 * name and goes with its last user.
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
    uint64_t bytes;   /* so many there are */
    unsigned char *data;
    int fd; /* of the temporary file; −1: none */
} gp_spill;

/* For `most` bytes, which are held in memory if they are not more than `memory`. */
GP_MUST_USE gp_status gp_spill_open(gp_spill *spill, const char *what, uint64_t most, size_t memory, gp_error *err);
void gp_spill_close(gp_spill *spill);
/* Bytes that are held in memory. */
size_t gp_spill_held(const gp_spill *spill);
/* GP_IO where the folder for temporary files ($TMPDIR, else /tmp) takes no more. */
GP_MUST_USE gp_status gp_spill_append(gp_spill *spill, const void *from, size_t bytes, gp_error *err);
/* [from, from+bytes) must be there. */
GP_MUST_USE gp_status gp_spill_read(const gp_spill *spill, uint64_t from, size_t bytes, void *to, gp_error *err);

#endif
