/* What launchers say of themselves, as variables: which of them counts, and what is refused. */
#include "process/launch.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {"OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMI_SIZE",
                                    "PMI_RANK",
                                    "PMI_FD",
                                    "MPI_LOCALNRANKS",
                                    "PMIX_RANK",
                                    "FLUX_URI",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_DISTRIBUTION"};

/* The variables of a launcher, and no others: name, value, …, NULL. */
static void set(const char *name, ...) {
    va_list rest;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    va_start(rest, name);
    for (; name; name = va_arg(rest, const char *)) setenv(name, va_arg(rest, const char *), 1);
    va_end(rest);
}

static void expect_launch(int count, int rank) {
    int its, own;
    gp_launch_find(&its, &own);
    assert_int_equal(its, count);
    assert_int_equal(own, rank);
}

static void who_was_started_by_whom(void **state) {
    (void)state;
    set(NULL);
    expect_launch(1, 0);
    set("OMPI_COMM_WORLD_SIZE", "3", "OMPI_COMM_WORLD_RANK", "2", NULL);
    expect_launch(3, 2);
    set("PMI_SIZE", "4", "PMI_RANK", "1", NULL);
    expect_launch(4, 1);
    set("SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "3", NULL);
    expect_launch(4, 3);
    /* mpirun within a batch job, whose daemons Slurm has started */
    set("SLURM_STEP_NUM_TASKS", "2", "SLURM_PROCID", "1", "OMPI_COMM_WORLD_SIZE", "1", "OMPI_COMM_WORLD_RANK", "0",
        NULL);
    expect_launch(1, 0);
    /* a batch script itself is one process, whatever its job has */
    set("SLURM_NTASKS", "4", "SLURM_PROCID", "0", NULL);
    expect_launch(1, 0);
    static const char *const wrong[][2] = {{"", "0"},   {"x", "0"},  {"-2", "0"}, {"2", "2"},
                                           {"2", "-1"}, {"2x", "0"}, {"2", ""},   {"99999999999999999999", "0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        set("SLURM_STEP_NUM_TASKS", wrong[i][0], "SLURM_PROCID", wrong[i][1], NULL);
        expect_launch(1, 0);
    }
}

static void slurm_without_pmi_is_refused(void **state) {
    (void)state;
    static const char *const open_mpi = "Open MPI v4.1.4";
    gp_error err = {0};
    set("SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "3", NULL);
    assert_int_equal(gp_launch_check(open_mpi, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text,
                        "srun started 4 processes, but does not connect them; with Slurm, try srun --mpi=pmix");
    assert_int_equal(gp_launch_check("Intel(R) MPI Library 2021.10", &err), GP_OK); /* it may know Slurm itself */
    static const char *const offered[] = {"PMIX_RANK", "PMI_FD", "FLUX_URI"};
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++) {
        set("SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "3", offered[i], "0", NULL);
        assert_int_equal(gp_launch_check(open_mpi, &err), GP_OK);
    }
    set("SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "3", "OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_RANK", "0",
        NULL);
    assert_int_equal(gp_launch_check(open_mpi, &err), GP_OK);
    set("SLURM_STEP_NUM_TASKS", "1", "SLURM_PROCID", "0", NULL);
    assert_int_equal(gp_launch_check(open_mpi, &err), GP_OK);
    set("SLURM_NTASKS", "4", "SLURM_PROCID", "0", NULL);
    assert_int_equal(gp_launch_check(open_mpi, &err), GP_OK);
    set(NULL);
    assert_int_equal(gp_launch_check(open_mpi, &err), GP_OK);
}

/* ---- machines ---------------------------------------------------------------------------------------------------- */

static void tasks_of_hosts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int count, machine[6];
    } good[] = {
        {"2", 2, {0, 0}},
        {"2(x2)", 4, {0, 0, 2, 2}},
        {"2(x2),1", 5, {0, 0, 2, 2, 4}},
        {"1,2(x2),1", 6, {0, 1, 1, 3, 3, 5}},
        {"1(x3)", 3, {0, 1, 2}},
    };
    static const char *const wrong[] = {
        "",      "0",  "2",         "4,",         ",4",       "4(x0)", "2(x2",      "2(x2)3",     "2(y2)",
        "-4",    "4 ", "2(x)",      "2(x2),1",    "3(x2),-2", "(x2)",  "4(x1)(x1)", "4294967297", "1048576(x1048576)",
        "2(x3)", "+4", "2(x-2),0x", "2(x2),0(x9)"};
    int out[6];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(gp_launch_read_tasks(good[i].text, good[i].count, out));
        for (int p = 0; p < good[i].count; p++) assert_int_equal(out[p], good[i].machine[p]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (gp_launch_read_tasks(wrong[i], 4, out)) fail_msg("\"%s\"", wrong[i]);
}

/* As text: the machine of each process; "": not known. */
static void expect_machines(int count, const char *expected) {
    int *its = NULL;
    char text[64] = "";
    gp_error err = {0};
    assert_int_equal(gp_launch_machines(count, &its, &err), GP_OK);
    for (int p = 0; p < count && its; p++) text[p] = (char)('0' + its[p]);
    assert_string_equal(text, expected);
    free(its);
}

static void machines_of_launchers(void **state) {
    (void)state;
    set(NULL);
    expect_machines(0, "");
    expect_machines(4, "");
    set("OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL);
    expect_machines(5, "00224");
    set("MPI_LOCALNRANKS", "4", NULL);
    expect_machines(4, "0000");
    expect_machines(2, "");
    set("SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "0", "SLURM_STEP_TASKS_PER_NODE", "3,1", NULL);
    expect_machines(4, "0003");
    expect_machines(3, "");
    setenv("SLURM_DISTRIBUTION", "block:cyclic", 1);
    expect_machines(4, "0003");
    setenv("SLURM_DISTRIBUTION", "cyclic", 1);
    expect_machines(4, "");
    /* those of the daemons, not of what mpirun starts */
    set("SLURM_STEP_NUM_TASKS", "2", "SLURM_PROCID", "0", "SLURM_STEP_TASKS_PER_NODE", "1(x2)", "OMPI_COMM_WORLD_SIZE",
        "2", "OMPI_COMM_WORLD_RANK", "0", NULL);
    expect_machines(2, "");
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    expect_machines(2, "00");
}

/* Of a child that may use the first `each` of this process's processors; its parent may use all of them. */
static int count_in_child(int each, const int *machines, int count) {
    cpu_set_t all, own;
    int status;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&own);
    for (size_t c = 0; c < CPU_SETSIZE && CPU_COUNT(&own) < each; c++)
        if (CPU_ISSET(c, &all)) CPU_SET(c, &own);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(sched_setaffinity(0, sizeof own, &own) == 0 ? gp_launch_processors(machines, count) & 0x7f : 0xff);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Before the processes have met: all of this machine, within what the launcher may use. */
static void processors_of_all_processes(void **state) {
    static const int together[] = {0, 0, 0, 0}, apart[] = {0, 0, 2, 2}, single[] = {0, 1};
    cpu_set_t all;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int most = least(CPU_COUNT(&all), 16);
    for (int each = 1; each <= most; each++) {
        assert_int_equal(count_in_child(each, together, 4), least(4 * each, CPU_COUNT(&all)));
        assert_int_equal(count_in_child(each, apart, 4), least(2 * each, CPU_COUNT(&all)));
        assert_int_equal(count_in_child(each, single, 2), 0);
        assert_int_equal(count_in_child(each, NULL, 4), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_started_by_whom),
        cmocka_unit_test(slurm_without_pmi_is_refused),
        cmocka_unit_test(tasks_of_hosts),
        cmocka_unit_test(machines_of_launchers),
        cmocka_unit_test(processors_of_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
