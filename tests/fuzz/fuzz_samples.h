/* For the targets of data files: every sample of an opened source, as a training would read it. */
#ifndef GP_TESTS_FUZZ_FUZZ_SAMPLES_H
#define GP_TESTS_FUZZ_FUZZ_SAMPLES_H

#include "data/source.h"
#include "settings/config.h"

/* Opens and closes the source itself for what its samples are; then the same files as a data set that wants just
 * that. */
void fuzz_samples(gp_source *source, const gp_source_config *config);

#endif
