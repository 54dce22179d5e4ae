/* `model.rules`: options of layers, given by name, pattern or kind, for built-in models and lists alike.
 *
 * A rule is written into the entries of the list that it matches, so that everything after it sees one list of layers,
 * the same that --expand prints. Rules beat entries, later rules earlier ones. One thread.
 */
#ifndef GP_MODEL_RULES_H
#define GP_MODEL_RULES_H

#include "base/status.h"
#include "model/expand.h"

/* The layers of a model that has been checked, with its rules resolved. The list borrows from the model's document.
 * GP_CONFIG with the place of a rule that matches nothing, or cannot be applied to what it matches; of a layer, if the
 * list is wrong without its rules. */
GP_MUST_USE gp_status gp_model_ruled_layers(const gp_yaml *model, gp_layer_list *out, gp_error *err);
/* Whether a pattern matches a whole name: `*` any characters, none and dots included, `?` one. */
bool gp_rule_matches(const char *pattern, const char *name);

#endif
