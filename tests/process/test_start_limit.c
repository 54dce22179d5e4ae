/* The limit for the time in which processes meet: who is late ends, and only processes 0 and 1 speak. Each case is a
 * process of its own. */
#include "process/start_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The exit status of a process that is late (or meets the others), and what it has said. */
static int late(int rank, double seconds, int meets, char said[512]) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        gp_start_limit *limit = gp_start_limit_begin(rank, seconds);
        if (!limit) _exit(9);
        if (meets) {
            double left = gp_start_limit_left(limit);
            if (left <= 0 || left > seconds) _exit(6);
            gp_start_limit_end(&limit);
            _exit(limit ? 8 : 7);
        }
        for (;;) pause();
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; used < 511 && (n = read(ends[0], said + used, 511 - used)) > 0;) used += (size_t)n;
    said[used] = '\0';
    close(ends[0]);
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void who_is_late_ends(void **state) {
    (void)state;
    char said[512];
    assert_int_equal(late(0, 0.2, 0, said), 1);
    assert_string_equal(said, "gpipe-train: process 0: the processes have not met within 0 s; one of them hangs, was "
                              "stopped, or was started to do something else\n");
    assert_int_equal(late(1, 0.2, 0, said), 1);
    assert_non_null(strstr(said, "process 1: the processes have not met"));
    assert_int_equal(late(5, 0.2, 0, said), 1);
    assert_string_equal(said, "");
}

static void who_meets_the_others_goes_on(void **state) {
    (void)state;
    char said[512];
    assert_int_equal(late(0, 1e6, 1, said), 7);
    assert_string_equal(said, "");
    gp_start_limit *none = NULL;
    gp_start_limit_end(&none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_late_ends),
        cmocka_unit_test(who_meets_the_others_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
