/* Texts about the times of a prediction: where they come from, how old they are, and how disturbed they were.
 *
 * Pure; any thread. */
#ifndef GP_PROFILE_PROFILE_WORDS_H
#define GP_PROFILE_PROFILE_WORDS_H

#include "profile/profile.h"

/* Of its devices, the greatest. */
double gp_profile_slowdown(const gp_profile *profile);

/* How far predicted steps may be off, relative (0.04: ±4 %): two plans are equal if their steps differ by less than the
 * larger spread of their profiles. It has the intervals of the medians, the slowdown's excess over 1, and what scaling
 * adds; measured times are never better than GP_SPREAD_LEAST. 0 of a profile without spread and date, which a user
 * wrote. NULL, or rates only: GP_SPREAD_COUNTED. */
#define GP_SPREAD_LEAST   0.03
#define GP_SPREAD_SCALED  0.1
#define GP_SPREAD_COUNTED 0.3
double gp_profile_spread(const gp_profile *profile);
/* Other programs took so much of the machine while it was measured that it ranks nothing: a slowdown or a spread beyond
 * these. False of counted times. */
#define GP_DISTURBED_SLOWDOWN 1.15
#define GP_DISTURBED_SPREAD   0.1
bool gp_profile_is_disturbed(const gp_profile *profile);
/* What shows it, into the buffer, which is returned: "slowdown 2.26", or "spread 14%" if the slowdown does not. */
const char *gp_profile_disturbance(char buffer[GP_DISTURBANCE_TEXT], const gp_profile *profile);

/* Where predicted times come from: "from the profile /…/x.json", "counted, with assumed rates; …". `profile` may be
 * NULL. Owned by the caller. */
GP_MUST_USE gp_status gp_profile_source(const gp_profile *profile, char **out, gp_error *err);
/* "taken 3 days ago, slowdown 1.31" into the buffer, which is returned; "" for times that are counted. */
enum { GP_TAKING_TEXT = 128 };
const char *gp_profile_taking(char buffer[GP_TAKING_TEXT], const gp_profile *profile, int64_t now);

#endif
