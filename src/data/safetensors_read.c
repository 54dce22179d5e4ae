/* Reads safetensors files; trusts nothing in them. */
#include "data/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/json_members.h"
#include "data/safetensors_internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors holds little-endian numbers, read as they are");

enum {
    LENGTH_BYTES = 8,
    MAX_NAME = 1 << 20,      /* bytes, as they stand in the header */
    MAX_ENTRY = 64 << 10,    /* of one tensor */
    MAX_METADATA = 16 << 10, /* entries */
};

/* Every dtype of the format, with its bits: sizes are checked for those too that the program does not compute with. */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
              {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
              {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64}};

/* The format's own name, which outlives the header, and the bits; NULL where there is none of that name. */
static const char *find_dtype(const char *name, unsigned *bits) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *bits = dtypes[i].bits;
        return dtypes[i].name;
    }
    return NULL;
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

static gp_status read_header(gp_safetensors *file, char **out, gp_error *err) {
    const char *path = file->file.path;
    if (file->file.size < LENGTH_BYTES) {
        return gp_data_fail(err, path, 0, "the file has %" PRIu64 " bytes, too few for a safetensors header",
                            file->file.size);
    }
    uint64_t bytes = 0;
    GP_RETURN_IF_FAILED(gp_data_file_read(&file->file, 0, sizeof bytes, &bytes, err));
    if (bytes > GP_SAFETENSORS_MAX_HEADER || bytes > file->file.size - LENGTH_BYTES)
        GP_RETURN_IF_FAILED(gp_refuse_other_format(&file->file, err));
    if (bytes > GP_SAFETENSORS_MAX_HEADER) {
        return gp_data_fail(err, path, 0,
                            "header length %" PRIu64 " exceeds the %d that are read: is this a safetensors file?",
                            bytes, GP_SAFETENSORS_MAX_HEADER);
    }
    if (bytes > file->file.size - LENGTH_BYTES) {
        return gp_data_fail(err, path, 0, "header length %" PRIu64 " exceeds the %" PRIu64 " bytes that follow", bytes,
                            file->file.size - LENGTH_BYTES);
    }
    if (bytes < 2) return gp_data_fail(err, path, 0, "header length %" PRIu64 " is too short for JSON", bytes);
    file->header_bytes = bytes;
    GP_RETURN_IF_FAILED(GP_NEW(out, bytes, err));
    GP_RETURN_IF_FAILED(gp_data_file_read(&file->file, LENGTH_BYTES, (size_t)bytes, *out, err));
    if (**out != '{') return gp_data_fail(err, path, LENGTH_BYTES, "the header does not begin with {");
    file->header = *out;
    return GP_OK;
}

/* Where a place of the header is in the file. */
static uint64_t offset_of(const gp_safetensors *file, const char *place) {
    return LENGTH_BYTES + (uint64_t)(place - file->header);
}

