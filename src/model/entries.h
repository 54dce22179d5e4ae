/* The entries of model.layers: kinds, names, and where each takes its values from.
 *
 * First half of building a graph: everything that needs no shape. A `sequential` is a list within the list; its entries
 * stand in one row with the others, and together they are one unit, which no cut divides. The caller owns the
 * gp_entries; the YAML nodes that it points at stay those of the document. One thread.
 */
#ifndef GP_MODEL_ENTRIES_H
#define GP_MODEL_ENTRIES_H

#include "base/status.h"
#include "config/read.h"
#include "layers/layer.h"
#include "model/names.h"

typedef struct gp_entry {
    gp_choice choice;
    const gp_layer_type *type;
    gp_layer *layer;     /* owned, with its options; NULL once a graph has taken it */
    char *name;          /* owned: its group's prefix, then as given, or its index in the list */
    const gp_yaml *from; /* NULL: the output of the item before */
    int group;
    bool kept; /* as the last one of a sequential with `checkpoint: false` */
    int item;  /* in its group's list */
    int unit;  /* item of the whole list that it is, or is part of: what balance counts */
} gp_entry;

/* A list of items: model.layers (group 0), or the layers of a sequential. */
typedef struct gp_group {
    char *name;          /* owned; "" for the whole list */
    char *prefix;        /* owned: of the names in it, "" or "layer1.0.downsample." */
    const gp_yaml *from; /* what enters it; NULL: the output of the item before */
    bool frozen;         /* so are layers in it that do not say otherwise */
    int parent;          /* group; −1: none */
    int item;            /* in the parent's list */
    int first;           /* its entries: [first, end) */
    int end;
    int *outputs; /* owned: for each of its items, the entry that makes its output */
} gp_group;

typedef struct gp_entries {
    gp_entry *items;
    int count;
    int unit_count;
    gp_group *groups;
    int group_count;
    size_t group_capacity;
    gp_names names; /* of entries; a group's name leads to its last entry */
} gp_entries;

enum { GP_SOURCE_INPUT = -1 }; /* a source that is no entry: what entered the whole list */

/* Reads the list. GP_CONFIG with the place of the entry; the mistakes of all entries are joined. */
GP_MUST_USE gp_status gp_entries_read(const gp_yaml *layers, gp_entries *out, gp_error *err);
void gp_entries_fini(gp_entries *entries);
/* The layers of an item of the list that is a sequential; NULL where it is none. */
const gp_yaml *gp_sequential_layers(const gp_yaml *item);
/* Where entry `index` takes its values from: indices of earlier entries, or GP_SOURCE_INPUT. *sources is the caller's
 * to free. GP_CONFIG with the place of the reference. */
GP_MUST_USE gp_status gp_entries_sources(const gp_entries *entries, int index, int **sources, int *count,
                                         gp_error *err);
/* Whether a text reads as a number, which no name is. */
bool gp_is_number(const char *text);

#endif
