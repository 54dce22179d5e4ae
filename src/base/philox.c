#include "base/philox.h"

#include <string.h>

uint64_t gp_hash_bytes(uint64_t hash, const void *bytes, uint64_t count) {
    const unsigned char *byte = bytes;
    if (hash == 0) hash = 0xCBF29CE484222325U;
    for (uint64_t i = 0; i < count; i++) hash = (hash ^ byte[i]) * 0x100000001B3U;
    return hash;
}

uint64_t gp_hash_text(const char *text) {
    return gp_hash_bytes(0, text, strlen(text));
}
