#include "data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

gp_status gp_data_fail(gp_error *err, const char *path, uint64_t offset, const char *format, ...) {
    if (!err) return GP_DATA;
    char text[GP_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gp_fail(err, GP_DATA, "%s: offset %" PRIu64 ": %s", path, offset, text);
}

/* A name that leads nowhere says something of the data; what else the system refuses may pass. */
static gp_status cannot_open(const char *path, int why, gp_error *err) {
    gp_status status = why == ENOENT || why == ENOTDIR ? GP_DATA : GP_IO;
    return gp_fail(err, status, "%s: cannot be opened: %s", path, strerror(why));
}

gp_status gp_data_file_open(const char *path, gp_data_file *out, gp_error *err) {
    gp_data_file file = {.fd = -1};
    struct stat about = {0};
    GP_RETURN_IF_FAILED(gp_copy_text(&file.path, path, err));
    gp_status status = GP_OK;
    file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.fd < 0 || fstat(file.fd, &about) != 0)
        status = cannot_open(path, errno, err);
    else if (!S_ISREG(about.st_mode))
        status = gp_fail(err, GP_DATA, "%s: is not a regular file", path);
    if (status != GP_OK) {
        gp_data_file_close(&file);
        return status;
    }
    file.size = (uint64_t)about.st_size;
    *out = file;
    return GP_OK;
}

void gp_data_file_release(gp_data_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

void gp_data_file_close(gp_data_file *file) {
    gp_data_file_release(file);
    free(file->path);
    file->path = NULL;
}

gp_status gp_data_file_read(const gp_data_file *file, uint64_t offset, size_t bytes, void *to, gp_error *err) {
    size_t got = 0;
    while (got < bytes) {
        ssize_t now = pread(file->fd, (char *)to + got, bytes - got, (off_t)(offset + got));
        if (now < 0 && errno == EINTR) continue;
        if (now < 0)
            return gp_fail(err, GP_IO, "%s: offset %" PRIu64 ": cannot be read: %s", file->path, offset + got,
                           strerror(errno));
        if (now == 0) {
            return gp_data_fail(err, file->path, offset + got, "the file ends here; %zu more bytes were expected",
                                bytes - got);
        }
        got += (size_t)now;
    }
    return GP_OK;
}
