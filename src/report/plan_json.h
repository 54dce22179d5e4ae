/* The plan as JSON (docs/timelines.md, "The plan as JSON"): what --plan --json prints, and what a run leaves in its
 * folder and in its timelines.
 *
 * Stages, workers, copies, and the programs of every size of mini-batch with the predicted time of each instruction.
 * Written as it goes to a stream of the caller, so that its text takes no memory. Borrows all for the call, touches no
 * device. One thread per stream. */
#ifndef GP_REPORT_PLAN_JSON_H
#define GP_REPORT_PLAN_JSON_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "plan/plan.h"
#include "profile/profile.h"

typedef struct gp_session gp_session; /* session/session.h */

typedef struct gp_plan_json {
    const gp_plan *plan;
    const gp_profile *profile; /* NULL: times are counted */
    const char *config;        /* path of the configuration; its last part is the name of the plan */
    bool all;                  /* instructions too if there are more than GP_PROGRAM_JSON_MOST */
} gp_plan_json;

/* Of a session's plan, as files have it. */
gp_plan_json gp_plan_json_of(const gp_session *session);
/* An object, without a newline at its end. GP_MEMORY; the caller checks the stream. */
GP_MUST_USE gp_status gp_plan_json_write(const gp_plan_json *its, FILE *out, gp_error *err);
/* The same with a newline, and GP_IO if the stream does not take it. */
GP_MUST_USE gp_status gp_plan_json_print(const gp_plan_json *its, FILE *out, gp_error *err);
/* The same into a file, whole or not at all; and the bytes of that file. */
GP_MUST_USE gp_status gp_plan_json_replace(const gp_plan_json *its, const char *path, gp_error *err);
GP_MUST_USE gp_status gp_plan_json_bytes(const gp_plan_json *its, uint64_t *out, gp_error *err);

#endif
