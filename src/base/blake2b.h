/* BLAKE2b (RFC 7693) without a key: checksums of files, of up to 64 bytes.
 *
 * The same sums as Python's hashlib.blake2b(digest_size=…). Owns nothing; one thread per state. */
#ifndef GP_BASE_BLAKE2B_H
#define GP_BASE_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

enum { GP_BLAKE2B_BLOCK = 128, GP_BLAKE2B_MAX_DIGEST = 64 };

typedef struct gp_blake2b {
    uint64_t chain[8];
    uint64_t count; /* bytes compressed */
    uint8_t block[GP_BLAKE2B_BLOCK];
    size_t used; /* bytes that wait in block */
    size_t digest_bytes;
} gp_blake2b;

/* digest_bytes: 1 … GP_BLAKE2B_MAX_DIGEST. */
void gp_blake2b_init(gp_blake2b *state, size_t digest_bytes);
void gp_blake2b_add(gp_blake2b *state, const void *data, size_t bytes);
/* Ends the sum and writes its digest_bytes. */
void gp_blake2b_end(gp_blake2b *state, uint8_t *digest);

#endif
