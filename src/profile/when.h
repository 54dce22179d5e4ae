/* Points in time as texts: in files in UTC, for people as an age.
 *
 * Pure; any thread. Seconds since 1970. */
#ifndef GP_PROFILE_WHEN_H
#define GP_PROFILE_WHEN_H

#include <stdbool.h>
#include <stdint.h>

enum { GP_WHEN_TEXT = 32 };

/* "2026-11-22T19:02:44Z" into buffer, which is returned. */
const char *gp_when_text(char buffer[GP_WHEN_TEXT], int64_t when);
/* False for any other text. */
bool gp_when_parse(const char *text, int64_t *out);
/* "2026-11-22" */
const char *gp_when_date(char buffer[GP_WHEN_TEXT], int64_t when);
/* "just now", "5 minutes ago", "3 days ago"; "in the future" if the clock was put back. */
const char *gp_when_age(char buffer[GP_WHEN_TEXT], int64_t when, int64_t now);

#endif
