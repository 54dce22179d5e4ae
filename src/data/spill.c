#include "data/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/write_error.h"

static const char *temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

static gp_status fail_io(const gp_spill *spill, gp_error *err) {
    char text[GP_WRITE_ERROR_TEXT];
    int why = errno;
    return gp_fail(err, GP_IO, "%s: cannot be decompressed into a temporary file in %s: %s%s", spill->what,
                   temporary_folder(), gp_write_error(text, why),
                   why == EFBIG ? "" : "; to use another folder, set TMPDIR");
}

gp_status gp_spill_open(gp_spill *spill, const char *what, uint64_t most, size_t memory, gp_error *err) {
    char *path = NULL;
    *spill = (gp_spill){.what = what, .fd = -1};
    if (most <= memory) {
        spill->data = malloc(most ? most : 1);
        return spill->data ? GP_OK : gp_fail(err, GP_MEMORY, "out of memory: %zu bytes of %s", (size_t)most, what);
    }
    GP_RETURN_IF_FAILED(gp_format_text(&path, err, "%s/gpipe-train-XXXXXX", temporary_folder()));
    spill->fd = mkostemp(path, O_CLOEXEC);
    gp_status status = spill->fd < 0 ? fail_io(spill, err) : GP_OK;
    if (status == GP_OK) unlink(path);
    free(path);
    return status;
}

void gp_spill_close(gp_spill *spill) {
    if (spill->fd >= 0) close(spill->fd);
    free(spill->data);
    spill->data = NULL;
    spill->fd = -1;
}

static gp_status write_all(gp_spill *spill, const unsigned char *from, size_t bytes, gp_error *err) {
    while (bytes > 0) {
        ssize_t wrote = write(spill->fd, from, bytes);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_io(spill, err);
        from += wrote;
        bytes -= (size_t)wrote;
    }
    return GP_OK;
}

gp_status gp_spill_append(gp_spill *spill, const void *from, size_t bytes, gp_error *err) {
    if (spill->data)
        memcpy(spill->data + spill->bytes, from, bytes);
    else
        GP_RETURN_IF_FAILED(write_all(spill, from, bytes, err));
    spill->bytes += bytes;
    return GP_OK;
}

size_t gp_spill_held(const gp_spill *spill) {
    return spill->data ? (size_t)spill->bytes : 0;
}

gp_status gp_spill_read(const gp_spill *spill, uint64_t from, size_t bytes, void *to, gp_error *err) {
    assert(from <= spill->bytes && bytes <= spill->bytes - from);
    if (spill->data) {
        memcpy(to, spill->data + from, bytes);
        return GP_OK;
    }
    for (size_t got = 0; got < bytes;) {
        ssize_t now = pread(spill->fd, (char *)to + got, bytes - got, (off_t)(from + got));
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0)
            return gp_fail(err, GP_IO, "%s: its temporary file cannot be read: %s", spill->what,
                           now < 0 ? strerror(errno) : "it ends early");
        got += (size_t)now;
    }
    return GP_OK;
}
