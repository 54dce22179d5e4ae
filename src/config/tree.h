/* A YAML document as a tree in which every node knows its line and column.
 *
 * Built by libyaml's parser from a file, a text, or an override (--set key.path=value). Mappings keep their order;
 * duplicate keys are refused; plain scalars keep their text, and config/read.h gives them types. Anchors and aliases
 * work within bounds, `<<` does not. A hostile file costs neither memory nor time: GP_YAML_MAX_* below.
 *
 * The document owns all nodes and texts. One thread at a time; reading is free for all once it is built.
 */
#ifndef GP_CONFIG_TREE_H
#define GP_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

enum {
    GP_YAML_MAX_BYTES = 16 << 20,  /* of a file */
    GP_YAML_MAX_DEPTH = 64,        /* of nesting */
    GP_YAML_MAX_NODES = 1 << 17,   /* after aliases are followed: an alias counts its target's nodes again */
    GP_YAML_MAX_SCALAR = 64 << 10, /* bytes of one scalar */
};

typedef enum gp_yaml_kind { GP_YAML_SCALAR, GP_YAML_SEQUENCE, GP_YAML_MAPPING } gp_yaml_kind;

typedef struct gp_yaml gp_yaml;
typedef struct gp_yaml_pair {
    gp_yaml *key; /* always a scalar */
    gp_yaml *value;
} gp_yaml_pair;

struct gp_yaml {
    gp_yaml_kind kind;
    gp_place place;   /* where it begins; an override's is path "--set key.path=value", without a line */
    const char *text; /* scalar: NUL-terminated (a NUL inside a scalar is refused) */
    bool quoted;      /* scalar: was in quotes or a block, so it is a string whatever it looks like */
    bool flow;        /* sequence, mapping: was written with brackets */
    bool alias;       /* was written as *name; `place` is that of the anchor's value */
    size_t count;     /* sequence: items; mapping: pairs */
    union {
        gp_yaml **items; /* of a mapping: keys and values by turns */
        gp_yaml_pair *pairs;
    };
    unsigned from, to; /* characters of the text before it, and before its end; a block may end with blanks */
};

typedef struct gp_yaml_document gp_yaml_document;

/* Reads a file (regular; of GP_YAML_MAX_BYTES at most) with exactly one document, a mapping or anything else.
 * GP_CONFIG with path:line:column where it is no YAML; GP_CONFIG too where it cannot be opened (the command line is
 * wrong then), with the system's reason. */
GP_MUST_USE gp_status gp_yaml_load(const char *path, gp_yaml_document **out, gp_error *err);
/* The same from memory; `name` stands for the path in messages. */
GP_MUST_USE gp_status gp_yaml_parse(const char *text, size_t bytes, const char *name, gp_yaml_document **out,
                                    gp_error *err);
/* A text that the program wrote itself in place of what stands at `place`, which every node gets. The place's path must
 * outlive the document. */
GP_MUST_USE gp_status gp_yaml_parse_at(const char *text, size_t bytes, gp_place place, gp_yaml_document **out,
                                       gp_error *err);
void gp_yaml_destroy(gp_yaml_document **document);
/* NULL where the document is empty. */
gp_yaml *gp_yaml_root(gp_yaml_document *document);

/* The value of a key of a mapping; NULL where there is none (or the node is no mapping). */
gp_yaml *gp_yaml_get(const gp_yaml *mapping, const char *key);
/* The key's own node, for its place. */
gp_yaml *gp_yaml_key(const gp_yaml *mapping, const char *key);
/* Decimal digits as an index; false for anything else. */
bool gp_yaml_index(const char *text, size_t length, size_t *out);
/* By path from the root, "model.layers.3.conv.out": sequences take an index. NULL where there is none. */
gp_yaml *gp_yaml_find(gp_yaml_document *document, const char *path);

/* --set: `assignment` is key.path=value, the value being YAML. Creates mappings on the way; replaces a scalar or a
 * whole subtree; a sequence takes an existing index, or its length to append. GP_USAGE with "--set a.b: …" where it
 * cannot. */
