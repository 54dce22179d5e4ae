/* Programs as JSON, with the times of a play: part of the plan as JSON (docs/timelines.md, "The plan as JSON").
 *
 * Written instruction by instruction to a stream of the caller, so that a long program takes no memory as text. What
 * each instruction waits for is written as the instructions that end these waits. Borrows all for the call; one thread
 * per stream. */
#ifndef GP_PLAN_PROGRAM_JSON_H
#define GP_PLAN_PROGRAM_JSON_H

#include <stdio.h>

#include "base/status.h"
#include "schedule/play.h"

typedef struct gp_program_json {
    /* Programs and waits; its durations are not asked. Where copies are QUEUED and `queues` is NULL, a computation
     * waits for all copies that stand before it. */
    const gp_play_request *played;
    const gp_play *play; /* of these programs */
    double milliseconds; /* in a unit of the play's time */
    /* Bytes that a load, a copy or a collective moves, and bytes alive on a worker while each of its instructions runs.
     * NULL: not known. */
    size_t (*bytes)(const void *context, const gp_instr *instr);
    gp_status (*follow)(const void *context, int worker, size_t *bytes, gp_error *err);
    const void *context;
    bool instructions; /* else only the sums of each worker */
    bool slots;        /* instructions have their flags and slots */
    bool lines;        /* each instruction on a line of its own; else all on one line */
} gp_program_json;

/* "workers":[{"busy_ms":…,"copy_ms":…,"instructions":[…]},…]. With instructions the play has its timeline. GP_MEMORY;
 * the caller checks the stream. */
GP_MUST_USE gp_status gp_program_json_write(const gp_program_json *its, FILE *out, gp_error *err);

/* "collectives":[{"kind":…,"carries":…,"root":…,"transport":…},…]. */
void gp_collectives_json_write(const gp_stages *stages, FILE *out);

enum { GP_PROGRAM_JSON_MOST = 200000 };
/* Whether files that hold more than the programs leave out the instructions: `count` of them are too many. The waits of
 * barriers in which all workers meet count, too. */
size_t gp_program_json_size(const gp_programs *programs, const gp_waits *meets);

#endif
