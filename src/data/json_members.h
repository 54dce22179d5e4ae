/* Inside the room: the members of a JSON object one after another, in bounded memory. A tree of a hostile header would
 * be many times as large.
 *
 * Values are told apart by brackets and quotes; whether they are right is found when they are parsed, each by itself.
 * One thread.
 */
#ifndef GP_DATA_JSON_MEMBERS_H
#define GP_DATA_JSON_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gp_json_slice {
    const char *text;
    size_t bytes;
} gp_json_slice;

typedef struct gp_json_members {
    gp_json_slice object; /* borrowed */
    size_t at;            /* where the next member, or what is wrong, begins */
    bool begun;
} gp_json_members;

/* The next member: its name with the quotes, its value. False after the last, and if the text is no object or is nested
 * too deep: then *wrong is the message's predicate ("is not valid JSON: …") about `at`, else it is NULL. */
bool gp_json_next(gp_json_members *members, gp_json_slice *name, gp_json_slice *value, const char **wrong);

#endif
