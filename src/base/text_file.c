#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static gp_status refuse_kind(mode_t mode, const char *path, gp_error *err) {
    if (S_ISDIR(mode)) return gp_fail(err, GP_CONFIG, "%s: is a directory, not a file", path);
    return gp_fail(err, GP_CONFIG, "%s: is not a regular file", path);
}

static gp_status read_open_file(int file, const char *path, size_t most, const char *what, char **text, size_t *bytes,
                                gp_error *err) {
    struct stat info;
    if (fstat(file, &info) != 0) return gp_fail(err, GP_CONFIG, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return refuse_kind(info.st_mode, path, err);
    if ((unsigned long long)info.st_size > most)
        return gp_fail(err, GP_CONFIG, "%s: the file has %lld bytes, but %s may have at most %zu", path,
                       (long long)info.st_size, what, most);
    size_t size = (size_t)info.st_size, used = 0;
    GP_RETURN_IF_FAILED(GP_NEW(text, size + 1, err));
    while (used < size) {
        ssize_t got = read(file, *text + used, size - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gp_fail(err, GP_CONFIG, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0) break;
        used += (size_t)got;
    }
    *bytes = used;
    return GP_OK;
}

gp_status gp_text_file_read(const char *path, size_t most, const char *what, char **text, size_t *bytes,
                            gp_error *err) {
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    char *all = NULL;
    if (file < 0) return gp_fail(err, GP_CONFIG, "%s: cannot be opened: %s", path, strerror(errno));
    gp_status status = read_open_file(file, path, most, what, &all, bytes, err);
    close(file);
    if (status != GP_OK)
        free(all);
    else
        *text = all;
    return status;
}
