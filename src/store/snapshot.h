/* Snapshots: the files that hold all that a run needs to go on.
 *
 * A snapshot is a safetensors file with a checksum over every byte: the model's tensors as in model.safetensors, the
 * optimizer's states as `optimizer/<parameter>/<state>`, and in its metadata how far the run was and its configuration
 * (docs/snapshots.md). Functions of the plan and of files; an open snapshot belongs to one thread. */
#ifndef GP_STORE_SNAPSHOT_H
#define GP_STORE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/safetensors.h"
#include "pipeline/run.h"
#include "store/folder.h"

/* How far a run is: what it needs to go on, beside its tensors. */
typedef struct gp_reached {
    int64_t step, epoch;   /* applied; of the last step; from 1, 0: none yet */
    int64_t evaluated;     /* step of the last whole evaluation; −1: none yet */
    double loss;           /* of the last step */
    double accuracy;       /* of the last evaluation; < 0: none */
    int64_t best_step;     /* whose evaluation is the best; −1: none yet */
    double best;           /* its accuracy, or its loss */
    int64_t metrics_bytes; /* of metrics.jsonl */
    /* From version 2 of the format on; 0 and NULL in a file of version 1. */
    int64_t samples; /* of epoch `epoch` that were taken; all of them: it has ended */
    int64_t steps;   /* after which the run is to end */
    int64_t due;     /* 1: an evaluation follows this step, and was not made */
    /* −1: not said, as in older files */
    int64_t train_samples, eval_samples; /* of the data */
    int64_t descending;                  /* gp_sums_descend */
    const char *file_text;               /* the user's configuration file without overrides, as YAML; borrowed */
    const char *libraries;               /* gp_device_libraries of the run's devices; NULL: not said; borrowed */
} gp_reached;

/* The tensors of a run's state, the parameters first, and their places in the one block that a copy takes. */
typedef struct gp_state_layout {
    const gp_plan *plan;        /* borrowed */
    gp_safetensors_item *items; /* as files have them; names are owned */
    gp_tensor_copy *copies;     /* the same, for gp_run_read and gp_run_write */
    int count;
    int params; /* the first ones, which are the model's */
    size_t bytes;
} gp_state_layout;

/* Whether gradients are added up from the last micro-batch to the first; −1: there is nothing to add up. */
int64_t gp_sums_descend(const gp_plan *plan);

/* Without places: data and host are NULL. */
GP_MUST_USE gp_status gp_state_layout_init(gp_state_layout *layout, const gp_plan *plan, gp_error *err);
void gp_state_layout_fini(gp_state_layout *layout);
/* Gives each tensor its place in a block of layout->bytes. */
void gp_state_layout_place(gp_state_layout *layout, char *block);
/* The same for the tensors that the plan's process keeps (gp_run_home), in a block of gp_state_own_bytes. */
void gp_state_layout_place_own(gp_state_layout *layout, char *block);
/* What a copy of the run's state takes, and of the tensors that the plan's process keeps; SIZE_MAX: no size. */
size_t gp_state_bytes(const gp_plan *plan);
size_t gp_state_own_bytes(const gp_plan *plan);
/* Whether the first `count` tensors of a layout with places are finite. GP_NUMERIC names the first that is not: layer,
 * tensor, how much of it. */
GP_MUST_USE gp_status gp_state_check_finite(const gp_state_layout *layout, int count, gp_error *err);

/* The same of one tensor, whose elements are at `values`. */
GP_MUST_USE gp_status gp_state_check_tensor(const gp_state_layout *layout, int index, const void *values,
                                            gp_error *err);

/* <folder>/snapshots/step-00000500.safetensors, which one process writes, and <folder>/snapshots/step-00000500, the
 * folder that several write (store/parts.h). */
gp_path gp_snapshot_file(const char *folder, int64_t step);
gp_path gp_snapshot_folder(const char *folder, int64_t step);
/* The one of both that is there; the file, if none or both are. */
gp_path gp_snapshot_path(const char *folder, int64_t step);
/* Both. What cannot be removed stays. */
void gp_snapshot_remove(const char *folder, int64_t step);
/* The folder, its index first. */
void gp_snapshot_remove_folder(const char *folder, int64_t step);
/* Folders without an index, which a killed run left. */
void gp_snapshot_remove_incomplete(const char *folder);
/* The steps of the folder's snapshots, newest first; owned by the caller. None where there is no such folder. */
GP_MUST_USE gp_status gp_snapshot_list(const char *folder, int64_t **steps, int *count, gp_error *err);
/* Whether a file of that name in `snapshots` is one. */
bool gp_snapshot_is_name(const char *name);
/* Writes one; a link of that name is replaced, and what it leads to stays. `items`: of a gp_state_layout. `source`:
 * where their data come from; NULL: the items have them. */
GP_MUST_USE gp_status gp_snapshot_write(const char *path, const gp_safetensors_item *items, size_t count,
                                        const gp_safetensors_source *source, const gp_reached *reached,
                                        const char *config, gp_error *err);

/* Whether one can be written at all: there are bounds for its tensors and its header. *bytes: its size at most. */
GP_MUST_USE gp_status gp_snapshot_can_be(const char *path, const gp_safetensors_item *items, size_t count,
                                         const char *config, uint64_t *bytes, gp_error *err);

typedef struct gp_snapshot {
    gp_safetensors *file; /* owned */
    gp_reached reached;
    const char *config; /* the configuration as it ran, YAML; borrowed from file */
} gp_snapshot;

/* GP_DATA where the file is missing, or is not to the byte what was written; GP_IO or GP_MEMORY where that could not
 * be found out. */
GP_MUST_USE gp_status gp_snapshot_open(const char *path, gp_snapshot *out, gp_error *err);
void gp_snapshot_close(gp_snapshot *snapshot);
/* Whether it has the tensors of this plan and no others. `changed`: the run goes on with another configuration, and
 * states of the optimizer may be missing or too many. GP_DATA names the tensor. */
GP_MUST_USE gp_status gp_snapshot_check(const gp_snapshot *snapshot, const gp_plan *plan, bool changed, gp_error *err);
/* Writes its tensors into a run; the thread that calls gp_run_*. */
GP_MUST_USE gp_status gp_snapshot_load(const gp_snapshot *snapshot, gp_run *run, const gp_plan *plan, gp_error *err);

/* A tensor of a file (NULL: it is not there) as the model wants it: its shape, F32. GP_DATA says what is otherwise. */
GP_MUST_USE gp_status gp_tensor_check(const gp_safetensor *tensor, const char *name, gp_shape wanted, gp_error *err);
/* Reads a tensor that passed that check: all its `bytes`. GP_DATA: a value is not finite, or a variance is negative. */
GP_MUST_USE gp_status gp_tensor_read(gp_safetensors *file, const char *name, void *values, size_t bytes, gp_error *err);
/* A tensor of an optimizer in a snapshot, which those who want a model leave alone. */
int gp_is_optimizer_tensor(const char *name);

#endif
