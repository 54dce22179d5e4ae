#include "base/replace.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/write_error.h"

enum { TEMPORARY_NAMES = 100, MOST_LINKS = 40 };
static const char mark[] = ".tmp-";

static const gp_file_calls system_calls = {write, fsync, rename, fstat, fstatfs};
static const gp_file_calls *calls = &system_calls;

void gp_file_set_calls(const gp_file_calls *replacing) {
    calls = replacing ? replacing : &system_calls;
}

static bool is_same(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* The writer of a temporary file holds a lock on it until the file is in place. The kernel releases the lock when the
 * process ends, however it ends. A file system without locks leaves the file without one; there gp_file_remove_stale
 * removes nothing. Returns 0 or an errno. EEXIST: a process that removes stale files was faster, and the file goes. */
static int hold(int fd, const char *path) {
    struct stat opened, there;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return EEXIST;
    if (calls->fstat(fd, &opened) != 0) return errno;
    if (lstat(path, &there) != 0) return errno == ENOENT ? EEXIST : errno;
    return is_same(&opened, &there) ? 0 : EEXIST;
}

/* A new file with its lock. Returns 0 or an errno; EEXIST: another name may be free. */
static int create_held(const char *path, int *out_fd, gp_error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int why = fd < 0 ? errno : 0;
    char text[GP_WRITE_ERROR_TEXT];
    if (why && why != EEXIST) gp_fail(err, GP_IO, "%s: cannot be created: %s", path, gp_write_error(text, why));
    if (why) return why;
    why = hold(fd, path);
    if (why && why != EEXIST) {
        gp_fail(err, GP_IO, "%s: its attributes cannot be read: %s", path, strerror(why));
        unlink(path);
    }
    if (why)
        close(fd);
    else
        *out_fd = fd;
    return why;
}

/* Beside the target, so that the rename stays within one file system. */
static gp_status open_temporary(const char *path, char **out, int *out_fd, gp_error *err) {
    for (int i = 0; i < TEMPORARY_NAMES; i++) {
        char *temporary = NULL;
        GP_RETURN_IF_FAILED(gp_format_text(&temporary, err, "%s%s%ld-%d", path, mark, (long)getpid(), i));
        int why = create_held(temporary, out_fd, err);
        if (why == 0) {
            *out = temporary;
            return GP_OK;
        }
        free(temporary);
        if (why != EEXIST) return GP_IO;
    }
    return gp_fail(err, GP_IO,
                   "%s: %d temporary files of other runs exist (%s%s*): remove those of runs that have ended", path,
                   TEMPORARY_NAMES, path, mark);
}

gp_status gp_file_sync(const char *path, gp_error *err) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* never waits for the writer of a FIFO */
    char text[GP_WRITE_ERROR_TEXT];
    gp_status status = GP_OK;
    /* Some file systems cannot sync a folder and say EINVAL; there is nothing more to do there. */
    if (fd < 0 || (calls->fsync(fd) != 0 && errno != EINVAL))
        status = gp_fail(err, GP_IO, "%s: cannot be synced: %s", path, gp_write_error(text, errno));
    if (fd >= 0) close(fd);
    return status;
}

