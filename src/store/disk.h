/* The disk space of a run's files: what they need at most at one time, and whether the file system has it.
 *
 * Sizes are bytes. Pure functions of their arguments, but for gp_disk_free and gp_disk_held, which look at the disk and
 * change nothing. Any thread. */
#ifndef GP_STORE_DISK_H
#define GP_STORE_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_disk_use {
    uint64_t model;     /* of model.safetensors, and of best.safetensors */
    uint64_t snapshot;  /* of one of them */
    uint64_t config;    /* of config.yaml */
    uint64_t plan;      /* of plan.json */
    bool best;          /* the run evaluates, so that it writes best.safetensors */
    int64_t keep;       /* snapshots that stay; one more stands while it is written */
    int64_t snapshots;  /* that there would be if all stayed; INT64_MAX: no bound is known */
    bool saves_by_time; /* train.save_every says so, and not `about` */
} gp_disk_use;

/* The most that the files take at one time. metrics.jsonl and timelines are left out: their size is not known. */
uint64_t gp_disk_needed(const gp_disk_use *use);
/* Bytes of the folder's file system that this user may still fill; UINT64_MAX: not known. */
uint64_t gp_disk_free(const char *folder);
/* Bytes that the run's old files in the folder take, which the run replaces, removes or goes on with. A file with other
 * names, or that the run begins with (`init`, may be NULL), gives no space back and does not count. */
uint64_t gp_disk_held(const char *folder, const char *init);
/* GP_IO with the sizes, and with the setting that makes the run fit, if `free` and `held` bytes are too few. */
GP_MUST_USE gp_status gp_disk_check(const gp_disk_use *use, const char *folder, uint64_t free, uint64_t held,
                                    gp_error *err);

#endif
