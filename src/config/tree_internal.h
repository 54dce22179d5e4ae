/* What the files of the YAML tree share: the document's memory and the parser of values. For src/config/tree*.c only.
 *
 * All nodes and texts lie in blocks of the document and go with it; an edit leaves what it replaces there. One thread.
 */
#ifndef GP_CONFIG_TREE_INTERNAL_H
#define GP_CONFIG_TREE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"
#include "config/tree.h"

enum {
    GP_YAML_MAX_KEY = 200, /* bytes of a key: with every byte escaped it still fits YAML's 1,024 characters */
    GP_YAML_MAX_ANCHORS = 1024,
};

typedef struct gp_yaml_block gp_yaml_block;

struct gp_yaml_document {
    const char *name; /* path in messages */
    gp_yaml *root;
    gp_yaml_block *blocks;
    size_t nodes; /* ever made: what edits replaced counts too */
};

GP_MUST_USE gp_status gp_yaml_create(const char *name, gp_yaml_document **out, gp_error *err);
/* Zeroed, aligned for any node; owned by the document. */
GP_MUST_USE gp_status gp_yaml_allocate(gp_yaml_document *document, size_t bytes, void **out, gp_error *err);
/* `length` bytes and a NUL. */
GP_MUST_USE gp_status gp_yaml_keep_text(gp_yaml_document *document, const char *text, size_t length, const char **out,
                                        gp_error *err);
/* GP_CONFIG at `place` where the document has GP_YAML_MAX_NODES already. */
GP_MUST_USE gp_status gp_yaml_new_node(gp_yaml_document *document, gp_yaml_kind kind, gp_place place, gp_yaml **out,
                                       gp_error *err);

/* A copy of a tree that may stand at `depth` collections, the root's being 1; texts are borrowed, places kept. What is
 * too much is reported at `place`. */
GP_MUST_USE gp_status gp_yaml_copy_tree(gp_yaml_document *document, const gp_yaml *tree, int depth, gp_place place,
                                        gp_yaml **out, gp_error *err);
/* Nodes just below one: items, or keys and values. */
size_t gp_yaml_children(const gp_yaml *node);

/* Where a text that is parsed comes from. */
typedef struct gp_yaml_source {
    const char *name; /* lives as long as the document */
    bool lines;       /* false: the text is one argument, and places have no line */
} gp_yaml_source;
/* GP_CONFIG at the first byte that is no valid UTF-8, or no character that YAML allows. */
GP_MUST_USE gp_status gp_yaml_check_text(const char *characters, size_t bytes, gp_yaml_source source, gp_error *err);
/* One document out of `text` as a subtree of `document`; NULL where the text is empty. */
GP_MUST_USE gp_status gp_yaml_parse_value(gp_yaml_document *document, const char *text, size_t bytes,
                                          gp_yaml_source source, gp_yaml **out, gp_error *err);

/* A key of a mapping, and its value; NULL where there is none, or the node is no mapping. */
gp_yaml_pair *gp_yaml_find_pair(const gp_yaml *mapping, const char *key, size_t length);
/* One step of a path: a mapping's value, or a sequence's item by index; NULL where there is none. */
gp_yaml *gp_yaml_child(const gp_yaml *node, const char *segment, size_t length);

#endif
