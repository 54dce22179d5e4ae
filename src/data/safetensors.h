/* Reading and writing safetensors files (Hugging Face's format: u64 little-endian header length N, N bytes of JSON
 * {"name": {"dtype","shape","data_offsets":[begin,end]}, "__metadata__": {…}}, then the packed data).
 *
 * The reader trusts nothing: lengths, overlaps, gaps, duplicate names, shapes and file size are checked when a file is
 * opened; GP_DATA with path and offset. Of an open file any number of threads may read at once. The writer writes to a
 * temporary file beside the target, syncs, and renames: the target is either the old file or the new one, whole.
 */
#ifndef GP_DATA_SAFETENSORS_H
#define GP_DATA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "data/checksum.h"

enum {
    GP_SAFETENSORS_MAX_HEADER = 16 << 20, /* bytes */
    GP_SAFETENSORS_MAX_TENSORS = 1 << 17, /* these two bound what a hostile file takes of time and memory */
    GP_SAFETENSORS_MAX_RANK = 8,
};
/* What a file with a checksum begins with, behind the header's length; the digits follow. */
#define GP_SAFETENSORS_SUMMED "{\"__metadata__\":{\"xxh3-128\":\""

/* The index of a folder of such files, and the checksum's name in metadata. */
#define GP_SAFETENSORS_INDEX "model.safetensors.index.json"
#define GP_SAFETENSORS_SUM   "xxh3-128"

typedef struct gp_safetensor {
    const char *name; /* borrowed from the file */
    gp_dtype dtype;
    const char *dtype_name; /* as written; dtype is meaningful only where `known` */
    int known;              /* 1 where dtype is one of base/shape.h's */
    int rank;
    int64_t dim[GP_SAFETENSORS_MAX_RANK];
    uint64_t begin, end; /* relative to the data */
} gp_safetensor;

typedef struct gp_safetensors gp_safetensors;
/* A file, or a folder of files with an index: all that follows sees one file with the tensors of all, and the metadata
 * of the first. GP_DATA where the file is missing or broken; GP_IO where the system does not open or read it. */
GP_MUST_USE gp_status gp_safetensors_open(const char *path, gp_safetensors **out, gp_error *err);
/* No tensor is read any more: closes the files, so that removing them frees their disk space. All else stays. */
void gp_safetensors_release(gp_safetensors *file);
void gp_safetensors_close(gp_safetensors **file);
const char *gp_safetensors_path(const gp_safetensors *file); /* as it was opened; borrowed */
/* Bytes of the host's memory that an open file takes: the table of its tensors, their names and its metadata. */
size_t gp_safetensors_held(const gp_safetensors *file);
size_t gp_safetensors_count(const gp_safetensors *file);
/* In the order of the data. */
const gp_safetensor *gp_safetensors_at(const gp_safetensors *file, size_t index);
const gp_safetensor *gp_safetensors_find(const gp_safetensors *file, const char *name); /* NULL where there is none */
/* Where a tensor's data begin, in bytes from the beginning of its file. */
uint64_t gp_safetensors_offset(const gp_safetensors *file, const gp_safetensor *tensor);
/* Bytes [from, from+bytes) of a tensor's data into `to`. */
GP_MUST_USE gp_status gp_safetensors_read(const gp_safetensors *file, const gp_safetensor *tensor, uint64_t from,
                                          size_t bytes, void *to, gp_error *err);

/* One tensor to write; `data` is its elements, borrowed, in C order. */
typedef struct gp_safetensors_item {
    const char *name;
    gp_dtype dtype;
    int rank;
    int64_t dim[GP_SAFETENSORS_MAX_RANK];
    const void *data;
} gp_safetensors_item;
/* Writes the items in this order. `metadata`: key, value, key, value, …, NULL; may be NULL. GP_IO with the cause. */
GP_MUST_USE gp_status gp_safetensors_write(const char *path, const gp_safetensors_item *items, size_t count,
                                           const char *const *metadata, gp_error *err);

/* Where the data of items come from, if not all of them are in memory: the elements of item `index`, borrowed until the
 * next call. Called once for each, in the order of the items. */
typedef struct gp_safetensors_source {
    gp_status (*get)(void *context, size_t index, const void **data, gp_error *err);
    void *context;
} gp_safetensors_source;
/* Whether a file of these items can be: the same failures, and nothing is written. *bytes: its size. */
GP_MUST_USE gp_status gp_safetensors_check(const char *path, const gp_safetensors_item *items, size_t count,
                                           const char *const *metadata, uint64_t *bytes, gp_error *err);

/* The same for a file that is written as it comes: the items' `data` are not looked at, and their bytes are added one
 * after another. Ended as gp_file_end does; GP_INTERNAL where it is ended well with too few bytes or too many. */
typedef struct gp_safetensors_writer gp_safetensors_writer;
GP_MUST_USE gp_status gp_safetensors_begin(const char *path, const gp_safetensors_item *items, size_t count,
                                           const char *const *metadata, gp_safetensors_writer **out, gp_error *err);
GP_MUST_USE gp_status gp_safetensors_add(gp_safetensors_writer *writer, const void *data, size_t bytes, gp_error *err);
GP_MUST_USE gp_status gp_safetensors_end(gp_safetensors_writer **writer, gp_status status, gp_error *err);

/* The same with the entry "xxh3-128" first in the metadata: the checksum of every byte of the file, its own
 * GP_CHECKSUM_DIGITS digits taken as zeros. With data from `source`, the items' own are not looked at. */
GP_MUST_USE gp_status gp_safetensors_write_summed(const char *path, const gp_safetensors_item *items, size_t count,
                                                  const char *const *metadata, gp_error *err);
GP_MUST_USE gp_status gp_safetensors_write_summed_from(const char *path, const gp_safetensors_item *items, size_t count,
                                                       const char *const *metadata, const gp_safetensors_source *source,
                                                       gp_error *err);
/* Reads the whole file and compares. GP_DATA where a byte differs, or the file is none that was written so; GP_IO
 * where the system does not read. */
GP_MUST_USE gp_status gp_safetensors_check_sum(gp_safetensors *file, gp_error *err);
/* The same where there is a checksum; GP_OK where there is none, as in files of other programs. The index of a folder
 * may have none either: then each of its files is taken by itself. */
GP_MUST_USE gp_status gp_safetensors_check_any_sum(gp_safetensors *file, gp_error *err);
/* An entry of the metadata, borrowed from the file; NULL where there is none. */
const char *gp_safetensors_metadata(const gp_safetensors *file, const char *key);

#endif
