/* Files that are written whole or not at all: beside the target, synced, renamed over it, the folder synced.
 *
 * Whatever happens meanwhile, the target is the old file or the new one. The temporary file is
 * `<target>.tmp-<process>-<number>`. Its writer holds a lock on it (flock), which ends with the process. A failure
 * removes the file; a killed process leaves it for gp_file_remove_stale. If the target was reached through a link, the
 * temporary file is beside the link's target. Any thread, but for the seam of the tests. */
#ifndef GP_BASE_REPLACE_H
#define GP_BASE_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* The text becomes the file. A link stays one, and a file keeps its permissions. GP_IO with the cause, also if
 * something stands there that is no regular file. */
GP_MUST_USE gp_status gp_file_replace(const char *path, const char *text, gp_error *err);

/* The same for a file that is written as it comes. Each is ended once: GP_OK puts the file in place, any other status,
 * which is returned again, leaves the target alone. */
typedef struct gp_replacing gp_replacing;
GP_MUST_USE gp_status gp_file_begin(const char *path, gp_replacing **out, gp_error *err);
GP_MUST_USE gp_status gp_file_add(gp_replacing *file, const void *data, size_t bytes, gp_error *err);
/* Writes over bytes that were added before, from byte `at` of the file on. */
GP_MUST_USE gp_status gp_file_patch(gp_replacing *file, size_t at, const void *data, size_t bytes, gp_error *err);
GP_MUST_USE gp_status gp_file_end(gp_replacing **file, gp_status status, gp_error *err);

/* A mistyped name must not cost a model or a data set: GP_IO if a file is there that does not begin with `head`, or
 * that is neither a regular file nor a device. `kind`: what it should be, as the message says it ("timeline"). An empty
 * file may be replaced. */
GP_MUST_USE gp_status gp_file_check_kind(const char *path, const char *head, const char *kind, gp_error *err);
/* Whether both paths lead to one file, by device and inode; of files that are not there yet, whether they would. */
bool gp_file_is(const char *path, const char *other);
/* The folder of a path's last name, owned by the caller. */
GP_MUST_USE gp_status gp_file_folder(const char *path, char **out, gp_error *err);
/* Syncs a file, or the entries of a folder. GP_IO with the cause. */
GP_MUST_USE gp_status gp_file_sync(const char *path, gp_error *err);
/* Files that stay because something else uses them. */
typedef struct gp_file_use {
    bool (*is_used)(const void *context, const char *path);
    const void *context; /* of is_used */
} gp_file_use;
/* Removes temporary files of `folder` whose target `is_target` accepts by its name, and whose writer is gone: the lock
 * is free. They stay on file systems that are not known to be local (network file systems, FUSE), where the lock of
 * another machine may not be seen. A file in `use` (NULL: there are none) stays. What cannot be removed stays, too. */
void gp_file_remove_stale(const char *folder, bool (*is_target)(const char *name), const gp_file_use *use);

struct stat;
struct statfs;
/* What replacing asks of the system, each as the function of that name. */
typedef struct gp_file_calls {
    ssize_t (*write)(int fd, const void *data, size_t bytes);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*fstat)(int fd, struct stat *about);     /* of a new temporary file */
    int (*fstatfs)(int fd, struct statfs *about); /* of a temporary file that may be stale */
} gp_file_calls;
/* For tests, which let calls fail: NULL for the system's. Not while a file is being replaced. */
void gp_file_set_calls(const gp_file_calls *replacing);

#endif
