/* A short training for the tests of the CUDA device without a GPU: what the recorder then says of it. For one test at a
 * time; cmocka asserts inside, so main thread only. */
#ifndef GP_TESTS_CUDA_TRAINING_H
#define GP_TESTS_CUDA_TRAINING_H

#include "base/status.h"
#include "pipeline/harness.h"

enum { TRAINING_MAX_STAGES = 5, TRAINING_STEPS = 5 };

/* A network and how it is cut. */
typedef struct training_cut {
    const char *model;
    int stages;
    int64_t layers[TRAINING_MAX_STAGES];
} training_cut;

/* On the CUDA device, with clipping; the workers are spread over `devices`. */
harness_options training_options(const training_cut *cut, gp_checkpoint_mode mode, bool lockstep, int devices);

typedef struct training_outcome {
    uint64_t hash; /* of losses and all that is kept */
    double losses[TRAINING_STEPS];
} training_outcome;

/* The first `steps` of: three steps, an evaluation, a smaller step. Steps begin behind one another where the plan has
 * it so, but with `alone`; where nothing is under way all threads of the recorder meet. `out` may be NULL: then nothing
 * is read at the end. */
gp_status training_run(const harness_options *options, int steps, bool alone, training_outcome *out, gp_error *err);

#endif
