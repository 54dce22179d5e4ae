/* The `model:` subtree as the graph reads it: its keys, the shape of a sample, and the list of layers, be it written
 * out or that of a built-in model.
 *
 * One thread.
 */
#ifndef GP_MODEL_EXPAND_H
#define GP_MODEL_EXPAND_H

#include "base/shape.h"
#include "base/status.h"
#include "config/tree.h"

typedef struct gp_layer_list {
    const gp_yaml *layers;
    gp_yaml_document *made; /* owned: holds them where they stand for a built-in model, whose place they have */
} gp_layer_list;

/* GP_CONFIG with a place for what is missing, unknown or too much. */
GP_MUST_USE gp_status gp_model_check(const gp_yaml *model, gp_error *err);
GP_MUST_USE gp_status gp_model_input(const gp_yaml *model, gp_shape *out, gp_error *err);
/* Of a model that has been checked. */
GP_MUST_USE gp_status gp_model_layers(const gp_yaml *model, gp_layer_list *out, gp_error *err);
void gp_layer_list_fini(gp_layer_list *list);
/* Puts a list that was made in the place of what stands for it, and takes the rules out, in the tree itself. */
void gp_model_put_layers(gp_yaml *model, const gp_layer_list *list);

/* Puts the list, with the rules resolved, in the place of the built-in model or of the list, in the tree itself, and
 * takes the rules out of it. The tree then borrows from *list, which must live as long and is the caller's to release.
 * A model that is written out and has no rules stays as it is. */
GP_MUST_USE gp_status gp_model_expand(gp_yaml *model, gp_layer_list *list, gp_error *err);

#endif
