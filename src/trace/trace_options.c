#include "trace/trace_options.h"

#include <inttypes.h>

gp_status gp_trace_options_check(const gp_trace_options *options, int64_t from, int64_t steps, gp_error *err) {
    int64_t first = options->first, last = options->last;
    if (!options->path || (first <= steps && last > from) || (steps == 0 && first == 1)) return GP_OK;
    if (steps == 0)
        return gp_fail(err, GP_USAGE,
                       "--trace-steps %" PRId64 ":%" PRId64 ": the run trains no step, so the timeline would be empty: "
                       "for its evaluation, begin with step 1",
                       first, last);
    return gp_fail(err, GP_USAGE,
                   "--trace-steps %" PRId64 ":%" PRId64 ": the run has steps %" PRId64 " to %" PRId64
                   ", so the timeline would be empty: choose some of these",
                   first, last, from + 1, steps);
}
