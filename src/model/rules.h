/* `model.rules`: options of layers, given by name, pattern or kind, for built-in models and lists alike.
 *
 * A rule is written into the entries of the list that it matches, so that everything after it sees one list of layers,
 * the same that --expand prints. Rules beat entries, later rules earlier ones. rules.c has what resolves them first:
 * gp_graph_build (graph.h) and gp_model_expand (expand.h). Any thread.
 */
#ifndef GP_MODEL_RULES_H
#define GP_MODEL_RULES_H

#include <stdbool.h>

/* Whether a pattern matches a whole name: `*` any characters, none and dots included, `?` one. */
bool gp_rule_matches(const char *pattern, const char *name);

#endif
