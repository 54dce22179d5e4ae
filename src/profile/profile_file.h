/* Profiles as JSON files (docs/profile.md): reading, and writing a file as a whole.
 *
 * The caller owns what is read. Any thread. */
#ifndef GP_PROFILE_PROFILE_FILE_H
#define GP_PROFILE_PROFILE_FILE_H

#include "profile/profile.h"

/* The format that is written, and the only one that is read. */
enum { GP_PROFILE_FORMAT = 2 };
/* Each profile that is written begins with this text. */
extern const char gp_profile_head[];

/* Reads a file of any origin. GP_DATA with path:line:column if it is damaged, of another format, or no profile. */
GP_MUST_USE gp_status gp_profile_read(const char *path, gp_profile **out, gp_error *err);
/* The same from memory; `path` is for messages. */
GP_MUST_USE gp_status gp_profile_parse(const char *text, size_t bytes, const char *path, gp_profile **out,
                                       gp_error *err);

/* Rounds all times to what is written, so that a profile that is read again is the same to the bit. */
void gp_profile_round(gp_profile *profile);
GP_MUST_USE gp_status gp_profile_write(const gp_profile *profile, const char *path, gp_error *err);
/* The same as a text, owned by the caller. */
GP_MUST_USE gp_status gp_profile_text(const gp_profile *profile, char **out, gp_error *err);

#endif
