#include "config/tree.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/tree_internal.h"

struct gp_yaml_block {
    gp_yaml_block *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
};

gp_status gp_yaml_allocate(gp_yaml_document *document, size_t bytes, void **out, gp_error *err) {
    enum { BLOCK = 64 << 10 };
    bytes = gp_align_up(bytes ? bytes : 1, alignof(max_align_t));
    gp_yaml_block *block = document->blocks;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > BLOCK ? bytes : BLOCK;
        char *fresh = NULL;
        GP_RETURN_IF_FAILED(GP_NEW(&fresh, sizeof *block + size, err));
        block = (gp_yaml_block *)(void *)fresh;
        block->size = size;
        block->next = document->blocks;
        document->blocks = block;
    }
    *out = block->bytes + block->used;
    block->used += bytes;
    return GP_OK;
}

gp_status gp_yaml_keep_text(gp_yaml_document *document, const char *text, size_t length, const char **out,
                            gp_error *err) {
    void *copy = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_allocate(document, length + 1, &copy, err));
    if (length) memcpy(copy, text, length);
    *out = copy;
    return GP_OK;
}

gp_status gp_yaml_new_node(gp_yaml_document *document, gp_yaml_kind kind, gp_place place, gp_yaml **out,
                           gp_error *err) {
    if (document->nodes >= GP_YAML_MAX_NODES)
        return gp_fail_at(err, GP_CONFIG, place,
                          "the document has more than %d nodes (an alias counts as what it names)",
                          (int)GP_YAML_MAX_NODES);
    void *block = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_allocate(document, sizeof(gp_yaml), &block, err));
    document->nodes++;
    gp_yaml *node = block;
    node->kind = kind;
    node->place = place;
    *out = node;
    return GP_OK;
}

size_t gp_yaml_children(const gp_yaml *node) {
    return node->kind == GP_YAML_MAPPING ? 2 * node->count : node->count;
}

gp_status gp_yaml_copy_tree(gp_yaml_document *document, const gp_yaml *tree, int depth, gp_place place, gp_yaml **out,
                            gp_error *err) {
    gp_yaml *node = NULL;
    void *children = NULL;
    size_t count = gp_yaml_children(tree);
    if (tree->kind != GP_YAML_SCALAR && depth > GP_YAML_MAX_DEPTH)
        return gp_fail_at(err, GP_CONFIG, place, "nested deeper than %d levels", (int)GP_YAML_MAX_DEPTH);
    GP_RETURN_IF_FAILED(gp_yaml_new_node(document, tree->kind, place, &node, err));
    *node = *tree;
    if (count) GP_RETURN_IF_FAILED(gp_yaml_allocate(document, count * sizeof *node->items, &children, err));
    node->items = children;
    for (size_t i = 0; i < count; i++)
        GP_RETURN_IF_FAILED(gp_yaml_copy_tree(document, tree->items[i], depth + 1, place, &node->items[i], err));
    *out = node;
    return GP_OK;
}

gp_status gp_yaml_create(const char *name, gp_yaml_document **out, gp_error *err) {
    gp_yaml_document *document = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&document, 1, err));
    gp_status status = gp_yaml_keep_text(document, name, strlen(name), &document->name, err);
    if (status != GP_OK) {
        gp_yaml_destroy(&document);
        return status;
    }
    *out = document;
    return GP_OK;
}

void gp_yaml_destroy(gp_yaml_document **document) {
    if (!document || !*document) return;
    gp_yaml_block *next;
    for (gp_yaml_block *block = (*document)->blocks; block; block = next) {
        next = block->next;
        free(block);
    }
    free(*document);
    *document = NULL;
}

gp_yaml *gp_yaml_root(gp_yaml_document *document) {
    return document->root;
}

gp_yaml_pair *gp_yaml_find_pair(const gp_yaml *mapping, const char *key, size_t length) {
    if (!mapping || mapping->kind != GP_YAML_MAPPING) return NULL;
    for (size_t i = 0; i < mapping->count; i++) {
        const char *text = mapping->pairs[i].key->text;
        if (strncmp(text, key, length) == 0 && text[length] == '\0') return &mapping->pairs[i];
    }
    return NULL;
}

gp_yaml *gp_yaml_get(const gp_yaml *mapping, const char *key) {
    const gp_yaml_pair *pair = gp_yaml_find_pair(mapping, key, strlen(key));
    return pair ? pair->value : NULL;
}

gp_yaml *gp_yaml_key(const gp_yaml *mapping, const char *key) {
    const gp_yaml_pair *pair = gp_yaml_find_pair(mapping, key, strlen(key));
    return pair ? pair->key : NULL;
}

bool gp_yaml_index(const char *text, size_t length, size_t *out) {
    if (length == 0 || length > 9) return false;
    size_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (size_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

gp_yaml *gp_yaml_child(const gp_yaml *node, const char *segment, size_t length) {
    size_t index;
    if (!node) return NULL;
    if (node->kind == GP_YAML_SEQUENCE)
        return gp_yaml_index(segment, length, &index) && index < node->count ? node->items[index] : NULL;
    const gp_yaml_pair *pair = gp_yaml_find_pair(node, segment, length);
    return pair ? pair->value : NULL;
}

gp_yaml *gp_yaml_find(gp_yaml_document *document, const char *path) {
    gp_yaml *node = document->root;
    while (node) {
        size_t length = strcspn(path, ".");
        node = gp_yaml_child(node, path, length);
        if (path[length] == '\0') return node;
        path += length + 1;
    }
    return NULL;
}
