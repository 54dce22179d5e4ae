/* A table from names to numbers: what is called what, in constant time.
 *
 * Names are borrowed and outlive the table. The creator frees it; built by one thread, then read by any.
 */
#ifndef GP_MODEL_NAMES_H
#define GP_MODEL_NAMES_H

#include <stddef.h>

#include "base/status.h"

typedef struct gp_name_slot {
    const char *name; /* NULL: free */
    int number;
} gp_name_slot;

typedef struct gp_names {
    gp_name_slot *slots; /* a power of two of them, at most half of them taken */
    size_t size;
} gp_names;

/* Room for `count` names. */
GP_MUST_USE gp_status gp_names_init(gp_names *names, size_t count, gp_error *err);
void gp_names_fini(gp_names *names);
/* Enters a name; gives the number that it has already, or `number` where it is new. At most `count` new ones. */
int gp_names_enter(gp_names *names, const char *name, int number);
/* −1 where there is none. */
int gp_names_find(const gp_names *names, const char *name);

#endif
