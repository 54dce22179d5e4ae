/* Marks of the real table: what a tool for NVTX gets, and whether one is there. NVTX looks for its tool once in a
 * process, so each case is a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>

#include "device/cuda/toolkit/toolkit.h"

enum { LISTENS = 1, TOLD = 2, SILENT = 4 };

/* In the child: a step's mark with an instruction's inside. */
static int try_marks(void) {
    int seen = 0;
    if (gp_cuda_toolkit.mark_begin("step 4")) seen |= LISTENS;
    gp_cuda_toolkit.mark_begin("F s1 m3");
    gp_cuda_toolkit.mark_end();
    gp_cuda_toolkit.mark_end();
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    const char *notes = tool ? dlsym(tool, "nvtx_tool_notes") : "";
    if (strcmp(notes, "<step 4 <F s1 m3 >>") == 0) seen |= TOLD;
    if (!*notes) seen |= SILENT;
    return seen;
}

static int marks_in_a_process(const char *tool, const char *levels) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsetenv("NVTX_INJECTION64_PATH");
        unsetenv("NVTX_TOOL_WITHOUT_LEVELS");
        if (tool) setenv("NVTX_INJECTION64_PATH", tool, 1);
        if (levels) setenv("NVTX_TOOL_WITHOUT_LEVELS", levels, 1);
        _exit(try_marks());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void without_a_tool(void **state) {
    (void)state;
    assert_int_equal(marks_in_a_process(NULL, NULL), SILENT);
}

static void a_tool_gets_the_names(void **state) {
    (void)state;
    assert_int_equal(marks_in_a_process(NVTX_TOOL, NULL), LISTENS | TOLD);
}

static void a_tool_that_counts_no_levels_gets_them_too(void **state) {
    (void)state;
    assert_int_equal(marks_in_a_process(NVTX_TOOL, "1"), LISTENS | TOLD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_tool),
        cmocka_unit_test(a_tool_gets_the_names),
        cmocka_unit_test(a_tool_that_counts_no_levels_gets_them_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
