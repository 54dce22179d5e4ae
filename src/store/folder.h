/* The run folder: where it is, whether it may be used, and the names of what lies in it.
 *
 * One thread. */
#ifndef GP_STORE_FOLDER_H
#define GP_STORE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Longer than the system takes: what is cut off here is refused there. */
typedef struct gp_path {
    char text[PATH_MAX + 64];
} gp_path;

/* Makes the folder, parents included, and syncs what names them. GP_IO where it cannot be made. */
GP_MUST_USE gp_status gp_folder_make(const char *path, gp_error *err);
/* The names of what a run writes into its folder, from 0; NULL: there are no more. */
const char *gp_folder_own(int index);
/* Whether a run writes a file of that name there; `snapshots` is a folder. */
bool gp_folder_is_own_file(const char *name);
/* A run writes only into its own folder. The folder may be reached through a link; what a run writes in it may not be
 * links, nor anything but files and the folder `snapshots`. GP_USAGE says what to do. What is not there is no fault. */
GP_MUST_USE gp_status gp_folder_check_own(const char *folder, gp_error *err);
/* The same for one of these names, before it is written. */
GP_MUST_USE gp_status gp_folder_check_entry(const char *folder, const char *name, gp_error *err);
/* GP_USAGE where the folder holds a run. What it says lasts as long as the lock. */
GP_MUST_USE gp_status gp_folder_check_unused(const char *path, gp_error *err);
/* GP_USAGE where the folder holds such names that no run has left there: a configuration or metrics of another program,
 * or others without a run's configuration. */
GP_MUST_USE gp_status gp_folder_check_remains(const char *path, gp_error *err);
/* GP_USAGE where the folder's config.yaml is the configuration that is to run, and the user's own, which the run would
 * write over: not one that a run has left. */
GP_MUST_USE gp_status gp_folder_check_config(const char *path, const char *config, gp_error *err);
/* Holds the folder for this process until it ends, however it ends. GP_USAGE where another one holds it. *there: it is
 * held, unless its file system has no locks. */
GP_MUST_USE gp_status gp_folder_lock(const char *path, bool *there, gp_error *err);
/* A folder that is held open, so that it is found where it is moved to. */
typedef struct gp_folder_held {
    int fd; /* −1: it cannot be opened, and is taken to be at its path */
    gp_path path;
} gp_folder_held;
void gp_folder_hold(const char *path, gp_folder_held *out);
void gp_folder_release(gp_folder_held *held);
/* Whether the folder is at its path still. *moved: it is not, and held->path is the one that it has now. GP_IO where it
 * certainly has none; where that cannot be found out, it is taken to be at its path. */
GP_MUST_USE gp_status gp_folder_find(gp_folder_held *held, bool *moved, gp_error *err);
/* runs/<name of the configuration without folder and .yaml> */
gp_path gp_folder_default(const char *config_path);
/* <folder>/<name> */
gp_path gp_folder_file(const char *folder, const char *name);
/* The step whose weights a model in the folder holds, by its metadata; −1 where it does not say, is broken or is not
 * there. GP_IO or GP_MEMORY where that could not be found out. */
GP_MUST_USE gp_status gp_folder_model_step(const char *folder, const char *name, int64_t *out, gp_error *err);
/* Whether the last line of a text file is not whole, because the run was killed while it wrote. False if that cannot be
 * known. */
bool gp_folder_ends_within_line(const char *path);

#endif
