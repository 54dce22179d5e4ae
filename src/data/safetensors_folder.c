/* Folders of safetensors files: an index says which file has which tensor, as Hugging Face's sharded models have it,
 * {"metadata": {…}, "weight_map": {"name": "file"}}. Snapshots of several processes are such folders; their index has
 * the checksums of the files too, {"metadata": {"xxh3-128": {"file": "digits"}}}. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/safetensors_internal.h"

enum { MAX_PARTS = 4096, MAX_PART_NAME = 200, ROOM = 4096 };

static char *index_path(const char *folder, char buffer[ROOM]) {
    snprintf(buffer, ROOM, "%s/%s", folder, GP_SAFETENSORS_INDEX);
    return buffer;
}

int gp_safetensors_is_folder(const char *path) {
    struct stat about;
    char buffer[ROOM];
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode) && access(index_path(path, buffer), F_OK) == 0;
}

gp_status gp_safetensors_check_kind(const char *path, gp_error *err) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode) || gp_safetensors_is_folder(path)) return GP_OK;
    return gp_fail(err, GP_DATA, "%s: is a folder without %s, which says which of its files has which tensor", path,
                   GP_SAFETENSORS_INDEX);
}

static gp_status read_index(const char *path, json_t **out, gp_error *err) {
    gp_data_file file = {.fd = -1};
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_data_file_open(path, &file, err));
    gp_status status = file.size <= GP_SAFETENSORS_MAX_HEADER ? GP_NEW(&text, file.size + 1, err)
                                                              : gp_data_fail(err, path, 0, "the index is too long");
    if (status == GP_OK) status = gp_data_file_read(&file, 0, (size_t)file.size, text, err);
    size_t bytes = (size_t)file.size;
    gp_data_file_close(&file);
    if (status == GP_OK) {
        json_error_t why;
        *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
        if (!*out) status = gp_fail(err, GP_DATA, "%s: is no JSON: %s", path, why.text);
    }
    free(text);
    return status;
}

/* A name in the folder, and nowhere else. */
static int is_plain_name(const char *name) {
    size_t length = name ? strlen(name) : 0;
    return length > 0 && length < MAX_PART_NAME && name[0] != '.' && !strchr(name, '/');
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const json_t *sums_of(const json_t *index) {
    return json_object_get(json_object_get(index, "metadata"), GP_SAFETENSORS_SUM);
}

/* The files that the index names, sorted, each once. Borrowed from the index. One without tensors has a checksum. */
static gp_status list_parts(const char *path, const json_t *index, const char **names, size_t *count, gp_error *err) {
    const json_t *map = json_object_get(index, "weight_map"), *sums = sums_of(index);
    const char *key;
    json_t *value;
    size_t used = 0, kept = 0;
    json_object_foreach((json_t *)(uintptr_t)sums, key, value) {
        if (!is_plain_name(key)) return gp_fail(err, GP_DATA, "%s: \"%.100s\" is no file of the folder", path, key);
        names[used++] = key;
    }
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        const char *name = json_string_value(value);
        if (!is_plain_name(name))
            return gp_fail(err, GP_DATA, "%s: tensor \"%.100s\" is in no file of the folder", path, key);
        names[used++] = name;
    }
    qsort((void *)names, used, sizeof *names, compare_texts);
    for (size_t i = 0; i < used; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0) names[kept++] = names[i];
    if (kept == 0 || kept > MAX_PARTS)
        return gp_fail(err, GP_DATA, "%s: names %zu files; 1 to %d are read", path, kept, MAX_PARTS);
    *count = kept;
    return GP_OK;
}

