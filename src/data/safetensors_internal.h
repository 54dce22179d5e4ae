/* Inside the reader of safetensors files: what an open file is, and the part of the reader that knows folders.
 *
 * The caller that opens a file owns it; any thread may read. */
#ifndef GP_DATA_SAFETENSORS_INTERNAL_H
#define GP_DATA_SAFETENSORS_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "data/file.h"
#include "data/safetensors.h"

/* A file, or a folder of files whose tensors are found by an index. */
struct gp_safetensors {
    gp_data_file file;  /* of a folder only its path */
    json_t *metadata;   /* NULL: none */
    const char *header; /* while the file is opened */
    uint64_t header_bytes;
    gp_safetensor *tensors;        /* in the order of the data; their names are owned */
    const gp_safetensor **by_name; /* sorted */
    size_t count, capacity;
    gp_safetensors **parts; /* the files of a folder, sorted by name; NULL: no folder */
    size_t part_count;
    uint32_t *part_of; /* [tensor] of a folder */
    json_t *index;     /* of a folder */
};

/* Fill `out`, which is zero but for file.fd: −1. The caller closes it, whatever happens. GP_DATA: the file, or the
 * index, is missing or broken; the index says other than the files. */
GP_MUST_USE gp_status gp_safetensors_open_file(const char *path, gp_safetensors *out, gp_error *err);
GP_MUST_USE gp_status gp_safetensors_open_folder(const char *path, gp_safetensors *out, gp_error *err);
/* Whether the path is a folder with an index. */
int gp_safetensors_is_folder(const char *path);
/* GP_DATA for a folder without an index. */
GP_MUST_USE gp_status gp_safetensors_check_kind(const char *path, gp_error *err);
/* The checksum of a file; of a folder each file's, and the one that the index has of it. `must`: it has one. */
GP_MUST_USE gp_status gp_safetensors_check_file(gp_safetensors *file, bool must, gp_error *err);
GP_MUST_USE gp_status gp_safetensors_check_folder(gp_safetensors *folder, bool must, gp_error *err);
/* Sorts by_name. GP_DATA: two tensors have one name. */
GP_MUST_USE gp_status gp_safetensors_sort_names(gp_safetensors *file, gp_error *err);

#endif
