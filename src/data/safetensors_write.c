#include "data/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/replace.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors holds little-endian numbers, written as they are");

enum { HEADER_UNIT = 8 };

static gp_status item_bytes(const char *path, const gp_safetensors_item *item, size_t *out, gp_error *err) {
    size_t bytes = gp_dtype_size(item->dtype);
    bool right = item->rank >= 0 && item->rank <= GP_SAFETENSORS_MAX_RANK;
    for (int i = 0; right && i < item->rank; i++)
        right = item->dim[i] >= 0 && gp_size_mul(bytes, (size_t)item->dim[i], &bytes);
    if (!right) return gp_fail(err, GP_IO, "%s: tensor \"%s\" has an impossible shape", path, item->name);
    *out = bytes;
    return GP_OK;
}

/* NULL: no memory. */
static json_t *item_entry(const gp_safetensors_item *item, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; shape && i < item->rank; i++) {
        if (json_array_append_new(shape, json_integer(item->dim[i])) == 0) continue;
        json_decref(shape);
        shape = NULL;
    }
    if (!shape) return NULL;
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", gp_dtype_name(item->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

/* Where jansson did not take a text: whether that is the text's fault, or memory was short. */
static bool is_utf8(const char *text) {
    json_error_t why;
    json_t *value = json_pack_ex(&why, 0, "s", text);
    json_decref(value);
    return value || json_error_code(&why) != json_error_invalid_utf8;
}

static gp_status no_memory(const char *path, gp_error *err) {
    return gp_fail(err, GP_MEMORY, "out of memory: the header of %s", path);
}

static gp_status add_metadata(const char *path, json_t *header, const char *const *metadata, gp_error *err) {
    json_t *pairs = json_object();
    if (json_object_set_new(header, "__metadata__", pairs) != 0) return no_memory(path, err);
    for (size_t i = 0; metadata[i]; i += 2) {
        if (json_object_set_new(pairs, metadata[i], json_string(metadata[i + 1])) == 0) continue;
        if (is_utf8(metadata[i]) && is_utf8(metadata[i + 1])) return no_memory(path, err);
        return gp_fail(err, GP_IO, "%s: the metadata is not UTF-8 throughout, so it cannot be written as JSON", path);
    }
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
            if (is_utf8(items[i].name)) return no_memory(path, err);
            return gp_fail(err, GP_IO, "%s: tensor \"%s\": its name is not UTF-8, so it cannot be written as JSON",
                           path, items[i].name);
        }
    }
    return GP_OK;
}

/* The whole head of the file: length, JSON, spaces up to a multiple of eight. */
static gp_status make_head(const char *path, const json_t *header, char **out, size_t *out_bytes, gp_error *err) {
    if (json_object_size(header) > GP_SAFETENSORS_MAX_TENSORS)
        return gp_fail(err, GP_IO, "%s: %zu tensors would be written; at most %d are allowed", path,
                       json_object_size(header), GP_SAFETENSORS_MAX_TENSORS);
    size_t text_bytes = json_dumpb(header, NULL, 0, JSON_COMPACT);
    size_t padded = gp_align_up(text_bytes, HEADER_UNIT);
    if (text_bytes == 0) return no_memory(path, err);
    if (padded > GP_SAFETENSORS_MAX_HEADER) {
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
    if (!header) return no_memory(path, err);
    gp_status status = metadata ? add_metadata(path, header, metadata, err) : GP_OK;
    if (status == GP_OK) status = add_items(path, header, items, count, err);
    if (status == GP_OK) status = make_head(path, header, out, out_bytes, err);
    json_decref(header);
    return status;
}

/* Fills the head's field of zeros with the sum over the whole file, the field being zeros. */
static gp_status add_checksum(char *head, const gp_bytes *parts, size_t count, gp_error *err) {
    gp_checksum *sum = NULL;
    GP_RETURN_IF_FAILED(gp_checksum_create(&sum, err));
    for (size_t i = 0; i < count; i++) gp_checksum_add(sum, parts[i].data, parts[i].count);
    gp_checksum_digits(sum, head + sizeof(uint64_t) + sizeof GP_SAFETENSORS_SUMMED - 1);
    gp_checksum_destroy(&sum);
    return GP_OK;
}

static gp_status write_file(const char *path, const gp_safetensors_item *items, size_t count,
                            const char *const *metadata, bool summed, gp_error *err) {
    char *head = NULL;
    size_t head_bytes = 0;
    gp_bytes *parts = NULL;
    GP_RETURN_IF_FAILED(build_head(path, items, count, metadata, &head, &head_bytes, err));
    gp_status status = GP_NEW(&parts, count + 1, err);
    if (status == GP_OK) parts[0] = (gp_bytes){head, head_bytes};
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        parts[i + 1].data = items[i].data;
        status = item_bytes(path, &items[i], &parts[i + 1].count, err);
    }
    if (status == GP_OK && summed) status = add_checksum(head, parts, count + 1, err);
    if (status == GP_OK) status = gp_file_replace(path, parts, count + 1, err);
    free(parts);
    free(head);
    return status;
}

