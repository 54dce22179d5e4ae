/* Writes safetensors files: a complete file or none. */
#include "data/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/replace.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors holds little-endian numbers, written as they are");

enum { HEADER_UNIT = 8, FIELD = sizeof(uint64_t) + sizeof GP_SAFETENSORS_SUMMED - 1 /* of the checksum */ };

/* False: an impossible shape. */
static bool item_bytes(const gp_safetensors_item *item, size_t *out) {
    size_t bytes = gp_dtype_size(item->dtype);
    bool right = item->rank >= 0 && item->rank <= GP_SAFETENSORS_MAX_RANK;
    for (int i = 0; right && i < item->rank; i++)
        right = item->dim[i] >= 0 && gp_size_mul(bytes, (size_t)item->dim[i], &bytes);
    *out = bytes;
    return right;
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

/* `summed`: zeros stand in the checksum's place. */
static gp_status add_metadata(const char *path, json_t *header, const char *const *metadata, bool summed,
                              gp_error *err) {
    static const char zeros[] = "00000000000000000000000000000000";
    _Static_assert(sizeof zeros - 1 == GP_CHECKSUM_DIGITS, "as long as the checksum");
    json_t *pairs = json_object();
    if (json_object_set_new(header, "__metadata__", pairs) != 0) return no_memory(path, err);
    if (summed && json_object_set_new(pairs, GP_SAFETENSORS_SUM, json_string(zeros)) != 0) return no_memory(path, err);
    for (size_t i = 0; metadata && metadata[i]; i += 2) {
        if (json_object_set_new(pairs, metadata[i], json_string(metadata[i + 1])) == 0) continue;
        if (is_utf8(metadata[i]) && is_utf8(metadata[i + 1])) return no_memory(path, err);
        return gp_fail(err, GP_IO, "%s: the metadata is not UTF-8 throughout, so it cannot be written as JSON", path);
    }
    return GP_OK;
}

static gp_status add_items(const char *path, json_t *header, const gp_safetensors_item *items, size_t count,
                           size_t *data_bytes, gp_error *err) {
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        size_t begin = end;
        size_t bytes = 0;
        if (!item_bytes(&items[i], &bytes))
            return gp_fail(err, GP_IO, "%s: tensor \"%s\" has an impossible shape", path, items[i].name);
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
    *data_bytes = end;
    return GP_OK;
}

typedef struct head {
    char *text; /* owned */
    size_t bytes;
    size_t data_bytes; /* of the tensors, which follow it */
} head;

/* The whole head of the file: length, JSON, spaces up to a multiple of eight. */
static gp_status make_head(const char *path, const json_t *header, head *out, gp_error *err) {
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
    GP_RETURN_IF_FAILED(GP_NEW(&out->text, sizeof(uint64_t) + padded, err));
    uint64_t length = padded;
    memcpy(out->text, &length, sizeof length);
    memset(out->text + sizeof length, ' ', padded);
    out->bytes = sizeof length + padded;
    if (json_dumpb(header, out->text + sizeof length, padded, JSON_COMPACT) == text_bytes) return GP_OK;
    return gp_fail(err, GP_MEMORY, "out of memory: a header of %zu bytes", text_bytes);
}

/* The caller frees out->text, after a failure too. */
static gp_status build_head(const char *path, const gp_safetensors_item *items, size_t count,
                            const char *const *metadata, bool summed, head *out, gp_error *err) {
    json_t *header = json_object();
    if (!header) return no_memory(path, err);
    gp_status status = metadata || summed ? add_metadata(path, header, metadata, summed, err) : GP_OK;
    if (status == GP_OK) status = add_items(path, header, items, count, &out->data_bytes, err);
    if (status == GP_OK) status = make_head(path, header, out, err);
    json_decref(header);
    return status;
}

gp_status gp_safetensors_check(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, uint64_t *bytes, gp_error *err) {
    head its = {0};
    gp_status status = build_head(path, items, count, metadata, false, &its, err);
    free(its.text);
    if (status == GP_OK) *bytes = gp_size_plus(its.bytes, its.data_bytes);
    return status;
}

struct gp_safetensors_writer {
    gp_replacing *file;
    char *path;
    size_t missing;   /* bytes of the data that are still to come */
    gp_checksum *sum; /* of what was added; NULL: the file has none */
};

static void free_writer(gp_safetensors_writer *writer) {
    gp_checksum_destroy(&writer->sum);
    free(writer->path);
    free(writer);
}

static gp_status add(gp_safetensors_writer *writer, const void *data, size_t bytes, gp_error *err) {
    if (writer->sum) gp_checksum_add(writer->sum, data, bytes);
    return gp_file_add(writer->file, data, bytes, err);
}

static gp_status begin(const char *path, const gp_safetensors_item *items, size_t count, const char *const *metadata,
                       bool summed, gp_safetensors_writer **out, gp_error *err) {
    head its = {0};
    gp_safetensors_writer *writer = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&writer, 1, err));
    gp_status status = gp_copy_text(&writer->path, path, err);
    if (status == GP_OK) status = build_head(path, items, count, metadata, summed, &its, err);
    if (status == GP_OK && summed) status = gp_checksum_create(&writer->sum, err);
    if (status == GP_OK) status = gp_file_begin(path, &writer->file, err);
    if (status == GP_OK) status = add(writer, its.text, its.bytes, err);
    free(its.text);
    if (status != GP_OK && writer->file) status = gp_file_end(&writer->file, status, err);
    writer->missing = its.data_bytes;
    if (status == GP_OK)
        *out = writer;
    else
        free_writer(writer);
    return status;
}

