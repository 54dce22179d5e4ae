/* Inside the room: a regular file that is read at offsets, and failures that name path and offset.
 *
 * Nothing is trusted: a file that became shorter since it was opened is GP_DATA where the missing bytes are read.
 * Opened and closed by one thread; any number may read at once.
 */
#ifndef GP_DATA_FILE_H
#define GP_DATA_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_data_file {
    int fd;
    char *path; /* owned */
    uint64_t size;
} gp_data_file;

/* GP_DATA where there is no such regular file; GP_IO where the system does not open it. Never blocks on a pipe. */
GP_MUST_USE gp_status gp_data_file_open(const char *path, gp_data_file *out, gp_error *err);
/* Nothing is read any more; the path stays. */
void gp_data_file_release(gp_data_file *file);
void gp_data_file_close(gp_data_file *file);
/* Exactly `bytes` bytes from `offset` on. GP_DATA where the file has fewer; GP_IO where the system does not read. */
GP_MUST_USE gp_status gp_data_file_read(const gp_data_file *file, uint64_t offset, size_t bytes, void *to,
                                        gp_error *err);
/* GP_DATA with the format's name and the Python that converts it, if the file that the user took for a safetensors file
 * is one of PyTorch, NumPy or HDF5, or gzipped; GP_OK for any other file; GP_IO if it cannot be read. */
GP_MUST_USE gp_status gp_refuse_other_format(const gp_data_file *file, gp_error *err);
/* "path: offset 8: …", GP_DATA. */
gp_status gp_data_fail(gp_error *err, const char *path, uint64_t offset, const char *format, ...) GP_PRINTF(4, 5);

#endif
