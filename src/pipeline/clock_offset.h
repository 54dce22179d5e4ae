/* How far the clock of another process is ahead of this one's, from messages there and back (Cristian, "Probabilistic
 * clock synchronization", 1989).
 *
 * A reading: this process sends at `began`, the other one reads its clock and answers, and the answer is here at
 * `ended`. So its clock was read between these times, and each reading gives a range for the offset; the true one lies
 * in all of them. If they leave 0 open, both have the same clock: processes on one host do, and clocks that count from
 * the starts of two hosts do not agree to within a message.
 *
 * Nanoseconds. Pure; any thread. */
#ifndef GP_PIPELINE_CLOCK_OFFSET_H
#define GP_PIPELINE_CLOCK_OFFSET_H

#include <stdint.h>

typedef struct gp_clock_range {
    int64_t least, most; /* of their clock less ours */
} gp_clock_range;

/* Before the first reading. */
gp_clock_range gp_clock_range_open(void);
/* Takes in a reading. */
void gp_clock_range_narrow(gp_clock_range *range, uint64_t began, uint64_t theirs, uint64_t ended);
/* 0, or the middle of the range. */
int64_t gp_clock_range_offset(const gp_clock_range *range);

#endif