gp_status gp_file_folder(const char *path, char **out, gp_error *err) {
    const char *slash = strrchr(path, '/');
    if (!slash) return gp_copy_text(out, ".", err);
    return gp_format_text(out, err, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static gp_status sync_folder(const char *path, gp_error *err) {
    char *folder = NULL;
    GP_RETURN_IF_FAILED(gp_file_folder(path, &folder, err));
    gp_status status = gp_file_sync(folder, err);
    free(folder);
    return status;
}

/* Where a chain of links ends, which leads to what is not there yet; a path that is no link stays. */
static gp_status follow_links(const char *path, char **out, gp_error *err) {
    char to[PATH_MAX], *at = NULL;
    gp_status status = gp_copy_text(&at, path, err);
    for (int i = 0; i < MOST_LINKS && status == GP_OK; i++) {
        ssize_t length = readlink(at, to, sizeof to);
        if (length < 0) break;
        const char *slash = strrchr(at, '/');
        int folder = slash && to[0] != '/' ? (int)(slash + 1 - at) : 0;
        char *before = at;
        status = gp_format_text(&at, err, "%.*s%.*s", folder, before, (int)length, to);
        free(before);
    }
    if (status == GP_OK) *out = at;
    return status;
}

/* Two files that are not there: one folder, one name. */
static bool will_be_same(const char *path, const char *other) {
    char *ends[2] = {NULL}, *folders[2] = {NULL};
    const char *names[2];
    struct stat about[2];
    bool known = follow_links(path, &ends[0], NULL) == GP_OK && follow_links(other, &ends[1], NULL) == GP_OK;
    for (int i = 0; i < 2 && known; i++) {
        const char *slash = strrchr(ends[i], '/');
        names[i] = slash ? slash + 1 : ends[i];
        known = gp_file_folder(ends[i], &folders[i], NULL) == GP_OK && stat(folders[i], &about[i]) == 0;
    }
    bool same = known && is_same(&about[0], &about[1]) && strcmp(names[0], names[1]) == 0;
    for (int i = 0; i < 2; i++) {
        free(ends[i]);
        free(folders[i]);
    }
    return same;
}

gp_status gp_file_check_kind(const char *path, const char *head, const char *kind, gp_error *err) {
    enum { LONGEST_HEAD = 64 };
    struct stat about;
    char found[LONGEST_HEAD];
    size_t length = strlen(head);
    assert(length <= sizeof found);
    if (stat(path, &about) != 0 || S_ISCHR(about.st_mode)) return GP_OK;
    if (!S_ISREG(about.st_mode)) return gp_fail(err, GP_IO, "%s: cannot be written: it is not a regular file", path);
    if (about.st_size == 0) return GP_OK;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool same = fd >= 0 && read(fd, found, length) == (ssize_t)length && memcmp(found, head, length) == 0;
    if (fd >= 0) close(fd);
    return same ? GP_OK : gp_fail(err, GP_IO, "%s: the file exists, and is not a %s: choose another name", path, kind);
}

bool gp_file_is(const char *path, const char *other) {
    struct stat its, others;
    bool there = stat(path, &its) == 0, other_there = stat(other, &others) == 0;
    if (there && other_there) return is_same(&its, &others);
    return !there && !other_there && will_be_same(path, other);
}

/* What is there already: where a link leads, the file itself is replaced, with its permissions; a device or a pipe
 * would be gone, and is refused. */
static gp_status find_target(const char *path, char **out, bool *exists, struct stat *about, gp_error *err) {
    *exists = false;
    if (stat(path, about) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return follow_links(path, out, err);
        return gp_fail(err, GP_IO, "%s: its attributes cannot be read: %s", path, strerror(errno));
    }
    if (!S_ISREG(about->st_mode))
        return gp_fail(err, GP_IO, "%s: is not a regular file, and cannot be replaced: choose another name", path);
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
    /* The owner of the file stays, if the system permits that; permissions last, which a change of owner can take. */
    if (status == GP_OK && exists && fchown(file->fd, about.st_uid, about.st_gid) != 0) errno = 0;
    if (status == GP_OK && exists && fchmod(file->fd, about.st_mode & 07777) != 0) {
        gp_fail(err, GP_IO, "%s: its permissions cannot be set: %s", file->temporary, strerror(errno));
        return gp_file_end(&file, GP_IO, err);
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
    const char *path = file->temporary;
    char text[GP_WRITE_ERROR_TEXT];
    for (size_t done = 0; done < bytes;) {
        ssize_t now = calls->write(file->fd, (const char *)data + done, bytes - done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return gp_fail(err, GP_IO, "%s: cannot be written: %s", path, gp_write_error(text, errno));
        if (now == 0) return gp_fail(err, GP_IO, "%s: cannot be written: the system takes no more bytes", path);
        done += (size_t)now;
    }
    return GP_OK;
}

gp_status gp_file_patch(gp_replacing *file, size_t at, const void *data, size_t bytes, gp_error *err) {
    char text[GP_WRITE_ERROR_TEXT];
    off_t end = lseek(file->fd, 0, SEEK_CUR);
    bool moved = end >= 0 && lseek(file->fd, (off_t)at, SEEK_SET) >= 0;
    gp_status status = moved ? gp_file_add(file, data, bytes, err) : GP_OK;
    if (status == GP_OK && (!moved || lseek(file->fd, end, SEEK_SET) < 0))
        status = gp_fail(err, GP_IO, "%s: cannot be written again: %s", file->temporary, gp_write_error(text, errno));
    return status;
}

gp_status gp_file_end(gp_replacing **it, gp_status status, gp_error *err) {
    gp_replacing *file = *it;
    char text[GP_WRITE_ERROR_TEXT];
    if (status == GP_OK && calls->fsync(file->fd) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be synced: %s", file->temporary, gp_write_error(text, errno));
    if (status == GP_OK && calls->rename(file->temporary, file->path) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be renamed to %s: %s", file->temporary, file->path,
                         gp_write_error(text, errno));
    if (status != GP_OK) unlink(file->temporary);
    /* Last, since the lock goes with it. The file is synced, so nothing is left that closing could fail to write. */
    close(file->fd);
    if (status == GP_OK) {
        status = sync_folder(file->path, err);
        if (status != GP_OK)
            gp_error_context(err, "%s was written, but a crash of the machine may still lose it: ", file->path);
    }
    free(file->temporary);
    free(file->path);
    free(file);
    *it = NULL;
    return status;
}

gp_status gp_file_replace(const char *path, const char *text, gp_error *err) {
    gp_replacing *file = NULL;
    GP_RETURN_IF_FAILED(gp_file_begin(path, &file, err));
    return gp_file_end(&file, gp_file_add(file, text, strlen(text), err), err);
}

/* Reads a number as "%ld" writes it, and moves `*text` to the character after it. −1: there is no such number. */
static long take_number(const char **text) {
    char *end = NULL;
    bool plain = **text >= '0' && **text <= '9' && !(**text == '0' && (*text)[1] >= '0' && (*text)[1] <= '9');
    long number = plain ? strtol(*text, &end, 10) : -1;
    if (plain) *text = end;
    return number;
}

/* `<target>.tmp-<process>-<number>` as open_temporary makes it. */
static bool is_temporary(const char *name, bool (*is_target)(const char *name)) {
    char target[NAME_MAX + 1];
    const char *at = name, *last = NULL;
    for (; (at = strstr(at, mark)) != NULL; at++) last = at;
    if (!last || (size_t)(last - name) >= sizeof target) return false;
    at = last + sizeof mark - 1;
    bool ours = take_number(&at) > 0 && *at++ == '-';
    long number = ours ? take_number(&at) : -1;
    if (number < 0 || number >= TEMPORARY_NAMES || *at) return false;
    snprintf(target, sizeof target, "%.*s", (int)(last - name), name);
    return is_target(target);
}

/* Whether a free lock proves that no process writes the file. On a file system that several machines share, another
 * machine's lock may not be seen. So only file systems that are known to be local are in the list (statfs(2)). */
static bool locks_prove(int fd) {
    static const unsigned long local[] = {
        0xEF53,     /* ext2, ext3, ext4 */
        0x58465342, /* XFS */
        0x9123683E, /* Btrfs */
        0xCA451A4E, /* bcachefs */
        0x2FC12FC1, /* ZFS */
        0xF2F52010, /* F2FS */
        0x01021994, /* tmpfs */
        0x858458F6, /* ramfs */
        0x794C7630, /* overlayfs */
    };
    struct statfs system;
    if (calls->fstatfs(fd, &system) != 0) return false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (((unsigned long)system.f_type & 0xFFFFFFFFUL) == local[i]) return true;
    return false;
}

/* The lock is held while the name is removed, so that no writer takes the file over meanwhile. */
static void remove_if_left(int folder, const char *name) {
    struct stat opened, there;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return;
    bool left = fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && locks_prove(fd) &&
                flock(fd, LOCK_EX | LOCK_NB) == 0 && fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                is_same(&opened, &there);
    if (left) unlinkat(folder, name, 0);
    close(fd);
}

/* Whether the entry has another use: then it stays. */
static bool is_in_use(const char *folder, const char *name, const gp_file_use *use) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return use && (length < 0 || (size_t)length >= sizeof path || use->is_used(use->context, path));
}

void gp_file_remove_stale(const char *folder, bool (*is_target)(const char *name), const gp_file_use *use) {
    DIR *entries = opendir(folder);
    if (!entries) return;
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL)
        if (is_temporary(entry->d_name, is_target) && !is_in_use(folder, entry->d_name, use))
            remove_if_left(dirfd(entries), entry->d_name);
    closedir(entries);
}
