/* Files that are written whole or not at all: beside the target, synced, renamed over it, the folder synced.
 *
 * Whatever happens meanwhile, the target is the old file or the new one. A failure removes the temporary file; a killed
 * process leaves it, `<target>.tmp-<process>-<number>`, for gp_file_remove_stale; where the file was reached through a
 * link, beside what that leads to, in a folder that nobody who removes holds: there it stays. Any thread, but for the
 * seam of the tests. */
#ifndef GP_BASE_REPLACE_H
#define GP_BASE_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct gp_bytes {
    const void *data;
    size_t count;
} gp_bytes;

/* The parts one after another become the file. A link stays one, and a file keeps its permissions. GP_IO with the
 * cause, also where something stands there that is no regular file. */
GP_MUST_USE gp_status gp_file_replace(const char *path, const gp_bytes *parts, size_t count, gp_error *err);

/* The same for a file that is written as it comes. Each is ended once: GP_OK puts the file in place, any other status,
 * which is returned again, leaves the target alone. */
typedef struct gp_replacing gp_replacing;
GP_MUST_USE gp_status gp_file_begin(const char *path, gp_replacing **out, gp_error *err);
GP_MUST_USE gp_status gp_file_add(gp_replacing *file, const void *data, size_t bytes, gp_error *err);
GP_MUST_USE gp_status gp_file_end(gp_replacing **file, gp_status status, gp_error *err);

/* Whether both are there and the same file, whatever they are called: what is written over one is lost in the other. */
bool gp_file_is(const char *path, const char *other);
/* Syncs a file, or the entries of a folder. GP_IO with the cause. */
GP_MUST_USE gp_status gp_file_sync(const char *path, gp_error *err);
/* Removes what killed processes left of replacing files of `folder`, which the caller must hold: what a living process
 * writes there looks the same. Hence not where links of the folder lead. What cannot be removed stays. */
void gp_file_remove_stale(const char *folder);

/* What replacing asks of the system, each as the function of that name. */
typedef struct gp_file_calls {
    ssize_t (*write)(int fd, const void *data, size_t bytes);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
} gp_file_calls;
/* For tests, which let calls fail: NULL for the system's. Not while a file is being replaced. */
void gp_file_set_calls(const gp_file_calls *replacing);

#endif
