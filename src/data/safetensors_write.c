#include "data/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors holds little-endian numbers, written as they are");

enum { HEADER_UNIT = 8, TEMPORARY_NAMES = 100 };

static gp_status item_bytes(const char *path, const gp_safetensors_item *item, size_t *out, gp_error *err) {
    size_t bytes = gp_dtype_size(item->dtype);
    bool right = item->rank >= 0 && item->rank <= GP_SAFETENSORS_MAX_RANK;
    for (int i = 0; right && i < item->rank; i++)
        right = item->dim[i] >= 0 && gp_size_mul(bytes, (size_t)item->dim[i], &bytes);
    if (!right) return gp_fail(err, GP_IO, "%s: tensor \"%s\" has an impossible shape", path, item->name);
    *out = bytes;
    return GP_OK;
}

static json_t *item_entry(const gp_safetensors_item *item, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < item->rank; i++) json_array_append_new(shape, json_integer(item->dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", gp_dtype_name(item->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

static gp_status add_metadata(const char *path, json_t *header, const char *const *metadata, gp_error *err) {
    json_t *pairs = json_object();
    bool right = pairs != NULL;
    for (size_t i = 0; right && metadata[i]; i += 2)
        right = json_object_set_new(pairs, metadata[i], json_string(metadata[i + 1])) == 0;
    if (json_object_set_new(header, "__metadata__", pairs) != 0) right = false;
    if (!right) return gp_fail(err, GP_IO, "%s: the metadata cannot be written as JSON: is it all UTF-8?", path);
    return GP_OK;
}

static gp_status add_items(const char *path, json_t *header, const gp_safetensors_item *items, size_t count,
                           gp_error *err) {
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        size_t begin = end;
        size_t bytes = 0;
        GP_RETURN_IF_FAILED(item_bytes(path, &items[i], &bytes, err));
        if (!gp_size_add(begin, bytes, &end) || end > INT64_MAX)
            return gp_fail(err, GP_IO, "%s: the tensors have more bytes than a file can", path);
        if (json_object_get(header, items[i].name))
            return gp_fail(err, GP_IO, "%s: there are two tensors \"%s\"", path, items[i].name);
        if (json_object_set_new(header, items[i].name, item_entry(&items[i], begin, end)) != 0) {
            return gp_fail(err, GP_IO, "%s: tensor \"%s\": its name cannot be written as JSON: is it UTF-8?", path,
                           items[i].name);
        }
    }
    return GP_OK;
}

/* The whole head of the file: length, JSON, spaces up to a multiple of eight. */
static gp_status make_head(const char *path, const json_t *header, char **out, size_t *out_bytes, gp_error *err) {
    size_t text_bytes = json_dumpb(header, NULL, 0, JSON_COMPACT);
    size_t padded = gp_align_up(text_bytes, HEADER_UNIT);
    if (text_bytes == 0 || padded > GP_SAFETENSORS_MAX_HEADER) {
        return gp_fail(err, GP_IO, "%s: the header would have %zu bytes; at most %d are allowed", path, text_bytes,
                       GP_SAFETENSORS_MAX_HEADER);
    }
    char *head = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&head, sizeof(uint64_t) + padded, err));
    uint64_t length = padded;
    memcpy(head, &length, sizeof length);
    memset(head + sizeof length, ' ', padded);
    if (json_dumpb(header, head + sizeof length, padded, JSON_COMPACT) != text_bytes) {
        free(head);
        return gp_fail(err, GP_MEMORY, "out of memory: a header of %zu bytes", text_bytes);
    }
    *out = head;
    *out_bytes = sizeof length + padded;
    return GP_OK;
}

static gp_status build_head(const char *path, const gp_safetensors_item *items, size_t count,
                            const char *const *metadata, char **out, size_t *out_bytes, gp_error *err) {
    json_t *header = json_object();
    if (!header) return gp_fail(err, GP_MEMORY, "out of memory: the header of %s", path);
    gp_status status = metadata ? add_metadata(path, header, metadata, err) : GP_OK;
    if (status == GP_OK) status = add_items(path, header, items, count, err);
    if (status == GP_OK) status = make_head(path, header, out, out_bytes, err);
    json_decref(header);
    return status;
}

static gp_status write_all(int fd, const char *path, const void *data, size_t bytes, gp_error *err) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t now = write(fd, (const char *)data + done, bytes - done);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) return gp_fail(err, GP_IO, "%s: cannot be written: %s", path, strerror(errno));
        done += (size_t)now;
    }
    return GP_OK;
}

/* Beside the target, so that the rename stays within one file system. O_EXCL: never somebody else's file. */
static gp_status open_temporary(const char *path, char **out, int *out_fd, gp_error *err) {
    for (int i = 0; i < TEMPORARY_NAMES; i++) {
        char *temporary = NULL;
        GP_RETURN_IF_FAILED(gp_format_text(&temporary, err, "%s.tmp-%ld-%d", path, (long)getpid(), i));
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

static gp_status sync_folder(const char *path, gp_error *err) {
    const char *slash = strrchr(path, '/');
    char *folder = NULL;
    if (slash)
        GP_RETURN_IF_FAILED(gp_format_text(&folder, err, "%.*s", slash == path ? 1 : (int)(slash - path), path));
    else
        GP_RETURN_IF_FAILED(gp_copy_text(&folder, ".", err));
    gp_status status = GP_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder and say EINVAL; there is nothing more to do there. */
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        status = gp_fail(err, GP_IO, "%s: its folder cannot be synced: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    free(folder);
    return status;
}

static gp_status write_items(int fd, const char *path, const gp_safetensors_item *items, size_t count, gp_error *err) {
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        GP_RETURN_IF_FAILED(item_bytes(path, &items[i], &bytes, err));
        GP_RETURN_IF_FAILED(write_all(fd, path, items[i].data, bytes, err));
    }
    return GP_OK;
}

gp_status gp_safetensors_write(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, gp_error *err) {
    char *head = NULL;
    char *temporary = NULL;
    size_t head_bytes = 0;
    int fd = -1;
    GP_RETURN_IF_FAILED(build_head(path, items, count, metadata, &head, &head_bytes, err));
    gp_status status = open_temporary(path, &temporary, &fd, err);
    if (status != GP_OK) goto free_head;
    status = write_all(fd, temporary, head, head_bytes, err);
    if (status == GP_OK) status = write_items(fd, temporary, items, count, err);
    if (status == GP_OK && fsync(fd) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be synced: %s", temporary, strerror(errno));
    if (close(fd) != 0 && status == GP_OK)
        status = gp_fail(err, GP_IO, "%s: cannot be closed: %s", temporary, strerror(errno));
    if (status == GP_OK && rename(temporary, path) != 0)
        status = gp_fail(err, GP_IO, "%s: cannot be renamed to %s: %s", temporary, path, strerror(errno));
    if (status != GP_OK) unlink(temporary);
    if (status == GP_OK) status = sync_folder(path, err);
    free(temporary);
free_head:
    free(head);
    return status;
}
