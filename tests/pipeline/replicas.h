/* Small trainings with replicas, for the tests of replicas: layouts, options, and what a training came to. cmocka
 * asserts inside, so main thread only. */
#ifndef GP_TESTS_PIPELINE_REPLICAS_H
#define GP_TESTS_PIPELINE_REPLICAS_H

#include "pipeline/harness.h"

enum { REPLICAS_MOST = 4 };

/* Layers of each stage, and its replicas. */
typedef struct replicas_layout {
    int stages;
    int64_t layers[REPLICAS_MOST];
    int replicas[REPLICAS_MOST];
} replicas_layout;

/* On ref in f64: mini-batches of 24 in three micro-batches, 12 at the end of an epoch, evaluations of 18. */
harness_options replicas_options(const char *model, const replicas_layout *its);

typedef struct replicas_results {
    double *values; /* of all parameters and buffers */
    int64_t count;
    double losses[4], norm;
} replicas_results;

/* Three steps at most, the third of the smaller mini-batch, and an evaluation. The caller frees `values`. */
replicas_results replicas_train(const harness_options *options, int steps);
/* Equal within rounding: losses and norm to 1e-10, values to 1e-9. */
void replicas_expect_close(const replicas_results *found, const replicas_results *expected, const char *what);
void replicas_must(gp_status status, const gp_error *err);

#endif
