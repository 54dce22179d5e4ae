#include "data/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors holds little-endian numbers, read as they are");

enum {
    LENGTH_BYTES = 8,
    MAX_DEPTH = 8 /* of the header's JSON; a right one has 3 */
};

struct gp_safetensors {
    gp_data_file file;
    json_t *header; /* owns names and dtype names */
    uint64_t header_bytes;
    gp_safetensor *tensors;        /* in the order of the data */
    const gp_safetensor **by_name; /* sorted */
    size_t count;
};

/* Every dtype of the format, with its bits: sizes are checked for those too that the program does not compute with. */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
              {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
              {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64}};

static unsigned bits_of(const char *dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) return dtypes[i].bits;
    return 0;
}

/* What a file calls a thing, short enough for a message. */
enum { SHOWN_NAME = 128 };
static const char *shown(char buffer[SHOWN_NAME], const char *name) {
    size_t length = strlen(name);
    size_t kept = length;
    if (length >= SHOWN_NAME) {
        kept = SHOWN_NAME - sizeof "…";
        while (kept > 0 && ((unsigned char)name[kept] & 0xC0U) == 0x80U) kept--;
    }
    memcpy(buffer, name, kept);
    memcpy(buffer + kept, kept < length ? "…" : "", kept < length ? sizeof "…" : 1);
    return buffer;
}

#define FAIL_TENSOR(file, err, tensor, ...) fail_tensor((file), (err), (tensor)->name, LENGTH_BYTES, __VA_ARGS__)
static gp_status fail_tensor(const gp_safetensors *file, gp_error *err, const char *name, uint64_t offset,
                             const char *format, ...) GP_PRINTF(5, 6);
static gp_status fail_tensor(const gp_safetensors *file, gp_error *err, const char *name, uint64_t offset,
                             const char *format, ...) {
    char text[512];
    char buffer[SHOWN_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gp_data_fail(err, file->file.path, offset, "tensor \"%s\": %s", shown(buffer, name), text);
}

/* jansson recurses; a header of brackets must not reach it. */
static gp_status check_depth(const gp_safetensors *file, const char *text, size_t bytes, gp_error *err) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH)
                return gp_data_fail(err, file->file.path, LENGTH_BYTES + i, "the header is nested deeper than %d",
                                    MAX_DEPTH);
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return GP_OK;
}

static gp_status parse_header(gp_safetensors *file, const char *text, size_t bytes, gp_error *err) {
    if (text[0] != '{') return gp_data_fail(err, file->file.path, LENGTH_BYTES, "the header does not begin with {");
    GP_RETURN_IF_FAILED(check_depth(file, text, bytes, err));
    json_error_t why;
    file->header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!file->header) {
        uint64_t at = LENGTH_BYTES + (uint64_t)(why.position > 0 ? why.position : 0);
        return gp_data_fail(err, file->file.path, at, "the header is not valid JSON: %s", why.text);
    }
    return GP_OK;
}

static gp_status read_header(gp_safetensors *file, gp_error *err) {
    const char *path = file->file.path;
    if (file->file.size < LENGTH_BYTES) {
        return gp_data_fail(err, path, 0, "the file has %" PRIu64 " bytes, too few for a safetensors header",
                            file->file.size);
    }
    uint64_t bytes = 0;
    GP_RETURN_IF_FAILED(gp_data_file_read(&file->file, 0, sizeof bytes, &bytes, err));
    if (bytes > GP_SAFETENSORS_MAX_HEADER) {
        return gp_data_fail(err, path, 0, "header length %" PRIu64 " exceeds %d: this is no safetensors file", bytes,
                            GP_SAFETENSORS_MAX_HEADER);
    }
    if (bytes > file->file.size - LENGTH_BYTES) {
        return gp_data_fail(err, path, 0, "header length %" PRIu64 " exceeds the %" PRIu64 " bytes that follow", bytes,
                            file->file.size - LENGTH_BYTES);
    }
    if (bytes < 2) return gp_data_fail(err, path, 0, "header length %" PRIu64 " is too short for JSON", bytes);
    char *text = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&text, bytes, err));
    gp_status status = gp_data_file_read(&file->file, LENGTH_BYTES, (size_t)bytes, text, err);
    if (status == GP_OK) status = parse_header(file, text, (size_t)bytes, err);
    free(text);
    file->header_bytes = bytes;
    return status;
}

