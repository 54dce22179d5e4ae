/* A program that was built without MPI, of which a launcher starts three: one of them says so. The test's own
 * mpi_none.c is compiled without MPI. Each process is a child of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/process.h"
#include "process/mpi_wire.h"
#include "process/processes.h"

enum { PROCESSES = 3 };

/* As the programs do it. */
static void run_child(const char *rank, int said) {
    gp_processes *processes = NULL;
    gp_error err = {0};
    dup2(said, STDERR_FILENO);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    setenv("OMPI_COMM_WORLD_RANK", rank, 1);
    gp_status status = gp_processes_open(0, &processes, &err);
    if (!gp_process_says_alone(rank[0] - '0')) err.text[0] = '\0';
    exit(gp_process_end("program", &processes, status, &err));
}

static void start(const char *rank, pid_t *child, int *said) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    *child = fork();
    assert_true(*child >= 0);
    if (*child == 0) run_child(rank, ends[1]);
    close(ends[1]);
    *said = ends[0];
}

static void finish(pid_t child, int said, char text[512]) {
    int status;
    size_t used = 0;
    for (ssize_t n; used < 511 && (n = read(said, text + used, 511 - used)) > 0;) used += (size_t)n;
    text[used] = '\0';
    close(said);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* Process 0 at once; process 1 later, since process 0 may have been built with MPI, and wait; no other one. */
static void who_speaks(void **state) {
    static const char *const ranks[] = {"0", "1", "2"};
    static const char sentence[] = "program: this program was built without MPI, and cannot run as several processes: "
                                   "install an MPI (scripts/setup.sh --mpi), and build again\n";
    (void)state;
    pid_t child[PROCESSES];
    int said[PROCESSES];
    char text[512];
    assert_false(gp_processes_are_built());
    for (int r = 0; r < PROCESSES; r++) start(ranks[r], &child[r], &said[r]);
    for (int r = 0; r < PROCESSES; r++) {
        finish(child[r], said[r], text);
        assert_string_equal(text, r < 2 ? sentence : "");
    }
}

/* What the program calls has a form without MPI, too. */
static void the_wire_does_nothing(void **state) {
    (void)state;
    gp_wire *wire = NULL;
    gp_error err = {0};
    int number = 5, all = 0;
    gp_mpi_broadcast(wire, 0, &number, (int)sizeof number);
    gp_mpi_gather(wire, &number, (int)sizeof number, &all);
    assert_int_equal(all, 5);
    gp_mpi_machines(wire, &all);
    assert_int_equal(all, 0);
    assert_string_equal(gp_mpi_library(), "");
    assert_int_equal(gp_mpi_start(wire, &err), GP_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_speaks), /* forks, before there are threads */
        cmocka_unit_test(the_wire_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
