/* Names as people type them: two that differ in case and in signs between words are the same.
 *
 * Pure; any thread. */
#ifndef GP_CONFIG_FOLD_H
#define GP_CONFIG_FOLD_H

#include <stdbool.h>

enum { GP_LONGEST_NAME = 64 }; /* longer names are near nothing */

/* The name without case, '_', '-', '.' and blanks; false if it is too long. */
bool gp_fold_name(const char *name, char out[GP_LONGEST_NAME + 1]);
/* Whether two names are equal without case, '_', '-', '.' and blanks. */
bool gp_same_name(const char *a, const char *b);
/* Index of a name in a NULL-terminated list, which may be NULL; −1: it is not there. */
int gp_index_of(const char *name, const char *const *names);

#endif
