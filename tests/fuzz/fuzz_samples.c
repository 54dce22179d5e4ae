#include "fuzz/fuzz_samples.h"

#include <stdlib.h>

#include "data/dataset.h"
#include "fuzz/fuzz.h"

enum { MOST_ELEMENTS = 1 << 16, MOST_SAMPLES = 64 };

void fuzz_samples(gp_source *source, const gp_source_config *config) {
    gp_error err = {0};
    int64_t inputs = 0, targets = 0;
    gp_sample_spec spec = {.input = source->input,
                           .input_dtype = GP_F32,
                           .target = source->target,
                           .target_dtype = source->target_dtype,
                           .classes = 10,
                           .ignore = -100};
    bool counted = gp_shape_elements(source->input, &inputs) && gp_shape_elements(source->target, &targets);
    FUZZ_PROMISE(source->samples >= 1);
    source->class->close(source);
    if (!counted || inputs > MOST_ELEMENTS || targets > MOST_ELEMENTS) return;
    gp_dataset *dataset = NULL;
    gp_status status = gp_dataset_open(config, &spec, &dataset, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return;
    float *input = calloc((size_t)inputs + 1, sizeof *input);
    int64_t *target = calloc((size_t)targets + 1, sizeof *target);
    void *scratch = malloc(gp_dataset_scratch(dataset));
    FUZZ_PROMISE(input && target && scratch);
    int64_t count = gp_dataset_count(dataset);
    for (int64_t i = 0; i < count; i += 1 + count / MOST_SAMPLES) {
        int64_t counts = -1;
        status =
            gp_dataset_read(dataset, (gp_sample_key){.index = i, .epoch = 1}, scratch, input, target, &counts, &err);
        FUZZ_PROMISE(status != GP_OK || (counts >= 0 && counts <= targets));
        fuzz_check(status, &err);
    }
    free(scratch);
    free(input);
    free(target);
    gp_dataset_close(&dataset);
}