static gp_status check_metadata(const gp_safetensors *file, json_t *metadata, gp_error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return gp_data_fail(err, file->file.path, LENGTH_BYTES, "__metadata__ is not a mapping");
    json_object_foreach(metadata, key, value) {
        char buffer[SHOWN_NAME];
        if (!json_is_string(value)) {
            return gp_data_fail(err, file->file.path, LENGTH_BYTES, "__metadata__: \"%s\" is not a text",
                                shown(buffer, key));
        }
    }
    return GP_OK;
}

static gp_status read_shape(const gp_safetensors *file, const json_t *shape, gp_safetensor *tensor, gp_error *err) {
    if (!json_is_array(shape)) return FAIL_TENSOR(file, err, tensor, "shape is missing or no list");
    size_t rank = json_array_size(shape);
    if (rank > GP_SAFETENSORS_MAX_RANK) {
        return FAIL_TENSOR(file, err, tensor, "shape has %zu dimensions; at most %d are read", rank,
                           GP_SAFETENSORS_MAX_RANK);
    }
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return FAIL_TENSOR(file, err, tensor, "dimension %zu is not a whole number of 0 or more", i);
        tensor->dim[i] = json_integer_value(dim);
    }
    tensor->rank = (int)rank;
    return GP_OK;
}

static gp_status read_offsets(const gp_safetensors *file, const json_t *offsets, gp_safetensor *tensor, gp_error *err) {
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return FAIL_TENSOR(file, err, tensor, "data_offsets is missing or no list of two");
    uint64_t value[2];
    for (size_t i = 0; i < 2; i++) {
        const json_t *entry = json_array_get(offsets, i);
        if (!json_is_integer(entry) || json_integer_value(entry) < 0)
            return FAIL_TENSOR(file, err, tensor, "data_offsets are not whole numbers of 0 or more");
        value[i] = (uint64_t)json_integer_value(entry);
    }
    uint64_t data_bytes = file->file.size - LENGTH_BYTES - file->header_bytes;
    if (value[0] > value[1]) {
        return FAIL_TENSOR(file, err, tensor, "data_offsets [%" PRIu64 ", %" PRIu64 "] end before they begin", value[0],
                           value[1]);
    }
    if (value[1] > data_bytes) {
        return FAIL_TENSOR(file, err, tensor,
                           "data_offsets [%" PRIu64 ", %" PRIu64 "] exceed the %" PRIu64 " bytes of data in the file",
                           value[0], value[1], data_bytes);
    }
    tensor->begin = value[0];
    tensor->end = value[1];
    return GP_OK;
}

static gp_status check_size(const gp_safetensors *file, const gp_safetensor *tensor, unsigned bits, gp_error *err) {
    uint64_t total = bits;
    bool empty = false;
    bool fits = true;
    for (int i = 0; i < tensor->rank; i++) {
        empty = empty || tensor->dim[i] == 0;
        fits = fits && !__builtin_mul_overflow(total, (uint64_t)tensor->dim[i], &total);
    }
    if (!fits && !empty) return FAIL_TENSOR(file, err, tensor, "its shape has more bytes than 64 bits count");
    uint64_t wanted = empty ? 0 : total / 8;
    if (!empty && total % 8 != 0) return FAIL_TENSOR(file, err, tensor, "its elements do not fill whole bytes");
    if (wanted != tensor->end - tensor->begin) {
        return FAIL_TENSOR(file, err, tensor, "shape and dtype take %" PRIu64 " bytes, data_offsets hold %" PRIu64,
                           wanted, tensor->end - tensor->begin);
    }
    return GP_OK;
}

