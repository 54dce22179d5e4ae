/* A scenario carried out again and again, each time with another call that fails. Each time is a process of its own, so
 * that what one leaves behind is nothing to the next. cmocka asserts inside, so main thread only. */
#ifndef GP_TESTS_FAILING_EACH_H
#define GP_TESTS_FAILING_EACH_H

#include <stdbool.h>

#include "base/status.h"
#include "failing/calls.h"

typedef struct each_scenario {
    const char *name;
    void (*prepare)(void); /* before each time; may be NULL */
    /* Leaves nothing behind, whatever it returns. */
    gp_status (*run)(gp_error *err);
    /* Where it succeeded though this call failed: whether everything is as if it had not. NULL: it never is. */
    bool (*is_whole)(const char *failed);
    int most; /* times at most, ≥ 2: half of them for the first calls, the rest sampled from those after them */
} each_scenario;

/* Where it is not 0: the times at most of every scenario, instead of its own. */
extern int each_most;

/* One time in which nothing fails. */
void each_once(const each_scenario *scenario);

/* Each time must end soon, either whole or with an error that has a sentence (GP_MEMORY where memory or a thread was
 * refused), and leave no thread, no open file and, where LeakSanitizer watches, no block behind. Prints what came of
 * it; GPIPE_TEST_VERBOSE in the environment lets warnings and the times without harm be seen. */
void each_call_fails(const each_scenario *scenario, calls_family family);

#endif
