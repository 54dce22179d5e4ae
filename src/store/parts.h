/* Snapshots of several processes: a folder, step-00000500, in which each process writes a file with the tensors that it
 * keeps (gp_run_home), and an index that process 0 writes last. Without its index the folder is no snapshot.
 *
 * The files are safetensors files with checksums, and the index has their checksums again (data/safetensors.h). The
 * first file has the snapshot's metadata. All processes write at the same time, tensor by tensor; what a tensor has on
 * other processes gets to the one that keeps it by messages. The thread that calls gp_run_*. */
#ifndef GP_STORE_PARTS_H
#define GP_STORE_PARTS_H

#include "store/snapshot.h"

/* Questions of process 0 (gp_run_ask): whether the process sees the run folder, whose token is `number`; to write its
 * part of step `number`; to hold its part of the state, and to give it to the next run (store/held.h). */
enum { GP_ASK_SEES, GP_ASK_SAVE, GP_ASK_HOLD, GP_ASK_GIVE };

/* All processes: writes this one's part; takes part in reading those of the others, whatever becomes of its own.
 * `reached` and `config`: process 0's; NULL for the others. *ran: the failure is not the run's. GP_NUMERIC: a tensor is
 * not finite. */
GP_MUST_USE gp_status gp_part_write(gp_run *run, const gp_plan *plan, const char *folder, int64_t step,
                                    const gp_reached *reached, const char *config, bool *ran, gp_error *err);
/* Process 0: makes the folder of a snapshot, without an index. */
GP_MUST_USE gp_status gp_parts_begin(const char *folder, int64_t step, gp_error *err);
/* Process 0, when all parts are there: the index. */
GP_MUST_USE gp_status gp_parts_end(const gp_plan *plan, const char *folder, int64_t step, gp_error *err);
/* Process 0: puts a file with a random name into the run folder, by which the others know it; and removes it. GP_IO. */
GP_MUST_USE gp_status gp_parts_show_folder(const char *folder, int64_t *token, gp_error *err);
void gp_parts_hide_folder(const char *folder, int64_t token);
/* Whether this process sees the run folder that process 0 writes to. GP_IO. */
GP_MUST_USE gp_status gp_parts_check_folder(const char *folder, int64_t token, gp_error *err);
/* Files of gp_parts_show_folder that a killed run has left. */
void gp_parts_remove_tokens(const char *folder);

#endif
