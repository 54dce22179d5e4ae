/* A small graph with skips, cut into stages: what the texts of programs are held against. */
#ifndef GP_TESTS_FUZZ_FUZZ_STAGES_H
#define GP_TESTS_FUZZ_FUZZ_STAGES_H

#include "schedule/stages.h"

enum { FUZZ_MOST_STAGES = 4 };

/* One layer per stage, the rest on the last one; NULL for a count that is not 1 … FUZZ_MOST_STAGES. Made once, never
 * given back. */
const gp_stages *fuzz_stages(int count);

#endif