/* Part of the header as JSON. */
static gp_status parse(const gp_safetensors *file, gp_json_slice slice, json_t **out, gp_error *err) {
    json_error_t why;
    errno = 0;
    *out = json_loadb(slice.text, slice.bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (*out) return GP_OK;
    /* Where memory is short, jansson may call the text wrong. */
    if (errno == ENOMEM) return gp_fail(err, GP_MEMORY, "out of memory: the header of %s", file->file.path);
    uint64_t at = offset_of(file, slice.text) + (uint64_t)(why.position > 0 ? why.position : 0);
    return gp_data_fail(err, file->file.path, at, "the header is not valid JSON: %s", why.text);
}

static gp_status parse_name(const gp_safetensors *file, gp_json_slice name, char **out, gp_error *err) {
    json_t *text = NULL;
    if (name.bytes > MAX_NAME)
        return gp_data_fail(err, file->file.path, offset_of(file, name.text),
                            "a name has %zu bytes; at most %d are read", name.bytes, MAX_NAME);
    GP_RETURN_IF_FAILED(parse(file, name, &text, err));
    gp_status status = gp_copy_text(out, json_string_value(text), err);
    json_decref(text);
    return status;
}

typedef gp_status member_reader(gp_safetensors *file, gp_json_slice name, gp_json_slice value, gp_error *err);

/* `read` for each member of an object that stands in the header. */
static gp_status read_members(gp_safetensors *file, gp_json_slice object, member_reader *read, gp_error *err) {
    gp_json_members members = {.object = object};
    gp_json_slice name, value;
    const char *wrong = NULL;
    while (gp_json_next(&members, &name, &value, &wrong)) GP_RETURN_IF_FAILED(read(file, name, value, err));
    if (!wrong) return GP_OK;
    return gp_data_fail(err, file->file.path, offset_of(file, object.text) + members.at, "the header %s", wrong);
}

static gp_status add_metadata(gp_safetensors *file, const char *key, gp_json_slice value, gp_error *err) {
    char buffer[SHOWN_NAME];
    json_t *text = NULL;
    uint64_t at = offset_of(file, value.text);
    if (value.text[0] != '"')
        return gp_data_fail(err, file->file.path, at, "__metadata__: \"%s\" is not a text", shown(buffer, key));
    if (json_object_get(file->metadata, key))
        return gp_data_fail(err, file->file.path, at, "__metadata__: there are two \"%s\"", shown(buffer, key));
    GP_RETURN_IF_FAILED(parse(file, value, &text, err));
    if (json_object_set_new(file->metadata, key, text) == 0) return GP_OK;
    return gp_fail(err, GP_MEMORY, "out of memory: the metadata of %s", file->file.path);
}

static gp_status read_metadata_member(gp_safetensors *file, gp_json_slice name, gp_json_slice value, gp_error *err) {
    char *key = NULL;
    if (json_object_size(file->metadata) == MAX_METADATA)
        return gp_data_fail(err, file->file.path, offset_of(file, name.text), "__metadata__ has more than %d entries",
                            MAX_METADATA);
    GP_RETURN_IF_FAILED(parse_name(file, name, &key, err));
    gp_status status = add_metadata(file, key, value, err);
    free(key);
    return status;
}

static gp_status read_metadata(gp_safetensors *file, gp_json_slice value, gp_error *err) {
    uint64_t at = offset_of(file, value.text);
    if (file->metadata) return gp_data_fail(err, file->file.path, at, "there are two __metadata__");
    if (value.text[0] != '{') return gp_data_fail(err, file->file.path, at, "__metadata__ is not a mapping");
    file->metadata = json_object();
    if (!file->metadata) return gp_fail(err, GP_MEMORY, "out of memory: the metadata of %s", file->file.path);
    return read_members(file, value, read_metadata_member, err);
}

static gp_status read_shape(const gp_safetensors *file, const json_t *shape, gp_safetensor *tensor, gp_error *err) {
    if (!json_is_array(shape)) return FAIL_TENSOR(file, err, tensor, "shape is missing or not a list");
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
        return FAIL_TENSOR(file, err, tensor, "data_offsets is missing or not a list of two");
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
                           "data_offsets [%" PRIu64 ", %" PRIu64 "] exceed the %" PRIu64
                           " bytes of data in the file: the file is cut short",
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
    unsigned bits = 0;
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return FAIL_TENSOR(file, err, tensor, "dtype is missing or not a text");
    tensor->dtype_name = find_dtype(dtype, &bits);
    if (!tensor->dtype_name) {
        char buffer[SHOWN_NAME];
        return FAIL_TENSOR(file, err, tensor, "dtype \"%s\" is not a dtype of safetensors", shown(buffer, dtype));
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
        return gp_data_fail(err, file->file.path, data + end,
                            "%" PRIu64 " bytes after the last tensor belong to no tensor",
                            file->file.size - data - end);
    }
    return GP_OK;
}

static gp_status add_tensor(gp_safetensors *file, char *name, gp_json_slice value, gp_error *err) {
    json_t *entry = NULL;
    gp_safetensor *tensor = &file->tensors[file->count++];
    tensor->name = name;
    if (value.bytes > MAX_ENTRY)
        return FAIL_TENSOR(file, err, tensor, "its entry has %zu bytes; at most %d are read", value.bytes, MAX_ENTRY);
    GP_RETURN_IF_FAILED(parse(file, value, &entry, err));
    gp_status status = read_tensor(file, entry, tensor, err);
    json_decref(entry);
    return status;
}

static gp_status read_header_member(gp_safetensors *file, gp_json_slice name, gp_json_slice value, gp_error *err) {
    char *text = NULL;
    if (file->count == GP_SAFETENSORS_MAX_TENSORS)
        return gp_data_fail(err, file->file.path, offset_of(file, name.text), "the header has more than %d tensors",
                            GP_SAFETENSORS_MAX_TENSORS);
    GP_RETURN_IF_FAILED(GP_GROW(&file->tensors, &file->capacity, file->count + 1, err));
    GP_RETURN_IF_FAILED(parse_name(file, name, &text, err));
    if (strcmp(text, "__metadata__") != 0) return add_tensor(file, text, value, err);
    free(text);
    return read_metadata(file, value, err);
}

gp_status gp_safetensors_sort_names(gp_safetensors *file, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&file->by_name, file->count, err));
    if (file->count == 0) return GP_OK;
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return FAIL_TENSOR(file, err, file->by_name[i], "there are two of that name");
    return GP_OK;
}

static gp_status order_tensors(gp_safetensors *file, gp_error *err) {
    if (file->count > 0) qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    GP_RETURN_IF_FAILED(gp_safetensors_sort_names(file, err));
    return check_tiling(file, err);
}

