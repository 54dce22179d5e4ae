/* Inside the room: where in its text a value of a JSON document stands, which jansson does not keep.
 *
 * Pure; any thread. */
#ifndef GP_BALANCE_JSON_PLACE_H
#define GP_BALANCE_JSON_PLACE_H

#include <stddef.h>

#include "base/status.h"

/* One step from the root: to the value of a key, or, where key is NULL, to an element. */
typedef struct gp_json_step {
    const char *key;
    size_t index;
} gp_json_step;

/* The place at the end of `count` steps in a text that is valid JSON without escapes in the keys on the way; where the
 * last step's key is missing, that of the object. `path` is borrowed. */
gp_place gp_json_place(const char *text, size_t bytes, const char *path, const gp_json_step *steps, size_t count);

#endif