GP_MUST_USE gp_status gp_yaml_override(gp_yaml_document *document, const char *assignment, gp_error *err);
/* The same for the program itself, which writes resolved values: no message mentions --set. */
GP_MUST_USE gp_status gp_yaml_put(gp_yaml_document *document, const char *path, const char *value, gp_error *err);

/* From now on messages name a node by its section and its key there, "data.train", and not by file and line: for a
 * document of which the user has no file. Places that were copied before keep theirs. */
GP_MUST_USE gp_status gp_yaml_place_by_keys(gp_yaml_document *document, gp_error *err);

/* A second document with the same tree. It borrows the texts and the paths of places: `document` must outlive it. */
GP_MUST_USE gp_status gp_yaml_copy(const gp_yaml_document *document, gp_yaml_document **out, gp_error *err);
/* Puts a copy of `value`, which is borrowed as gp_yaml_copy borrows, at `path`. Nodes that are made on the way get
 * `place`. GP_CONFIG at `place` if the path leads through a value that has no keys. */
GP_MUST_USE gp_status gp_yaml_put_node(gp_yaml_document *document, const char *path, gp_place place,
                                       const gp_yaml *value, gp_error *err);
/* Removes the key that the path names. If it is not there, or is an entry of a list, nothing changes. */
void gp_yaml_remove(gp_yaml_document *document, const char *path);
/* The tree below a node as YAML on one line. */
void gp_yaml_write_flow(FILE *file, const gp_yaml *node);
/* The text in double quotes, escaped so that YAML reads the same text. */
void gp_yaml_write_quoted(FILE *file, const char *text);
/* A subtree as a document of its own, with the places of its nodes; its texts stay the first document's, which must
 * outlive it. Nothing of it is shared: what was an alias is a node of its own. */
GP_MUST_USE gp_status gp_yaml_copy_node(const gp_yaml *node, gp_yaml_document **out, gp_error *err);
/* A new mapping without keys, owned by the document. */
GP_MUST_USE gp_status gp_yaml_new_mapping(gp_yaml_document *document, gp_place place, gp_yaml **out, gp_error *err);
/* Sets a key of a mapping of the document, or adds it. `key` is copied; `value` may belong to another document, which
 * must then outlive this one. */
GP_MUST_USE gp_status gp_yaml_set(gp_yaml_document *document, gp_yaml *mapping, const char *key, gp_place place,
                                  gp_yaml *value, gp_error *err);

/* Writes the tree as YAML that reads back to an equal tree (quoted scalars stay quoted), after a comment line. */
GP_MUST_USE gp_status gp_yaml_write(const gp_yaml_document *document, const char *comment, const char *path,
                                    gp_error *err);

/* The same as a text, owned by the caller. */
GP_MUST_USE gp_status gp_yaml_text(const gp_yaml_document *document, const char *comment, char **out, gp_error *err);

/* Where two trees say something different. All is borrowed, the path for one call. */
typedef struct gp_yaml_difference {
    char *path;                  /* "train.seed" */
    const gp_yaml *before, *now; /* NULL: not said */
} gp_yaml_difference;
/* Called for one difference; a failure ends the walk. */
typedef gp_status (*gp_yaml_visit)(void *context, const gp_yaml_difference *difference, gp_error *err);
/* Whether the mapping at this path is compared and set as a whole: its order counts, and its keys may have dots, so
 * that no path leads into it. */
bool gp_yaml_is_whole(const char *path);
/* Visits every difference, those of `now` in its order and then what only `before` says. `path`: of both nodes in the
 * configuration; "": they are roots. Mappings but model.rules have no order; 0.10 and 0.1 are the same number. */
GP_MUST_USE gp_status gp_yaml_each_difference(const char *path, const gp_yaml *before, const gp_yaml *now,
                                              gp_yaml_visit visit, void *context, gp_error *err);
/* Whether there is one. */
bool gp_yaml_differ(const char *path, const gp_yaml *before, const gp_yaml *now);

#endif
