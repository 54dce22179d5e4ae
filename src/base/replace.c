#include "base/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { TEMPORARY_NAMES = 100, MOST_LINKS = 40 };
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

bool gp_file_is(const char *path, const char *other) {
    struct stat its, others;
    return stat(path, &its) == 0 && stat(other, &others) == 0 && its.st_dev == others.st_dev &&
           its.st_ino == others.st_ino;
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

/* Where a link leads, beside it unless it says the whole way; NULL: it is no link. */
static gp_status read_link(const char *path, char **out, gp_error *err) {
    char to[PATH_MAX];
    ssize_t length = readlink(path, to, sizeof to - 1);
    const char *slash = strrchr(path, '/');
    *out = NULL;
    if (length < 0) return GP_OK;
    to[length] = '\0';
    if (to[0] == '/' || !slash) return gp_copy_text(out, to, err);
    return gp_format_text(out, err, "%.*s/%s", (int)(slash - path), path, to);
}

/* The end of a chain of links that leads to what is not there yet. */
static gp_status follow_links(const char *path, char **out, gp_error *err) {
    char *at = NULL, *next = NULL;
    gp_status status = gp_copy_text(&at, path, err);
    for (int i = 0; i < MOST_LINKS && status == GP_OK; i++) {
        status = read_link(at, &next, err);
        if (status != GP_OK || !next) break;
        free(at);
        at = next;
    }
    if (status == GP_OK)
        *out = at;
    else
        free(at);
    return status;
}

/* What is there already: where a link leads, the file itself is replaced, with its permissions; a device or a pipe
 * would be gone, and is refused. */
static gp_status find_target(const char *path, char **out, bool *exists, struct stat *about, gp_error *err) {
    *exists = false;
    if (stat(path, about) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return follow_links(path, out, err);
        return gp_fail(err, GP_IO, "%s: cannot be looked at: %s", path, strerror(errno));
    }
    if (!S_ISREG(about->st_mode))
        return gp_fail(err, GP_IO, "%s: is not a regular file, and is not replaced by one", path);
    *exists = true;
    char *real = realpath(path, NULL);
    if (!real) return gp_fail(err, GP_IO, "%s: cannot be found: %s", path, strerror(errno));
    *out = real;
    return GP_OK;
}

struct gp_replacing {
    char *path, *temporary;
    int fd;
};

gp_status gp_file_begin(const char *path, gp_replacing **out, gp_error *err) {
    gp_replacing *file = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&file, 1, err));
    struct stat about;
    bool exists = false;
    gp_status status = find_target(path, &file->path, &exists, &about, err);
    if (status == GP_OK) status = open_temporary(file->path, &file->temporary, &file->fd, err);
    /* Somebody else's file stays theirs where that may be said; permissions last, which a change of owner can take. */
    if (status == GP_OK && exists && fchown(file->fd, about.st_uid, about.st_gid) != 0) errno = 0;
    if (status == GP_OK && exists && fchmod(file->fd, about.st_mode & 07777) != 0) {
        status = gp_fail(err, GP_IO, "%s: its permissions cannot be set: %s", file->temporary, strerror(errno));
        close(file->fd);
        unlink(file->temporary);
        free(file->temporary);
    }
    if (status != GP_OK) {
        free(file->path);
        free(file);
        return status;
    }
    *out = file;
    return GP_OK;
}

gp_status gp_file_add(gp_replacing *file, const void *data, size_t bytes, gp_error *err) {
    return write_part(file->fd, file->temporary, &(gp_bytes){data, bytes}, err);
}

gp_status gp_file_end(gp_replacing **it, gp_status status, gp_error *err) {
    gp_replacing *file = *it;
    if (status == GP_OK && calls->fsync(file->fd) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be synced: %s", file->temporary, strerror(errno));
    if (close(file->fd) != 0 && status == GP_OK)
        status = gp_fail(err, GP_IO, "%s: cannot be closed: %s", file->temporary, strerror(errno));
    if (status == GP_OK && calls->rename(file->temporary, file->path) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be renamed to %s: %s", file->temporary, file->path, strerror(errno));
    if (status != GP_OK) unlink(file->temporary);
    if (status == GP_OK) {
        status = sync_folder(file->path, err);
        if (status != GP_OK) gp_error_context(err, "%s stands, but its folder may lose it: ", file->path);
    }
    free(file->temporary);
    free(file->path);
    free(file);
    *it = NULL;
    return status;
}

gp_status gp_file_replace(const char *path, const gp_bytes *parts, size_t count, gp_error *err) {
    gp_replacing *file = NULL;
    gp_status status = GP_OK;
    GP_RETURN_IF_FAILED(gp_file_begin(path, &file, err));
    for (size_t i = 0; i < count && status == GP_OK; i++)
        status = gp_file_add(file, parts[i].data, parts[i].count, err);
    return gp_file_end(&file, status, err);
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