gp_status gp_safetensors_begin(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, gp_safetensors_writer **out, gp_error *err) {
    return begin(path, items, count, metadata, false, out, err);
}

gp_status gp_safetensors_add(gp_safetensors_writer *writer, const void *data, size_t bytes, gp_error *err) {
    if (bytes > writer->missing) return gp_fail(err, GP_INTERNAL, "%s: more bytes than its tensors have", writer->path);
    writer->missing -= bytes;
    return add(writer, data, bytes, err);
}

/* In place of the zeros with which it was computed. */
static gp_status write_sum(gp_safetensors_writer *writer, gp_error *err) {
    char digits[GP_CHECKSUM_DIGITS];
    gp_checksum_digits(writer->sum, digits);
    return gp_file_patch(writer->file, FIELD, digits, sizeof digits, err);
}

gp_status gp_safetensors_end(gp_safetensors_writer **writer, gp_status status, gp_error *err) {
    gp_safetensors_writer *it = *writer;
    if (status == GP_OK && it->missing)
        status = gp_fail(err, GP_INTERNAL, "%s: %zu bytes of its tensors are missing", it->path, it->missing);
    if (status == GP_OK && it->sum) status = write_sum(it, err);
    status = gp_file_end(&it->file, status, err);
    free_writer(it);
    *writer = NULL;
    return status;
}

static gp_status write_file(const char *path, const gp_safetensors_item *items, size_t count,
                            const char *const *metadata, bool summed, const gp_safetensors_source *source,
                            gp_error *err) {
    gp_safetensors_writer *writer = NULL;
    const void *data = NULL;
    size_t bytes = 0;
    gp_status status = begin(path, items, count, metadata, summed, &writer, err);
    if (status != GP_OK) return status;
    for (size_t i = 0; i < count && status == GP_OK; i++) {
        status = source->get(source->context, i, &data, err);
        if (status == GP_OK && item_bytes(&items[i], &bytes)) status = gp_safetensors_add(writer, data, bytes, err);
    }
    return gp_safetensors_end(&writer, status, err);
}

static gp_status get_own(void *context, size_t index, const void **data, gp_error *err) {
    const gp_safetensors_item *const *items = context;
    (void)err;
    *data = (*items)[index].data;
    return GP_OK;
}

gp_status gp_safetensors_write(const char *path, const gp_safetensors_item *items, size_t count,
                               const char *const *metadata, gp_error *err) {
    const gp_safetensors_source own = {get_own, &items};
    return write_file(path, items, count, metadata, false, &own, err);
}

gp_status gp_safetensors_write_summed(const char *path, const gp_safetensors_item *items, size_t count,
                                      const char *const *metadata, gp_error *err) {
    const gp_safetensors_source own = {get_own, &items};
    return write_file(path, items, count, metadata, true, &own, err);
}

gp_status gp_safetensors_write_summed_from(const char *path, const gp_safetensors_item *items, size_t count,
                                           const char *const *metadata, const gp_safetensors_source *source,
                                           gp_error *err) {
    return write_file(path, items, count, metadata, true, source, err);
}
