/* The reader of safetensors files: names, places and bytes of whatever it opens. */
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_safetensors *file = NULL;
    gp_status status = gp_safetensors_open(fuzz_file(0, bytes, size), &file, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return 0;
    status = gp_safetensors_check_any_sum(file, &err);
    fuzz_check(status, &err);
    FUZZ_PROMISE(status == GP_OK || gp_safetensors_check_sum(file, &err) != GP_OK);
    size_t count = gp_safetensors_count(file);
    uint64_t end = 0, all = count ? gp_safetensors_at(file, count - 1)->end : 0;
    FUZZ_PROMISE(all <= size);
    const uint8_t *contents = bytes + size - all;
    unsigned char *data = malloc(size);
    FUZZ_PROMISE(data);
    for (size_t i = 0; i < count; i++) {
        const gp_safetensor *tensor = gp_safetensors_at(file, i);
        FUZZ_PROMISE(gp_safetensors_find(file, tensor->name) == tensor);
        FUZZ_PROMISE(tensor->begin == end && tensor->end >= tensor->begin && tensor->end <= all);
        end = tensor->end;
        size_t its = (size_t)(tensor->end - tensor->begin);
        FUZZ_PROMISE(gp_safetensors_read(file, tensor, 0, its, data, &err) == GP_OK);
        FUZZ_PROMISE(memcmp(data, contents + tensor->begin, its) == 0);
        FUZZ_PROMISE(gp_safetensors_read(file, tensor, its, 1, data, &err) != GP_OK);
    }
    free(data);
    gp_safetensors_close(&file);
    return 0;
}
