/* The clock that measures how long something takes.
 *
 * Any thread. */
#ifndef GP_BASE_CLOCK_H
#define GP_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
uint64_t gp_clock(void);
/* The same in seconds. */
double gp_now(void);

#endif
