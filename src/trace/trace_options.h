/* The timeline that the command line asks for: --trace and its options. The plan of the host's memory and the loaders
 * need them before a run begins.
 *
 * Plain data; any thread. */
#ifndef GP_TRACE_TRACE_OPTIONS_H
#define GP_TRACE_TRACE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_trace_options {
    const char *path;    /* NULL: no timeline */
    int64_t first, last; /* steps, from 1; evaluations that follow one of them are recorded too, as many mini-batches as
                            steps at most */
    bool layers;         /* the layers within instructions, too */
} gp_trace_options;

/* GP_USAGE if the timeline would be empty: a run that goes on from step `from` (0: begins) and ends after `steps` runs
 * none of the steps. */
GP_MUST_USE gp_status gp_trace_options_check(const gp_trace_options *options, int64_t from, int64_t steps,
                                             gp_error *err);

#endif
