/* A schedule from a file: an order of tasks, or programs in their text form (schedule/program.h).
 *
 * An order has a line per worker, tasks apart by spaces or commas, F, B, I or W and the micro-batch; where a worker has
 * several stages, the how manyeth of them stands before the letter:
 *
 *   # two workers, four stages, placed as a V
 *   on 0 1 1 0
 *   0F0 0F1 1F0 1B0 …
 *   0F0 1F0 0F1 1F1 …
 *
 * Without `on`, stage s is on worker s mod workers. If a W follows, B is the backward for inputs. The file is for as
 * many micro-batches as it names. A mini-batch that has fewer leaves out the tasks of the others; an evaluation keeps
 * the forwards only. Programs are carried out as they stand, except for their slots, if a mini-batch has as many
 * micro-batches as they have. Else only the order of their tasks counts.
 *
 * If stages have replicas, the file is for the stages or for each replica. One for the stages is carried out by all
 * replicas; of its programs only the order of the tasks counts, since replicas have other copies. In one for each
 * replica all replicas of a stage have the same order of tasks, and programs are carried out as they stand.
 *
 * Owned by the caller; read-only once it is read, any thread.
 */
#ifndef GP_SCHEDULE_SCHEDULE_FILE_H
#define GP_SCHEDULE_SCHEDULE_FILE_H

#include "base/status.h"
#include "schedule/order.h"
#include "schedule/program.h"

typedef struct gp_schedule_file {
    gp_order *order;       /* of the stages */
    gp_programs *programs; /* NULL: the file is an order */
    bool order_only;       /* these are of stages that have replicas */
} gp_schedule_file;

/* `named`: where the path was said; `replicas` NULL: there are none. GP_CONFIG: with path:line:column for what is wrong
 * in the file; with `named` and the path if it cannot be read. */
GP_MUST_USE gp_status gp_schedule_file_read(const char *path, gp_place named, const gp_replicas *replicas,
                                            gp_schedule_file **out, gp_error *err);
/* The same from text; `name` is copied. */
GP_MUST_USE gp_status gp_schedule_file_parse(const char *text, const char *name, const gp_replicas *replicas,
                                             gp_schedule_file **out, gp_error *err);
void gp_schedule_file_destroy(gp_schedule_file **file);

#endif
