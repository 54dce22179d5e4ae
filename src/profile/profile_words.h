/* Texts about the times of a prediction: where they come from, how old they are, and how disturbed they were.
 *
 * Pure; any thread. */
#ifndef GP_PROFILE_PROFILE_WORDS_H
#define GP_PROFILE_PROFILE_WORDS_H

#include "profile/profile.h"

/* Of its devices, the greatest. */
double gp_profile_slowdown(const gp_profile *profile);

/* Where predicted times come from: "from the profile /…/x.json", "counted, with assumed rates; …". `profile` may be
 * NULL. Owned by the caller. */
GP_MUST_USE gp_status gp_profile_source(const gp_profile *profile, char **out, gp_error *err);
/* "taken 3 days ago, slowdown 1.31" into the buffer, which is returned; "" for times that are counted. */
enum { GP_TAKING_TEXT = 80 };
const char *gp_profile_taking(char buffer[GP_TAKING_TEXT], const gp_profile *profile, int64_t now);

#endif
