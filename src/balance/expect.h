/* How long a plan should take: its programs played with the time of each instruction, from a profile or counted.
 *
 * Pure; one thread. What is made is its creator's. */
#ifndef GP_BALANCE_EXPECT_H
#define GP_BALANCE_EXPECT_H

#include "base/status.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "schedule/play.h"

/* Times of the instructions of one of a plan's mini-batches.
 *
 * With a profile: sums over the layers of the stage, of recomputing those that the stage does compute again; for
 * micro-batches of another size in proportion, but the update always takes its whole time; loads and copies by latency
 * and bytes. What the profile does not have of copies, and everything without layers' times, is counted at the
 * profile's rates or at assumed ones, but copies between workers over a link that is given by its latency and
 * bandwidth: computations take the sum of their ops (gp_rates_seconds), loads and copies, at the receiver, latency and
 * bytes. Sends and barriers take nothing. */
typedef struct gp_durations {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    const gp_profile *profile;         /* NULL: counted, at assumed rates */
    double (*stage)[GP_PROFILE_TIMES]; /* [stage], of the profile's micro-batch; NULL: counted */
} gp_durations;

/* `mini`: index in plan->minis. The profile has been checked for the plan's graph and devices. */
GP_MUST_USE gp_status gp_durations_init(const gp_plan *plan, int mini, const gp_profile *profile, gp_durations *out,
                                        gp_error *err);
void gp_durations_fini(gp_durations *durations);
/* Seconds of computing, and of copying into the worker; messages between processes do not count (schedule/links.h). */
double gp_durations_computing(const gp_durations *durations, const gp_instr *instr);
double gp_durations_copying(const gp_durations *durations, const gp_instr *instr);

/* The mini-batch played with these times, in seconds, with its timeline. Workers on the host share plan->processors:
 * while their threads need more, computations and copies take longer than the times above. */
GP_MUST_USE gp_status gp_expect_play(const gp_plan *plan, int mini, const gp_profile *profile, gp_play **out,
                                     gp_error *err);

/* The same with times that instructions took: seconds[worker][pc] of what computes, and of what copies into the worker
 * where `copies` is set; the rest as long as predicted, and nothing shares processors any more. The caller's. */
typedef struct gp_replay {
    double *const *seconds;
    bool copies;
} gp_replay;
GP_MUST_USE gp_status gp_expect_replay(const gp_plan *plan, int mini, const gp_profile *profile,
                                       const gp_replay *replay, gp_play **out, gp_error *err);

typedef struct gp_expectation {
    double seconds; /* of the step */
    double bubble;  /* share of workers' time in which they compute nothing */
    double *busy;   /* [worker] seconds of computing; the caller frees it */
} gp_expectation;
GP_MUST_USE gp_status gp_expect(const gp_plan *plan, int mini, const gp_profile *profile, gp_expectation *out,
                                gp_error *err);

#endif
