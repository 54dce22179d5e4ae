/* The saver: a thread that writes snapshots while the run goes on, and the block of memory that it writes them from.
 *
 * The trainer's thread copies the run's state into the block, which is reserved when the saver is created, and hands it
 * over; there is one block, so the next copy waits until the one before is written. After a snapshot stands, all but
 * the newest `keep` are removed, and those of later steps, which can only be broken ones that a resumed run passed
 * over. All functions are the trainer's thread's. */
#ifndef GP_STORE_SAVER_H
#define GP_STORE_SAVER_H

#include "store/snapshot.h"

typedef struct gp_saver gp_saver;

/* `folder`: the run's. `config`: the configuration as it runs, YAML, copied. The plan is borrowed. GP_IO where its
 * snapshots would exceed what a file may have. */
GP_MUST_USE gp_status gp_saver_create(const gp_plan *plan, const char *folder, const char *config, int64_t keep,
                                      gp_saver **out, gp_error *err);
/* Bytes of the run's files, at most; the digits of numbers in them vary. */
typedef struct gp_saver_sizes {
    uint64_t model, snapshot, config;
} gp_saver_sizes;
gp_saver_sizes gp_saver_file_sizes(const gp_saver *saver);
/* Waits for what is being written. */
void gp_saver_destroy(gp_saver **saver);

/* Before the first snapshot of a run that goes on from one: removes what a killed run would have, all but the newest
 * `keep` of those up to step `newest`. */
void gp_saver_tidy(gp_saver *saver, int64_t newest);

/* Copies the state of a run whose workers rest, and returns while the thread writes it. Fails where the run does; how
 * writing went, gp_saver_wait and gp_saver_poll say. GP_NUMERIC: a tensor is not finite, and nothing is written. */
GP_MUST_USE gp_status gp_saver_snapshot(gp_saver *saver, gp_run *run, const gp_reached *reached, gp_error *err);
/* Writes the tensors of a snapshot again, as they are, with the saver's configuration, before it returns. The snapshot
 * of that step is replaced. */
GP_MUST_USE gp_status gp_saver_rewrite(gp_saver *saver, const gp_safetensors *file, const gp_reached *reached,
                                       gp_error *err);
/* Waits until nothing is being written, and returns what became of the last snapshot: a failure once. */
GP_MUST_USE gp_status gp_saver_wait(gp_saver *saver, gp_error *err);
/* The same without waiting: GP_OK while it is being written. */
GP_MUST_USE gp_status gp_saver_poll(gp_saver *saver, gp_error *err);

/* Copies the state, and writes nothing: whether it is finite. GP_NUMERIC names the first tensor that is not. */
GP_MUST_USE gp_status gp_saver_check(gp_saver *saver, gp_run *run, gp_error *err);

/* Writes the state that was copied last into a run of another plan. The saver's own plan may be gone. A state of the
 * optimizer that there was not begins with zeros, as in the first step of a run. */
GP_MUST_USE gp_status gp_saver_give(const gp_saver *saver, gp_run *run, const gp_plan *plan, gp_error *err);

/* The model's tensors alone, in the file `name` of the folder, written before it returns. `metadata` as
 * gp_safetensors_write's. GP_NUMERIC: one of them is not finite, and the file stays as it was. */
GP_MUST_USE gp_status gp_saver_model(gp_saver *saver, gp_run *run, const char *name, const char *const *metadata,
                                     gp_error *err);

#endif
