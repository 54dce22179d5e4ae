/* How many processors other programs keep busy while this one works.
 *
 * From /proc, of the processors that this process may use. Any thread. */
#ifndef GP_PROFILE_LOAD_H
#define GP_PROFILE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gp_load {
    double busy, own; /* seconds of the processors, of this process, up to then; busy < 0: not known */
    uint64_t at;      /* nanoseconds of a monotonic clock */
} gp_load;

void gp_load_begin(gp_load *out);
/* Processors, on average since then, that worked for other programs, CPU steal included; negative: not known. */
double gp_load_others(const gp_load *since);
/* The same over the next quarter of a second, in which the caller sleeps. */
double gp_load_now(void);
/* Whether others leave too few of `processors` for work on `needed` of them: at least 15 % of it would be displaced. */
bool gp_load_is_high(double others, int needed, int processors);

#endif
