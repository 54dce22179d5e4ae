#include "base/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum { TEMPORARY_NAMES = 100 };
static const char mark[] = ".tmp-";

static const gp_file_calls system_calls = {write, fsync, rename};
static const gp_file_calls *calls = &system_calls;

void gp_file_set_calls(const gp_file_calls *replacing) {
    calls = replacing ? replacing : &system_calls;
}

/* Beside the target, so that the rename stays within one file system. O_EXCL: never somebody else's file. */
static gp_status open_temporary(const char *path, char **out, int *out_fd, gp_error *err) {
    for (int i = 0; i < TEMPORARY_NAMES; i++) {
        char *temporary = NULL;
        GP_RETURN_IF_FAILED(gp_format_text(&temporary, err, "%s%s%ld-%d", path, mark, (long)getpid(), i));
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            *out = temporary;
            *out_fd = fd;
            return GP_OK;
        }
        int why = errno;
        if (why != EEXIST) gp_fail(err, GP_IO, "%s: cannot be created: %s", temporary, strerror(why));
        free(temporary);
        if (why != EEXIST) return GP_IO;
    }
    return gp_fail(err, GP_IO, "%s: %d temporary files of other runs stand beside it", path, TEMPORARY_NAMES);
}

static gp_status write_part(int fd, const char *path, const gp_bytes *part, gp_error *err) {
    for (size_t done = 0; done < part->count;) {
        ssize_t now = calls->write(fd, (const char *)part->data + done, part->count - done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return gp_fail(err, GP_IO, "%s: cannot be written: %s", path, strerror(errno));
        if (now == 0) return gp_fail(err, GP_IO, "%s: cannot be written: the system takes no more bytes", path);
        done += (size_t)now;
    }
    return GP_OK;
}

static gp_status write_parts(int fd, const char *path, const gp_bytes *parts, size_t count, gp_error *err) {
    gp_status status = GP_OK;
    for (size_t i = 0; i < count && status == GP_OK; i++) status = write_part(fd, path, &parts[i], err);
    if (status == GP_OK && calls->fsync(fd) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be synced: %s", path, strerror(errno));
    if (close(fd) != 0 && status == GP_OK)
        status = gp_fail(err, GP_IO, "%s: cannot be closed: %s", path, strerror(errno));
    return status;
}

gp_status gp_file_sync(const char *path, gp_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    gp_status status = GP_OK;
    /* Some file systems cannot sync a folder and say EINVAL; there is nothing more to do there. */
    if (fd < 0 || (calls->fsync(fd) != 0 && errno != EINVAL))
        status = gp_fail(err, GP_IO, "%s: cannot be synced: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}

static gp_status sync_folder(const char *path, gp_error *err) {
    const char *slash = strrchr(path, '/');
    char *folder = NULL;
    if (slash)
        GP_RETURN_IF_FAILED(gp_format_text(&folder, err, "%.*s", slash == path ? 1 : (int)(slash - path), path));
    else
        GP_RETURN_IF_FAILED(gp_copy_text(&folder, ".", err));
    gp_status status = gp_file_sync(folder, err);
    free(folder);
    return status;
}

gp_status gp_file_replace(const char *path, const gp_bytes *parts, size_t count, gp_error *err) {
    char *temporary = NULL;
    int fd = -1;
    GP_RETURN_IF_FAILED(open_temporary(path, &temporary, &fd, err));
    gp_status status = write_parts(fd, temporary, parts, count, err);
    if (status == GP_OK && calls->rename(temporary, path) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be renamed to %s: %s", temporary, path, strerror(errno));
    if (status != GP_OK) unlink(temporary);
    if (status == GP_OK) status = sync_folder(path, err);
    free(temporary);
    return status;
}

/* `<target>.tmp-<digits>-<digits>` */
static int is_stale(const char *name) {
    const char *at = strstr(name, mark);
    if (!at || at == name) return 0;
    at += sizeof mark - 1;
    size_t process = strspn(at, "0123456789");
    if (process == 0 || at[process] != '-') return 0;
    at += process + 1;
    size_t number = strspn(at, "0123456789");
    return number > 0 && at[number] == '\0';
}

void gp_file_remove_stale(const char *folder) {
    DIR *entries = opendir(folder);
    if (!entries) return;
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL)
        if (is_stale(entry->d_name)) unlinkat(dirfd(entries), entry->d_name, 0);
    closedir(entries);
}
