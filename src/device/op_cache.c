/* Prepares each descriptor once per device kind. */
#include "device/device.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct cache_key {
    const gp_device_kind *kind;
    const gp_op_desc *desc;
} cache_key;

typedef struct cache_entry {
    cache_key key; /* first; its desc is prepared.desc */
    gp_prepared prepared;
} cache_entry;

struct gp_op_cache {
    pthread_mutex_t lock; /* guards all below, and is held while a kind prepares: nothing is prepared twice */
    void *tree;           /* of tsearch: entries by their keys */
    uint32_t entries;
};

gp_status gp_op_cache_create(gp_op_cache **out, gp_error *err) {
    gp_op_cache *cache;
    GP_RETURN_IF_FAILED(GP_NEW(&cache, 1, err));
    int failure = pthread_mutex_init(&cache->lock, NULL);
    if (failure) {
        free(cache);
        return gp_fail(err, GP_MEMORY, "op cache: cannot create its lock: %s", strerror(failure));
    }
    *out = cache;
    return GP_OK;
}

static void destroy_entry(void *at) {
    cache_entry *entry = at;
    entry->key.kind->release(&entry->prepared);
    free(entry);
}

void gp_op_cache_destroy(gp_op_cache **cache) {
    if (!*cache) return;
    tdestroy((*cache)->tree, destroy_entry);
    pthread_mutex_destroy(&(*cache)->lock);
    free(*cache);
    *cache = NULL;
}

/* If 0 and −0 differ, one more is prepared. */
static int compare_keys(const void *a_at, const void *b_at) {
    const cache_key *a = a_at, *b = b_at;
    if (a->kind != b->kind) return (uintptr_t)a->kind < (uintptr_t)b->kind ? -1 : 1;
    if (a->desc->operands != b->desc->operands) return a->desc->operands < b->desc->operands ? -1 : 1;
    /* Zeroed before they are filled, padding too. */
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
    return memcmp(a->desc, b->desc, gp_op_desc_bytes(a->desc));
}

/* Caller holds cache->lock. */
static gp_status add_entry(gp_op_cache *cache, const cache_key *key, const gp_prepared **out, gp_error *err) {
    cache_entry *entry;
    GP_RETURN_IF_FAILED(GP_NEW(&entry, 1, err));
    memcpy(&entry->prepared.desc, key->desc, sizeof *key->desc);
    entry->key = (cache_key){key->kind, &entry->prepared.desc};
    gp_status status = key->kind->prepare(&entry->prepared, err);
    if (status != GP_OK) {
        free(entry);
        return status;
    }
    if (!tsearch(entry, &cache->tree, compare_keys)) {
        destroy_entry(entry);
        return gp_fail(err, GP_MEMORY, "out of memory: op cache");
    }
    gp_op_count(key->desc, &entry->prepared.flops, &entry->prepared.bytes);
    entry->prepared.effort = key->kind->effort ? key->kind->effort(key->desc) : 1;
    entry->prepared.number = cache->entries++;
    *out = &entry->prepared;
    return GP_OK;
}

gp_status gp_op_prepare(gp_op_cache *cache, const gp_device_kind *kind, const gp_op_desc *desc, const gp_prepared **out,
                        gp_error *err) {
    const cache_key key = {kind, desc};
    gp_status status = GP_OK;
    pthread_mutex_lock(&cache->lock);
    cache_entry *const *found = tfind(&key, &cache->tree, compare_keys);
    if (found) {
        *out = &(*found)->prepared;
    } else {
        status = gp_op_desc_check(desc, err);
        if (status == GP_OK) status = add_entry(cache, &key, out, err);
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}
