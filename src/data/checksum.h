/* Checksums of files: 128 bits of XXH3, in the digits that `xxhsum -H2` prints. They find damage, not
 * deceit: a file of any sum can be made.
 *
 * The creator owns a checksum and destroys it; one thread each. */
#ifndef GP_DATA_CHECKSUM_H
#define GP_DATA_CHECKSUM_H

#include <stddef.h>

#include "base/status.h"

enum { GP_CHECKSUM_DIGITS = 32 };

typedef struct XXH3_state_s gp_checksum; /* xxhash.h has it */
GP_MUST_USE gp_status gp_checksum_create(gp_checksum **out, gp_error *err);
void gp_checksum_add(gp_checksum *sum, const void *data, size_t bytes);
/* The sum of what was added so far, without a NUL. */
void gp_checksum_digits(const gp_checksum *sum, char digits[GP_CHECKSUM_DIGITS]);
void gp_checksum_destroy(gp_checksum **sum);

#endif
