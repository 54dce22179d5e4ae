/* Data sets in a safetensors file. */
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_source *source = NULL;
    const char *path = fuzz_file(0, bytes, size);
    gp_status status = gp_tensors_open(path, false, &source, &err);
    fuzz_check(status, &err);
    if (status == GP_OK) fuzz_samples(source, &(gp_source_config){.kind = GP_SOURCE_TENSORS, .file = (char *)path});
    return 0;
}
