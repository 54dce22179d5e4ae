/* The saver: it writes the run's files, and snapshots beside the run with a thread of its own.
 *
 * A copy of the run's state exists in two cases only: for a snapshot beside the run, until its file is written; and
 * from gp_saver_take until the saver is destroyed. The trainer's thread takes the memory when it is needed, so that the
 * kernel may have promised it to others too (overcommit). The saver's thread gives that of a snapshot back. There is
 * one copy, so the next snapshot waits until the one before is written. All other files are written before the call
 * returns, from a buffer as large as the largest parameter. So is a snapshot for whose copy there is no memory.
 * After a snapshot stands, all but the newest `keep` are removed, and those of later steps, which can only be broken
 * ones that a resumed run passed over. All functions are the trainer's thread's. */
#ifndef GP_STORE_SAVER_H
#define GP_STORE_SAVER_H

#include <stdbool.h>

#include "store/folder.h"
#include "store/snapshot.h"

typedef struct gp_saver gp_saver;

/* `folder`: the run's. `config`: the configuration as it runs, YAML, copied. The plan is borrowed. GP_IO where its
 * snapshots would exceed what a file may have. */
GP_MUST_USE gp_status gp_saver_create(const gp_plan *plan, const char *folder, const char *config, int64_t keep,
                                      gp_saver **out, gp_error *err);
/* Takes the memory of the buffer, so that no later file finds it gone. Without this, the first file takes it. */
GP_MUST_USE gp_status gp_saver_reserve(gp_saver *saver, gp_error *err);
/* Bytes of the run's files, at most; the digits of numbers in them vary. */
typedef struct gp_saver_sizes {
    uint64_t model, snapshot, config;
} gp_saver_sizes;
gp_saver_sizes gp_saver_file_sizes(const gp_saver *saver);
/* For a run of several processes: whether all see the folder. Then each writes its part of a snapshot; else process 0
 * writes all. False at first. */
void gp_saver_share(gp_saver *saver, bool shared);
/* Waits for what is being written. Removes the folder of a snapshot that a failure of the run has cut short. Another
 * process may still write there, and fails then: the cause of the failure must have been told (gp_processes_fail). */
void gp_saver_destroy(gp_saver **saver);

/* The folder is another one now, or has another path. Waits for what is being written. Takes no memory: a run that is
 * short of it saves there nevertheless. */
void gp_saver_move(gp_saver *saver, const gp_path *folder);

/* Before the first snapshot of a run that goes on from one: removes what a killed run would have, all but the newest
 * `keep` of those up to step `newest`. */
void gp_saver_tidy(gp_saver *saver, int64_t newest);

/* The state of a run whose workers rest. `beside`: copies it, and returns while the thread writes it. Fails where the
 * run does; how writing went, gp_saver_wait and gp_saver_poll say. GP_NUMERIC: a tensor is not finite, and nothing is
 * written. */
GP_MUST_USE gp_status gp_saver_snapshot(gp_saver *saver, gp_run *run, const gp_reached *reached, bool beside,
                                        gp_error *err);
/* Writes the tensors of a snapshot again, as they are, with the saver's configuration, before it returns: one by one,
 * through the buffer. The snapshot of that step is replaced. */
GP_MUST_USE gp_status gp_saver_rewrite(gp_saver *saver, const gp_safetensors *file, const gp_reached *reached,
                                       gp_error *err);
/* Waits until nothing is being written, and returns what became of the last snapshot: a failure once. */
GP_MUST_USE gp_status gp_saver_wait(gp_saver *saver, gp_error *err);
/* The same without waiting: GP_OK while it is being written. */
GP_MUST_USE gp_status gp_saver_poll(gp_saver *saver, gp_error *err);

/* Whether the state is finite. GP_NUMERIC names the first tensor that is not. */
GP_MUST_USE gp_status gp_saver_check(gp_saver *saver, gp_run *run, gp_error *err);
/* The same, and copies the state for gp_saver_give. Between the two the saver writes nothing. GP_MEMORY. */
GP_MUST_USE gp_status gp_saver_take(gp_saver *saver, gp_run *run, gp_error *err);

/* Writes the state that gp_saver_take copied into a run of another plan. The saver's own plan may be gone. A state of
 * the optimizer that there was not begins with zeros, as in the first step of a run. */
GP_MUST_USE gp_status gp_saver_give(const gp_saver *saver, gp_run *run, const gp_plan *plan, gp_error *err);

/* The model's tensors alone, in the file `name` of the folder, written before it returns. `metadata` as
 * gp_safetensors_write's. GP_NUMERIC: one of them is not finite, and the file stays as it was. */
GP_MUST_USE gp_status gp_saver_model(gp_saver *saver, gp_run *run, const char *name, const char *const *metadata,
                                     gp_error *err);

#endif
