/* What the program says while something takes long: on a terminal one line that is rewritten, in a pipe or a file a
 * line now and then.
 *
 * One thread at a time. The stream is borrowed. */
#ifndef GP_BASE_TICKER_H
#define GP_BASE_TICKER_H

#include <stdbool.h>
#include <stdio.h>

#include "base/memory.h"

typedef struct gp_ticker {
    FILE *out; /* NULL: nothing is said */
    bool terminal, open_line;
    double said; /* when the last line was; seconds of a monotonic clock */
} gp_ticker;

gp_ticker gp_ticker_on(FILE *out);
/* Whether the next line is due: 0.2 s after the last on a terminal, else 10 s. */
bool gp_ticker_is_due(const gp_ticker *ticker);
/* A line, now. */
void gp_ticker_say(gp_ticker *ticker, const char *format, ...) GP_PRINTF(2, 3);
/* Clears the line on a terminal; others may print again. */
void gp_ticker_end(gp_ticker *ticker);
/* The same, but the line stays, and the next one begins. */
void gp_ticker_keep(gp_ticker *ticker);
/* Clears a line that is open, so that an error begins a line. `of_others`: another process may have left one open on
 * the same terminal. Any thread, also while others hang. */
void gp_ticker_clear_line(bool of_others);

#endif
