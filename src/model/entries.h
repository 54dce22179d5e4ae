/* The entries of model.layers: kinds, names, and where each takes its values from.
 *
 * First half of building a graph: everything that needs no shape. The caller owns the gp_entries; the YAML nodes that
 * it points at stay those of the document. One thread.
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
    char *name;          /* owned: as given, or the index in the list */
    const gp_yaml *from; /* NULL: the output of the entry before */
} gp_entry;

typedef struct gp_entries {
    gp_entry *items;
    int count;
    gp_names names;
} gp_entries;

enum { GP_SOURCE_INPUT = -1 }; /* a source that is no entry: what entered the list */

/* Reads the list. GP_CONFIG with the place of the entry. */
GP_MUST_USE gp_status gp_entries_read(const gp_yaml *layers, gp_entries *out, gp_error *err);
void gp_entries_fini(gp_entries *entries);
/* Where entry `index` takes its values from: indices of earlier entries, or GP_SOURCE_INPUT. *sources is the caller's
 * to free. GP_CONFIG with the place of the reference. */
GP_MUST_USE gp_status gp_entries_sources(const gp_entries *entries, int index, int **sources, int *count,
                                         gp_error *err);

#endif
