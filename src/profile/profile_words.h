/* Texts about the times of a prediction: where they come from, how old they are, and under what load they were taken.
 *
 * Pure; any thread. */
#ifndef GP_PROFILE_PROFILE_WORDS_H
#define GP_PROFILE_PROFILE_WORDS_H

#include "profile/profile.h"

/* From this slowdown on, a profile was taken under load; unless other programs are known to have used less than
 * GP_PROFILE_QUIET processors meanwhile: then the machine itself causes the slowdown. */
#define GP_PROFILE_SLOWED 1.15
#define GP_PROFILE_QUIET  0.25

/* Of its devices, the greatest. */
double gp_profile_slowdown(const gp_profile *profile);
bool gp_profile_under_load(const gp_profile *profile);

/* Where predicted times come from: "from the profile /…/x.json", "counted, with assumed rates; …". `profile` may be
 * NULL. Owned by the caller. */
GP_MUST_USE gp_status gp_profile_source(const gp_profile *profile, char **out, gp_error *err);
/* "taken 3 days ago, slowdown 1.31: under load"; "" for times that are counted, and where nothing is known. `remedy`
 * follows "under load": what the user can do, GP_PROFILE_MEASURED_AGAIN in gpipe-train; "" if nothing. The text is
 * owned by the caller. */
#define GP_PROFILE_MEASURED_AGAIN "; gpipe-balance measures it again"
GP_MUST_USE gp_status gp_profile_taking(const gp_profile *profile, int64_t now, const char *remedy, char **out,
                                        gp_error *err);

#endif