static gp_status read_tensor(const gp_safetensors *file, const json_t *entry, gp_safetensor *tensor, gp_error *err) {
    if (!json_is_object(entry)) return FAIL_TENSOR(file, err, tensor, "is not a mapping");
    tensor->dtype_name = json_string_value(json_object_get(entry, "dtype"));
    if (!tensor->dtype_name) return FAIL_TENSOR(file, err, tensor, "dtype is missing or no text");
    unsigned bits = bits_of(tensor->dtype_name);
    if (bits == 0) {
        char buffer[SHOWN_NAME];
        return FAIL_TENSOR(file, err, tensor, "dtype \"%s\" is none of safetensors'",
                           shown(buffer, tensor->dtype_name));
    }
    tensor->known = gp_dtype_find(tensor->dtype_name, &tensor->dtype) ? 1 : 0;
    GP_RETURN_IF_FAILED(read_shape(file, json_object_get(entry, "shape"), tensor, err));
    GP_RETURN_IF_FAILED(read_offsets(file, json_object_get(entry, "data_offsets"), tensor, err));
    if (json_object_size(entry) != 3)
        return FAIL_TENSOR(file, err, tensor, "has entries other than dtype, shape and data_offsets");
    return check_size(file, tensor, bits, err);
}

static int compare_places(const void *a, const void *b) {
    const gp_safetensor *first = a;
    const gp_safetensor *second = b;
    if (first->begin != second->begin) return first->begin < second->begin ? -1 : 1;
    if (first->end != second->end) return first->end < second->end ? -1 : 1;
    return strcmp(first->name, second->name);
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const gp_safetensor *const *)a)->name, (*(const gp_safetensor *const *)b)->name);
}

/* The tensors tile the data: each begins where the one before it ends, and nothing is left. */
static gp_status check_tiling(const gp_safetensors *file, gp_error *err) {
    uint64_t data = LENGTH_BYTES + file->header_bytes;
    uint64_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const gp_safetensor *tensor = &file->tensors[i];
        if (tensor->begin < end) {
            char before[SHOWN_NAME];
            return fail_tensor(file, err, tensor->name, data + tensor->begin, "overlaps tensor \"%s\"",
                               shown(before, file->tensors[i - 1].name));
        }
        if (tensor->begin > end) {
            return fail_tensor(file, err, tensor->name, data + end, "%" PRIu64 " bytes before it belong to no tensor",
                               tensor->begin - end);
        }
        end = tensor->end;
    }
    if (data + end != file->file.size) {
        return gp_data_fail(err, file->file.path, data + end, "%" PRIu64 " bytes after the last tensor belong to none",
                            file->file.size - data - end);
    }
    return GP_OK;
}

static gp_status read_tensors(gp_safetensors *file, gp_error *err) {
    const char *key;
    json_t *value;
    size_t entries = json_object_size(file->header);
    GP_RETURN_IF_FAILED(GP_NEW(&file->tensors, entries, err));
    GP_RETURN_IF_FAILED(GP_NEW(&file->by_name, entries, err));
    json_object_foreach(file->header, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            GP_RETURN_IF_FAILED(check_metadata(file, value, err));
            continue;
        }
        gp_safetensor *tensor = &file->tensors[file->count];
        tensor->name = key;
        GP_RETURN_IF_FAILED(read_tensor(file, value, tensor, err));
        file->count++;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    return check_tiling(file, err);
}

gp_status gp_safetensors_open(const char *path, gp_safetensors **out, gp_error *err) {
    gp_safetensors *file = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&file, 1, err));
    file->file.fd = -1;
    gp_status status = gp_data_file_open(path, &file->file, err);
    if (status == GP_OK) status = read_header(file, err);
    if (status == GP_OK) status = read_tensors(file, err);
    if (status != GP_OK) {
        gp_safetensors_close(&file);
        return status;
    }
    *out = file;
    return GP_OK;
}