gp_status gp_safetensors_open_file(const char *path, gp_safetensors *file, gp_error *err) {
    char *header = NULL;
    gp_status status = gp_data_file_open(path, &file->file, err);
    if (status == GP_OK) status = read_header(file, &header, err);
    if (status == GP_OK)
        status = read_members(file, (gp_json_slice){header, (size_t)file->header_bytes}, read_header_member, err);
    free(header);
    return status == GP_OK ? order_tensors(file, err) : status;
}

void gp_safetensors_release(gp_safetensors *file) {
    gp_data_file_release(&file->file);
    for (size_t p = 0; p < file->part_count; p++) gp_safetensors_release(file->parts[p]);
}

void gp_safetensors_close(gp_safetensors **file) {
    if (!file || !*file) return;
    gp_data_file_close(&(*file)->file);
    json_decref((*file)->metadata);
    for (size_t i = 0; i < (*file)->count; i++) free((char *)(uintptr_t)(*file)->tensors[i].name);
    free((*file)->tensors);
    free((*file)->by_name);
    for (size_t p = 0; p < (*file)->part_count; p++) gp_safetensors_close(&(*file)->parts[p]);
    free((*file)->parts);
    free((*file)->part_of);
    json_decref((*file)->index);
    free(*file);
    *file = NULL;
}

const char *gp_safetensors_path(const gp_safetensors *file) {
    return file->file.path;
}

/* The header is not kept, but what is has no more bytes of text. */
size_t gp_safetensors_held(const gp_safetensors *file) {
    size_t bytes = file->capacity * sizeof *file->tensors + file->count * sizeof(void *) + (size_t)file->header_bytes;
    for (size_t p = 0; p < file->part_count; p++) bytes = gp_size_plus(bytes, gp_safetensors_held(file->parts[p]));
    return bytes;
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

/* The file that has the tensor. */
static const gp_safetensors *part_with(const gp_safetensors *file, const gp_safetensor *tensor) {
    return file->parts ? file->parts[file->part_of[tensor - file->tensors]] : file;
}

uint64_t gp_safetensors_offset(const gp_safetensors *file, const gp_safetensor *tensor) {
    file = part_with(file, tensor);
    return LENGTH_BYTES + file->header_bytes + tensor->begin;
}

gp_status gp_safetensors_read(const gp_safetensors *file, const gp_safetensor *tensor, uint64_t from, size_t bytes,
                              void *to, gp_error *err) {
    uint64_t size = tensor->end - tensor->begin;
    if (from > size || bytes > size - from) {
        return FAIL_TENSOR(file, err, tensor, "%zu bytes from %" PRIu64 " on lie outside of its %" PRIu64, bytes, from,
                           size);
    }
    return gp_data_file_read(&part_with(file, tensor)->file, gp_safetensors_offset(file, tensor) + from, bytes, to,
                             err);
}

const char *gp_safetensors_metadata(const gp_safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->parts ? file->parts[0]->metadata : file->metadata, key));
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

enum { START = sizeof GP_SAFETENSORS_SUMMED - 1 + GP_CHECKSUM_DIGITS /* of a header with a checksum */ };

/* The name of the checksum, or what was it before a byte or two were damaged, if its digits are still there. Other
 * programs may begin with other entries. */
static bool has_sum(const char start[START]) {
    enum { NAME = sizeof GP_SAFETENSORS_SUM - 1, AT = sizeof GP_SAFETENSORS_SUMMED - 1 - NAME - 3, FEW = 2 };
    int wrong = 0;
    bool digits = true;
    for (int i = 0; i < NAME; i++) wrong += start[AT + i] != GP_SAFETENSORS_SUMMED[AT + i];
    for (int i = START - GP_CHECKSUM_DIGITS; i < START; i++)
        digits = digits && start[i] && strchr("0123456789abcdef", start[i]);
    return memcmp(start, GP_SAFETENSORS_SUMMED, AT) == 0 &&
           memcmp(start + AT + NAME, &GP_SAFETENSORS_SUMMED[AT + NAME], 3) == 0 &&
           (wrong == 0 || (wrong <= FEW && digits));
}

gp_status gp_safetensors_check_file(gp_safetensors *file, bool must, gp_error *err) {
    enum { CHUNK = 1 << 20 };
    char start[START], digits[GP_CHECKSUM_DIGITS], *buffer = NULL;
    if (file->header_bytes >= START)
        GP_RETURN_IF_FAILED(gp_data_file_read(&file->file, LENGTH_BYTES, START, start, err));
    bool has = file->header_bytes >= START && has_sum(start);
    if (!has && !must) return GP_OK;
    if (!has) return gp_data_fail(err, file->file.path, LENGTH_BYTES, "the header does not begin with a checksum");
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
