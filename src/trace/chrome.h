/* Timelines as JSON in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing read.
 *
 * Events are written as they come, in any order; texts are escaped here. Writing goes on quietly after the first
 * failure, which gp_chrome_close reports. Owned by who opened it; one thread. Times are gp_clock's, written as
 * microseconds from `origin`.
 */
#ifndef GP_TRACE_CHROME_H
#define GP_TRACE_CHROME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef struct gp_chrome gp_chrome;

/* Creates the file, or empties one that holds a timeline or nothing; any other is refused. GP_IO with its name. */
GP_MUST_USE gp_status gp_chrome_open(const char *path, gp_chrome **out, gp_error *err);
/* Ends the JSON and closes the file; an empty timeline is valid too. GP_IO. */
GP_MUST_USE gp_status gp_chrome_close(gp_chrome **chrome, gp_error *err);

/* Before the first event. */
void gp_chrome_origin(gp_chrome *chrome, uint64_t origin);
void gp_chrome_name_process(gp_chrome *chrome, const char *name);
/* Tracks stand by `order`: their numbers, or 0 for one that is above all others. */
void gp_chrome_name_track(gp_chrome *chrome, int track, int order, const char *name);
/* `args`: members of a JSON object without its braces, "" for none. */
void gp_chrome_span(gp_chrome *chrome, int track, const char *category, const char *name, uint64_t start, uint64_t end,
                    const char *args);
/* One end of an arrow between two spans: within the span that is open at `time` on the track. */
void gp_chrome_arrow(gp_chrome *chrome, bool ends, int track, const char *name, uint64_t id, uint64_t time);
void gp_chrome_counter(gp_chrome *chrome, const char *name, const char *unit, uint64_t time, uint64_t value);
/* After the last event: the stream that takes one JSON value, otherData.<key> of the file. */
FILE *gp_chrome_data(gp_chrome *chrome, const char *key);

#endif
