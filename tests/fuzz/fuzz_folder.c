/* Folders of safetensors files: an index and two files, with any bytes. What is opened can be read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/safetensors.h"
#include "fuzz/fuzz.h"

enum { FILES = 3 };

static char folder[] = "/dev/shm/gp-fuzz-XXXXXX";
static const char *const names[FILES] = {GP_SAFETENSORS_INDEX, "a.safetensors", "b.safetensors"};

static const char *path_of(int file) {
    static char path[sizeof folder + 64];
    snprintf(path, sizeof path, "%s/%s", folder, names[file]);
    return path;
}

static void remove_folder(void) {
    for (int f = 0; f < FILES; f++) unlink(path_of(f));
    rmdir(folder);
}

static void write_file(int number, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path_of(number), "wb");
    FUZZ_PROMISE(file && (size == 0 || fwrite(bytes, size, 1, file) == 1) && fclose(file) == 0);
}

/* Lengths of the index and the first file come first, of two bytes each. */
static void write_files(const uint8_t *bytes, size_t size) {
    size_t at = 4;
    for (int f = 0; f < FILES; f++) {
        size_t left = size > at ? size - at : 0, its = left;
        if (f < FILES - 1 && size >= 4) its = (size_t)bytes[2 * f] | (size_t)bytes[2 * f + 1] << 8;
        if (its > left) its = left;
        write_file(f, bytes + (left > 0 ? at : 0), its);
        at += its;
    }
}

static void read_tensors(gp_safetensors *file, size_t size) {
    gp_error err = {0};
    unsigned char *data = malloc(size + 1);
    FUZZ_PROMISE(data);
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        const gp_safetensor *tensor = gp_safetensors_at(file, i);
        FUZZ_PROMISE(gp_safetensors_find(file, tensor->name) == tensor);
        FUZZ_PROMISE(tensor->end >= tensor->begin && tensor->end - tensor->begin <= size);
        size_t its = (size_t)(tensor->end - tensor->begin);
        FUZZ_PROMISE(gp_safetensors_read(file, tensor, 0, its, data, &err) == GP_OK);
        FUZZ_PROMISE(gp_safetensors_read(file, tensor, its, 1, data, &err) != GP_OK);
    }
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static bool made;
    gp_error err = {0};
    gp_safetensors *file = NULL;
    if (!made) {
        FUZZ_PROMISE(mkdtemp(folder));
        atexit(remove_folder);
        made = true;
    }
    write_files(bytes, size);
    gp_status status = gp_safetensors_open(folder, &file, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return 0;
    read_tensors(file, size);
    status = gp_safetensors_check_sum(file, &err);
    fuzz_check(status, &err);
    gp_safetensors_close(&file);
    return 0;
}
