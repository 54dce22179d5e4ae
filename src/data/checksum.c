#include "data/checksum.h"

#include <xxhash.h>

gp_status gp_checksum_create(gp_checksum **out, gp_error *err) {
    gp_checksum *sum = XXH3_createState();
    if (!sum || XXH3_128bits_reset(sum) != XXH_OK) {
        gp_checksum_destroy(&sum);
        return gp_fail(err, GP_MEMORY, "out of memory: a checksum");
    }
    *out = sum;
    return GP_OK;
}

/* Updating can fail only where there is no state, or bytes are said to be at NULL. */
void gp_checksum_add(gp_checksum *sum, const void *data, size_t bytes) {
    if (bytes > 0) (void)XXH3_128bits_update(sum, data, bytes);
}

void gp_checksum_digits(const gp_checksum *sum, char digits[GP_CHECKSUM_DIGITS]) {
    static const char hexadecimal[] = "0123456789abcdef";
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(sum));
    for (size_t i = 0; i < sizeof canonical.digest; i++) {
        digits[2 * i] = hexadecimal[canonical.digest[i] >> 4];
        digits[2 * i + 1] = hexadecimal[canonical.digest[i] & 15];
    }
}

void gp_checksum_destroy(gp_checksum **sum) {
    (void)XXH3_freeState(*sum); /* NULL is nothing */
    *sum = NULL;
}