void gp_safetensors_close(gp_safetensors **file) {
    if (!file || !*file) return;
    gp_data_file_close(&(*file)->file);
    json_decref((*file)->header);
    free((*file)->tensors);
    free((*file)->by_name);
    free(*file);
    *file = NULL;
}

size_t gp_safetensors_count(const gp_safetensors *file) {
    return file->count;
}

const gp_safetensor *gp_safetensors_at(const gp_safetensors *file, size_t index) {
    return &file->tensors[index];
}

const gp_safetensor *gp_safetensors_find(const gp_safetensors *file, const char *name) {
    gp_safetensor key = {.name = name};
    const gp_safetensor *pointer = &key;
    const gp_safetensor **found = bsearch(&pointer, file->by_name, file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

gp_status gp_safetensors_read(const gp_safetensors *file, const gp_safetensor *tensor, uint64_t from, size_t bytes,
                              void *to, gp_error *err) {
    uint64_t size = tensor->end - tensor->begin;
    if (from > size || bytes > size - from) {
        return FAIL_TENSOR(file, err, tensor, "%zu bytes from %" PRIu64 " on lie outside of its %" PRIu64, bytes, from,
                           size);
    }
    return gp_data_file_read(&file->file, LENGTH_BYTES + file->header_bytes + tensor->begin + from, bytes, to, err);
}

const char *gp_safetensors_metadata(const gp_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

/* The sum of the file with zeros in the checksum's place, as the digits that should stand there. */
static gp_status sum_file(const gp_safetensors *file, char *buffer, size_t size, char *digits, gp_error *err) {
    const uint64_t field = LENGTH_BYTES + sizeof GP_SAFETENSORS_SUMMED - 1;
    gp_checksum *sum = NULL;
    gp_status status = gp_checksum_create(&sum, err);
    for (uint64_t at = 0; at < file->file.size && status == GP_OK;) {
        size_t now = file->file.size - at < size ? (size_t)(file->file.size - at) : size;
        status = gp_data_file_read(&file->file, at, now, buffer, err);
        if (status != GP_OK) break;
        if (at == 0) memset(buffer + field, '0', GP_CHECKSUM_DIGITS); /* the first read has all of it */
        gp_checksum_add(sum, buffer, now);
        at += now;
    }
    if (status == GP_OK) gp_checksum_digits(sum, digits);
    gp_checksum_destroy(&sum);
    return status;
}

gp_status gp_safetensors_check_sum(gp_safetensors *file, gp_error *err) {
    enum { CHUNK = 1 << 20, START = sizeof GP_SAFETENSORS_SUMMED - 1 + GP_CHECKSUM_DIGITS };
    char start[START], digits[GP_CHECKSUM_DIGITS], *buffer = NULL;
    if (file->header_bytes >= START)
        GP_RETURN_IF_FAILED(gp_data_file_read(&file->file, LENGTH_BYTES, START, start, err));
    if (file->header_bytes < START || memcmp(start, GP_SAFETENSORS_SUMMED, sizeof GP_SAFETENSORS_SUMMED - 1) != 0)
        return gp_data_fail(err, file->file.path, LENGTH_BYTES, "the header does not begin with a checksum");
    GP_RETURN_IF_FAILED(GP_NEW(&buffer, CHUNK, err));
    gp_status status = sum_file(file, buffer, CHUNK, digits, err);
    free(buffer);
    GP_RETURN_IF_FAILED(status);
    const char *found = start + sizeof GP_SAFETENSORS_SUMMED - 1;
    if (memcmp(found, digits, GP_CHECKSUM_DIGITS) == 0) return GP_OK;
    return gp_data_fail(err, file->file.path, LENGTH_BYTES + sizeof GP_SAFETENSORS_SUMMED - 1,
                        "the checksum is wrong: it says %.*s, the bytes give %.*s", GP_CHECKSUM_DIGITS, found,
                        GP_CHECKSUM_DIGITS, digits);
}
