/* Opens what a path leads to: a safetensors file, or a folder of them. */
#include <stdlib.h>

#include "base/memory.h"
#include "data/safetensors_internal.h"

gp_status gp_safetensors_open(const char *path, gp_safetensors **out, gp_error *err) {
    gp_safetensors *file = NULL;
    GP_RETURN_IF_FAILED(gp_safetensors_check_kind(path, err));
    GP_RETURN_IF_FAILED(GP_NEW(&file, 1, err));
    file->file.fd = -1;
    gp_status status = gp_safetensors_is_folder(path) ? gp_safetensors_open_folder(path, file, err)
                                                      : gp_safetensors_open_file(path, file, err);
    if (status != GP_OK) {
        gp_safetensors_close(&file);
        return status;
    }
    *out = file;
    return GP_OK;
}

gp_status gp_safetensors_check_sum(gp_safetensors *file, gp_error *err) {
    return file->parts ? gp_safetensors_check_folder(file, true, err) : gp_safetensors_check_file(file, true, err);
}

gp_status gp_safetensors_check_any_sum(gp_safetensors *file, gp_error *err) {
    return file->parts ? gp_safetensors_check_folder(file, false, err) : gp_safetensors_check_file(file, false, err);
}