gp_status gp_safetensors_write(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, gp_error *err) {
    return write_file(path, items, count, metadata, false, err);
}

gp_status gp_safetensors_check(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, uint64_t *bytes, gp_error *err) {
    char *head = NULL;
    size_t all = 0;
    gp_status status = build_head(path, items, count, metadata, &head, &all, err);
    free(head);
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        size_t its = 0;
        status = item_bytes(path, &items[i], &its, err);
        if (!gp_size_add(all, its, &all)) all = SIZE_MAX;
    }
    if (status == GP_OK) *bytes = all;
    return status;
}

gp_status gp_safetensors_write_summed(const char *path, const gp_safetensors_item *items, size_t count,
                                      const char *const *metadata, gp_error *err) {
    enum { MOST = 64 };
    static const char zeros[] = "00000000000000000000000000000000";
    const char *pairs[MOST + 3] = {"xxh3-128", zeros};
    size_t texts = 0;
    _Static_assert(sizeof zeros - 1 == GP_CHECKSUM_DIGITS, "as long as the checksum");
    for (; metadata[texts]; texts++) {
        if (texts == MOST) return gp_fail(err, GP_INTERNAL, "%s: too many entries of metadata", path);
        pairs[texts + 2] = metadata[texts];
    }
    return write_file(path, items, count, pairs, true, err);
}

struct gp_safetensors_writer {
    gp_replacing *file;
    char *path;
    size_t missing; /* bytes of the data that are still to come */
};

static void free_writer(gp_safetensors_writer *writer) {
    free(writer->path);
    free(writer);
}

static gp_status begin(gp_safetensors_writer *writer, const gp_safetensors_item *items, size_t count,
                       const char *const *metadata, gp_error *err) {
    char *head = NULL;
    size_t bytes = 0;
    GP_RETURN_IF_FAILED(build_head(writer->path, items, count, metadata, &head, &bytes, err));
    gp_status status = gp_file_begin(writer->path, &writer->file, err);
    if (status == GP_OK) status = gp_file_add(writer->file, head, bytes, err);
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        status = item_bytes(writer->path, &items[i], &bytes, err);
        writer->missing += bytes;
    }
    if (status != GP_OK && writer->file) status = gp_file_end(&writer->file, status, err);
    free(head);
    return status;
}

gp_status gp_safetensors_begin(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, gp_safetensors_writer **out, gp_error *err) {
    gp_safetensors_writer *writer = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&writer, 1, err));
    gp_status status = gp_copy_text(&writer->path, path, err);
    if (status == GP_OK) status = begin(writer, items, count, metadata, err);
    if (status == GP_OK)
        *out = writer;
    else
        free_writer(writer);
    return status;
}

gp_status gp_safetensors_add(gp_safetensors_writer *writer, const void *data, size_t bytes, gp_error *err) {
    if (bytes > writer->missing) return gp_fail(err, GP_INTERNAL, "%s: more bytes than its tensors have", writer->path);
    writer->missing -= bytes;
    return gp_file_add(writer->file, data, bytes, err);
}

gp_status gp_safetensors_end(gp_safetensors_writer **writer, gp_status status, gp_error *err) {
    gp_safetensors_writer *it = *writer;
    if (status == GP_OK && it->missing)
        status = gp_fail(err, GP_INTERNAL, "%s: %zu bytes of its tensors are missing", it->path, it->missing);
    status = gp_file_end(&it->file, status, err);
    free_writer(it);
    *writer = NULL;
    return status;
}
