/* A simulation in the form of the plan as JSON (docs/timelines.md, "The plan as JSON").
 *
 * Borrows all for the call; one thread per stream. */
#ifndef GP_TUNE_WHAT_IF_JSON_H
#define GP_TUNE_WHAT_IF_JSON_H

#include <stdio.h>

#include "base/status.h"
#include "schedule/play.h"
#include "tune/what_if.h"

/* A simulation that has been played. */
typedef struct gp_what_if_played {
    const gp_what_if *question;
    const gp_stages *stages;
    const gp_programs *programs;
    const gp_waits *waits;
    const gp_play_copies *copies; /* [device] */
    const gp_play *play;          /* with its timeline, if these programs want it */
} gp_what_if_played;

/* Whether the instructions are written: of long programs they are left out. */
bool gp_what_if_json_lists(const gp_programs *programs);
/* The members of an object that are not there in the answer, each after a comma, without braces and on one line. `path`
 * is that of the file with the times. The caller checks the stream. */
GP_MUST_USE gp_status gp_what_if_json(const gp_what_if_played *its, const char *path, FILE *out, gp_error *err);

#endif
