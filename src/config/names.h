/* Names in messages: what was typed, what is known, and what a wrong name may mean.
 *
 * A wrong name is near a known one by its spelling, or by what users of other programs call it
 * (config/foreign.h). Lists of names are NULL-terminated. Pure functions; any thread.
 */
#ifndef GP_CONFIG_NAMES_H
#define GP_CONFIG_NAMES_H

#include <stdbool.h>

#include "config/fold.h"
#include "config/tree.h"

/* A name as the configuration says it. */
typedef struct gp_placed_name {
    const char *text; /* borrowed */
    gp_place place;
} gp_placed_name;

/* A text in quotation marks for a message: control characters escaped, cut with "…" where it is long. */
typedef struct gp_shown {
    char text[100];
} gp_shown;
gp_shown gp_show(const char *text);

/* "a list", "a mapping", "an empty value", or the text shown. */
gp_shown gp_show_node(const gp_yaml *node);

/* "optimizer.sgd.lr" for a name that means a key of another section than the one whose keys are `known`; NULL: none. */
const char *gp_home_of(const char *name, const char *const *known);

/* The one of `known` that `name` means or misspells; NULL if none is near, or if `name` is known to mean something
 * else.
 */
const char *gp_nearest_name(const char *name, const char *const *known);
/* Whether `name` means one of `later` (NULL-terminated, may be NULL): names that a later version will have. */
bool gp_is_later(const char *name, const char *const *later);

/* The end of a message about a name that is not in `known`: "; did you mean out?", or advice about what users of other
 * programs call so ("; this version has no recurrent layers"), or "". */
typedef struct gp_suggestion {
    char text[200];
} gp_suggestion;
gp_suggestion gp_suggest(const char *name, const char *const *known);
/* The advice alone. */
gp_suggestion gp_advise(const char *name, const char *const *known);

/* "never, except_last, always" */
typedef struct gp_listing {
    char text[400];
} gp_listing;
gp_listing gp_list_names(const char *const *names);

#endif
