/* The machine's processors: what became of their time (/proc/stat).
 *
 * A virtual machine is told how much of the time that its processors wanted its host gave to others ("steal"). Plain
 * values; any thread. */
#ifndef GP_SESSION_PROCESSORS_H
#define GP_SESSION_PROCESSORS_H

#include <stdint.h>

/* Ticks since the machine started, of all processors; 0 where it does not say. */
typedef struct gp_processor_times {
    uint64_t worked, stolen;
} gp_processor_times;

void gp_processor_times_read(gp_processor_times *out);
/* What was stolen since, as a share of that and what was worked; 0 where nothing is known. */
double gp_processor_times_stolen(const gp_processor_times *since);

#endif