/* The tensors of one file must be those that the index says. */
static gp_status add_part(gp_safetensors *out, const json_t *map, const char *name, const char *path, gp_error *err) {
    const gp_safetensors *part = out->parts[out->part_count - 1];
    size_t needed = out->count + part->count;
    GP_RETURN_IF_FAILED(GP_GROW(&out->tensors, &out->capacity, needed ? needed : 1, err));
    for (size_t i = 0; i < part->count; i++) {
        const gp_safetensor *its = &part->tensors[i];
        const char *said = json_string_value(json_object_get(map, its->name));
        if (!said || strcmp(said, name) != 0)
            return gp_fail(err, GP_DATA, "%s: \"%.100s\" has tensor \"%.100s\", but the index %s", path, name,
                           its->name, said ? "says that another file has it" : "does not name it");
        char *copy = NULL;
        GP_RETURN_IF_FAILED(gp_copy_text(&copy, its->name, err));
        out->tensors[out->count] = *its;
        out->tensors[out->count++].name = copy;
    }
    return GP_OK;
}

static gp_status open_parts(gp_safetensors *out, const json_t *map, const char *const *names, size_t count,
                            const char *path, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&out->parts, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->part_of, json_object_size(map), err));
    for (size_t p = 0; p < count; p++) {
        char part[ROOM];
        size_t before = out->count;
        snprintf(part, sizeof part, "%s/%s", out->file.path, names[p]);
        if (gp_safetensors_is_folder(part)) return gp_fail(err, GP_DATA, "%s: is a folder with an index", part);
        GP_RETURN_IF_FAILED(GP_NEW(&out->parts[p], 1, err));
        out->part_count++;
        out->parts[p]->file.fd = -1;
        GP_RETURN_IF_FAILED(gp_safetensors_open_file(part, out->parts[p], err));
        GP_RETURN_IF_FAILED(add_part(out, map, names[p], path, err));
        for (size_t i = before; i < out->count; i++) out->part_of[i] = (uint32_t)p;
    }
    if (out->count == json_object_size(map)) return GP_OK;
    return gp_fail(err, GP_DATA, "%s: names %zu tensors, but the files have %zu", path, json_object_size(map),
                   out->count);
}

gp_status gp_safetensors_open_folder(const char *path, gp_safetensors *out, gp_error *err) {
    char buffer[ROOM];
    const char **names = NULL, *from = index_path(path, buffer);
    size_t count = 0;
    GP_RETURN_IF_FAILED(gp_copy_text(&out->file.path, path, err));
    GP_RETURN_IF_FAILED(read_index(from, &out->index, err));
    const json_t *map = json_object_get(out->index, "weight_map");
    if (!json_is_object(map)) return gp_fail(err, GP_DATA, "%s: has no weight_map", from);
    if (json_object_size(map) > GP_SAFETENSORS_MAX_TENSORS)
        return gp_fail(err, GP_DATA, "%s: names more than %d tensors", from, GP_SAFETENSORS_MAX_TENSORS);
    GP_RETURN_IF_FAILED(GP_NEW(&names, json_object_size(map) + json_object_size(sums_of(out->index)), err));
    gp_status status = list_parts(from, out->index, names, &count, err);
    if (status == GP_OK) status = open_parts(out, map, names, count, from, err);
    if (status == GP_OK) status = gp_safetensors_sort_names(out, err);
    free((void *)names);
    return status;
}

/* The last name of a path. */
static const char *name_of(const gp_safetensors *part) {
    return strrchr(part->file.path, '/') + 1;
}

gp_status gp_safetensors_check_folder(gp_safetensors *folder, bool must, gp_error *err) {
    const json_t *sums = sums_of(folder->index);
    must = must || sums;
    for (size_t p = 0; p < folder->part_count; p++) {
        gp_safetensors *part = folder->parts[p];
        const char *said = json_string_value(json_object_get(sums, name_of(part)));
        const char *has = gp_safetensors_metadata(part, GP_SAFETENSORS_SUM);
        if (must && (!said || !has || strcmp(said, has) != 0))
            return gp_fail(err, GP_DATA, "%s/%s: the checksum of %s is not that of the file", folder->file.path,
                           GP_SAFETENSORS_INDEX, name_of(part));
        GP_RETURN_IF_FAILED(gp_safetensors_check_file(part, must, err));
    }
    return GP_OK;
}
