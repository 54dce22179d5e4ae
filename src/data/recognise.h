/* Inside the room: what a file is that the user took for a safetensors file, and how to convert it.
 *
 * Pure but for reading the file; any thread. */
#ifndef GP_DATA_RECOGNISE_H
#define GP_DATA_RECOGNISE_H

#include "base/status.h"
#include "data/file.h"

/* GP_DATA with the format's name and the Python that converts it, if the file is one of PyTorch, NumPy or HDF5, or
 * gzipped; GP_OK for any other file; GP_IO if it cannot be read. */
GP_MUST_USE gp_status gp_refuse_other_format(const gp_data_file *file, gp_error *err);

#endif
