#include "device/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

typedef struct cache_entry {
    const gp_device_kind *kind;
    uint64_t hash;
    struct cache_entry *next;
    gp_prepared prepared;
} cache_entry;

struct gp_op_cache {
    pthread_mutex_t lock; /* guards all below, and is held while a kind prepares: nothing is prepared twice */
    cache_entry **bucket;
    size_t buckets; /* a power of two */
    uint32_t entries;
};

enum { FIRST_BUCKETS = 64 };

gp_status gp_op_cache_create(gp_op_cache **out, gp_error *err) {
    gp_op_cache *cache;
    GP_RETURN_IF_FAILED(GP_NEW(&cache, 1, err));
    gp_status status = GP_NEW(&cache->bucket, FIRST_BUCKETS, err);
    if (status != GP_OK) goto free_cache;
    cache->buckets = FIRST_BUCKETS;
    int failure = pthread_mutex_init(&cache->lock, NULL);
    if (failure) {
        status = gp_fail(err, GP_MEMORY, "op cache: cannot create its lock: %s", strerror(failure));
        goto free_buckets;
    }
    *out = cache;
    return GP_OK;

free_buckets:
    free(cache->bucket);
free_cache:
    free(cache);
    return status;
}

void gp_op_cache_destroy(gp_op_cache **cache_at) {
    gp_op_cache *cache = *cache_at;
    if (!cache) return;
    for (size_t b = 0; b < cache->buckets; b++) {
        for (cache_entry *entry = cache->bucket[b]; entry;) {
            cache_entry *next = entry->next;
            entry->kind->release(&entry->prepared);
            free(entry);
            entry = next;
        }
    }
    pthread_mutex_destroy(&cache->lock);
    free(cache->bucket);
    free(cache);
    *cache_at = NULL;
}

static uint64_t hash_of(const gp_device_kind *kind, const gp_op_desc *desc) {
    return gp_hash_bytes(gp_hash_bytes(0, desc, gp_op_desc_bytes(desc)), &kind, sizeof kind);
}

/* Caller holds cache->lock. */
static cache_entry *find_entry(const gp_op_cache *cache, uint64_t hash, const gp_device_kind *kind,
                               const gp_op_desc *desc) {
    cache_entry *entry = cache->bucket[hash & (cache->buckets - 1)];
    while (entry) {
        /* If 0 and −0 differ, one more is prepared. */
        if (entry->hash == hash && entry->kind == kind && gp_op_desc_equal(&entry->prepared.desc, desc)) break;
        entry = entry->next;
    }
    return entry;
}

/* Caller holds cache->lock. */
static gp_status grow_buckets(gp_op_cache *cache, gp_error *err) {
    size_t buckets = cache->buckets * 2;
    cache_entry **bucket;
    GP_RETURN_IF_FAILED(GP_NEW(&bucket, buckets, err));
    for (size_t b = 0; b < cache->buckets; b++) {
        for (cache_entry *entry = cache->bucket[b]; entry;) {
            cache_entry *next = entry->next;
            cache_entry **head = &bucket[entry->hash & (buckets - 1)];
            entry->next = *head;
            *head = entry;
            entry = next;
        }
    }
    free(cache->bucket);
    cache->bucket = bucket;
    cache->buckets = buckets;
    return GP_OK;
}

/* Caller holds cache->lock. */
static gp_status add_entry(gp_op_cache *cache, uint64_t hash, const gp_device_kind *kind, const gp_op_desc *desc,
                           cache_entry **out, gp_error *err) {
    if (cache->entries >= cache->buckets) GP_RETURN_IF_FAILED(grow_buckets(cache, err));
    cache_entry *entry;
    GP_RETURN_IF_FAILED(GP_NEW(&entry, 1, err));
    entry->kind = kind;
    entry->hash = hash;
    memcpy(&entry->prepared.desc, desc, sizeof *desc);
    gp_status status = kind->prepare(&entry->prepared, err);
    if (status != GP_OK) {
        free(entry);
        return status;
    }
    gp_op_count(desc, &entry->prepared.flops, &entry->prepared.bytes);
    cache_entry **head = &cache->bucket[hash & (cache->buckets - 1)];
    entry->next = *head;
    *head = entry;
    entry->prepared.number = cache->entries++;
    *out = entry;
    return GP_OK;
}

gp_status gp_op_prepare(gp_op_cache *cache, const gp_device_kind *kind, const gp_op_desc *desc, const gp_prepared **out,
                        gp_error *err) {
    uint64_t hash = hash_of(kind, desc);
    gp_status status = GP_OK;
    pthread_mutex_lock(&cache->lock);
    cache_entry *entry = find_entry(cache, hash, kind, desc);
    if (!entry) {
        status = gp_op_desc_check(desc, err);
        if (status == GP_OK) status = add_entry(cache, hash, kind, desc, &entry, err);
    }
    pthread_mutex_unlock(&cache->lock);
    if (status == GP_OK) *out = &entry->prepared;
    return status;
}
