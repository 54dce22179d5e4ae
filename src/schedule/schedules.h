/* The schedules: which tasks each worker carries out, in which order, and on which worker each stage is.
 *
 * Each named schedule is a function and a row of a table in schedules.c; an order or programs may also come from a file
 * (schedule/schedule_file.h). Pure; any thread. */
#ifndef GP_SCHEDULE_SCHEDULES_H
#define GP_SCHEDULE_SCHEDULES_H

#include "schedule/order.h"

/* The schedules. X(enumerator suffix, name in the configuration) */
#define GP_SCHEDULE_MAP(X)                                                                                             \
    X(GPIPE, "gpipe")                                                                                                  \
    X(1F1B, "1f1b")                                                                                                    \
    X(INTERLEAVED, "interleaved")                                                                                      \
    X(ZB_H1, "zb_h1")                                                                                                  \
    X(ZB_H2, "zb_h2")                                                                                                  \
    X(ZB_V, "zb_v")                                                                                                    \
    X(FILE, "file")

typedef enum gp_schedule_kind {
#define GP_SCHEDULE_ENUM(suffix, name) GP_SCHEDULE_##suffix,
    GP_SCHEDULE_MAP(GP_SCHEDULE_ENUM)
#undef GP_SCHEDULE_ENUM
        GP_SCHEDULES
} gp_schedule_kind;
const char *gp_schedule_kind_name(gp_schedule_kind kind);

struct gp_schedule_file;

/* A schedule and its options. */
typedef struct gp_schedule {
    gp_schedule_kind kind;
    int chunks;                          /* INTERLEAVED: stages per worker */
    const struct gp_schedule_file *file; /* FILE: borrowed */
} gp_schedule;

/* Stages that a schedule places on `workers` workers. */
int gp_schedule_stages(const gp_schedule *schedule, int workers);
/* The reverse. */
int gp_schedule_workers(const gp_schedule *schedule, int stages);
/* Where it puts them: worker_of_stage[stage]. */
void gp_schedule_place(const gp_schedule *schedule, int workers, int *worker_of_stage);
/* Whether its backward pass is two tasks; FILE: false, each task of the file says it. */
bool gp_schedule_splits_backward(const gp_schedule *schedule);
/* Whether a mini-batch has the programs of a file, as they stand. Programs of stages with replicas are expanded. They
 * say what is kept and where barriers are. */
bool gp_schedule_has_programs(const gp_schedule *schedule, bool training, int pieces);

/* The order of a mini-batch that trains, clocks set. Any number of micro-batches up to the most. GP_PROGRAM if a file's
 * order cannot be carried out. */
GP_MUST_USE gp_status gp_schedule_order(const gp_schedule *schedule, int workers, int pieces, gp_order **out,
                                        gp_error *err);

#endif
