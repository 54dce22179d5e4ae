/* Which process has which worker: devices with and without ranks, replicas, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "session/placement.h"

enum { MOST = 16, NONE = -1 };

typedef struct placement {
    const char *what;
    int processes;
    int replicas[MOST]; /* of each entry; 0 ends them */
    int ranks[MOST];    /* of each worker, plus one: 0 is no rank */
    int expected[MOST];
    const char *error; /* NULL: none */
} placement;

static const placement cases[] = {
    {"one process", 1, {1, 1, 1}, {0}, {0, 0, 0}, NULL},
    {"one each", 3, {1, 1, 1}, {0}, {0, 1, 2}, NULL},
    {"evenly, neighbours together", 2, {1, 1, 1, 1}, {0}, {0, 0, 1, 1}, NULL},
    {"not divisible", 2, {1, 1, 1}, {0}, {0, 0, 1}, NULL},
    {"not divisible, more", 3, {1, 1, 1, 1, 1, 1, 1}, {0}, {0, 0, 0, 1, 1, 2, 2}, NULL},
    {"one entry's replicas", 2, {2}, {0}, {0, 1}, NULL},
    {"a process for each replica", 2, {2, 2}, {0}, {0, 1, 0, 1}, NULL},
    {"two processes for each replica", 4, {2, 2}, {0}, {0, 2, 1, 3}, NULL},
    {"two for each, of three entries", 4, {2, 2, 2}, {0}, {0, 2, 0, 2, 1, 3}, NULL},
    {"a process for each of three replicas", 3, {3, 3}, {0}, {0, 1, 2, 0, 1, 2}, NULL},
    {"replicas that processes cannot be divided among", 3, {2, 2}, {0}, {0, 0, 1, 2}, NULL},
    {"unequal replicas", 2, {2, 1}, {0}, {0, 0, 1}, NULL},
    {"unequal replicas, the first alone", 2, {1, 3}, {0}, {0, 0, 1, 1}, NULL},
    {"unequal replicas, the first fewer", 2, {2, 4}, {0}, {0, 0, 0, 1, 1, 1}, NULL},
    {"replicas in one process", 1, {2, 2}, {0}, {0, 0, 0, 0}, NULL},
    {"ranks", 2, {1, 1, 1, 1}, {2, 1, 2, 1}, {1, 0, 1, 0}, NULL},
    {"ranks of replicas", 3, {2, 1}, {1, 3, 2}, {0, 2, 1}, NULL},
    {"some have ranks", 2, {1, 1, 1, 1}, {0, 0, 1, 0}, {0, 1, 0, 1}, NULL},
    {"ranks of the last process first", 2, {1, 1, 1}, {2, 2, 0}, {1, 1, 0}, NULL},
    {"a rank of the first process", 2, {1, 1}, {1, 0}, {0, 1}, NULL},
    {"more ranks than a process has room for", 3, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 0, 0}, {0, 0, 0, 0, 1, 2}, NULL},
    {"ranks between", 3, {1, 1, 1, 1, 1}, {0, 3, 0, 0, 0}, {0, 2, 0, 1, 1}, NULL},
    {"a rank among replicas", 2, {2, 2}, {0, 0, 0, 1}, {0, 1, 1, 0}, NULL},
    {"more processes than workers",
     3,
     {1, 1},
     {0},
     {0},
     "c.yaml:3:1: pipeline.devices: there are 3 processes, but only 2 workers; start fewer processes, or name more "
     "devices"},
    {"more processes than one worker",
     2,
     {1},
     {0},
     {0},
     "c.yaml:3:1: pipeline.devices: there are 2 processes, but only 1 worker; start fewer processes, or name more "
     "devices"},
    {"a rank that no number of processes gives",
     2,
     {1, 1},
     {0, 3},
     {0},
     "c.yaml:3:2: pipeline.devices: worker 1 has rank 2, but 2 workers can be in 2 processes at most, numbered from 0"},
    {"a rank above the only one",
     1,
     {1},
     {2},
     {0},
     "c.yaml:3:1: pipeline.devices: worker 0 has rank 1, but 1 worker can be in 1 process at most, numbered from 0"},
    {"a rank that is not there",
     2,
     {1, 1, 1},
     {0, 0, 3},
     {0},
     "c.yaml:3:3: pipeline.devices: worker 2 has rank 2, but there are 2 processes, numbered from 0"},
    {"a rank without a launcher",
     1,
     {1, 1},
     {1, 2},
     {0},
     "c.yaml:3:2: pipeline.devices: worker 1 has rank 1, but there is 1 process, numbered from 0"},
    {"a rank is wrong before the processes are too many",
     4,
     {1, 1, 1},
     {0, 5, 0},
     {0},
     "c.yaml:3:2: pipeline.devices: worker 1 has rank 4, but 3 workers can be in 3 processes at most, numbered from 0"},
};

/* Devices stand in line 3, one in each column. */
static void fill(const placement *its, gp_pipeline_config *out, gp_device_config devices[MOST], int replicas[MOST]) {
    memset(out, 0, sizeof *out);
    memset(devices, 0, MOST * sizeof *devices);
    memcpy(replicas, its->replicas, sizeof its->replicas);
    while (its->replicas[out->entry_count] > 0) out->device_count += its->replicas[out->entry_count++];
    assert_true(out->device_count <= MOST);
    for (int w = 0; w < out->device_count; w++) {
        devices[w].rank = its->ranks[w] - 1;
        devices[w].place = (gp_place){"c.yaml", 3, w + 1};
    }
    out->devices = devices;
    out->replicas = replicas;
}

static void test_placement(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const placement *its = &cases[i];
        gp_pipeline_config pipeline;
        gp_device_config devices[MOST];
        int replicas[MOST], process[MOST];
        gp_error err = {0};
        print_message("%s\n", its->what);
        fill(its, &pipeline, devices, replicas);
        for (int w = 0; w < MOST; w++) process[w] = NONE;
        gp_status status = gp_placement_find(&pipeline, its->processes, process, &err);
        assert_string_equal(err.text, its->error ? its->error : "");
        assert_int_equal(status, its->error ? GP_CONFIG : GP_OK);
        for (int w = 0; w < pipeline.device_count && !its->error; w++) assert_int_equal(process[w], its->expected[w]);
        for (int w = pipeline.device_count; w < MOST; w++) assert_int_equal(process[w], NONE);
    }
}

/* ---- GPUs without a number --------------------------------------------------------------------------------------- */

typedef struct numbering {
    const char *what, *names; /* of each worker: c cuda, 3 cuda:3, = the entry before once more, p cpu */
    int processes, process[MOST];
    int machines[MOST], known;
    int expected[MOST];
    const char *error; /* NULL: none */
} numbering;

static const numbering numberings[] = {
    {"one process", "c31p", 1, {0}, {0}, 0, {0, 3, 1, 0}, NULL},
    {"count", "c==", 1, {0}, {0}, 0, {0, 0, 0}, NULL},
    {"two in one process",
     "c1c",
     1,
     {0},
     {0},
     0,
     {0},
     "c.yaml:3:3: pipeline.devices: cuda is cuda:0, which the list has already; write cuda:0, cuda:1"},
    {"a process each, on one machine", "cccc", 4, {0, 1, 2, 3}, {0}, 0, {0, 1, 2, 3}, NULL},
    {"on two machines", "cccc", 4, {0, 1, 2, 3}, {0, 0, 2, 2}, 1, {0, 1, 0, 1}, NULL},
    {"machines by turns", "c===", 4, {3, 2, 1, 0}, {0, 1, 0, 1}, 1, {1, 1, 0, 0}, NULL},
    {"a number stands", "c5", 2, {1, 0}, {0, 0}, 1, {1, 5}, NULL},
    {"two in one of several",
     "ccc",
     2,
     {0, 1, 1},
     {0},
     0,
     {0},
     "c.yaml:3:3: pipeline.devices: cuda is one GPU of its process, and process 1 has it on worker 1 already; write "
     "cuda:0, cuda:1"},
};

static void name_devices(const numbering *its, gp_pipeline_config *out, gp_device_config devices[MOST]) {
    *out = (gp_pipeline_config){.devices = devices, .device_count = (int)strlen(its->names)};
    for (int w = 0; w < out->device_count; w++) {
        char name = its->names[w];
        devices[w] = (gp_device_config){.kind = name == 'p' ? "cpu" : "cuda", .place = {"c.yaml", 3, w + 1}};
        if (name == '=') devices[w].place = devices[w - 1].place;
        devices[w].numbered = name >= '0' && name <= '9';
        if (devices[w].numbered) devices[w].index = name - '0';
    }
}

static void test_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof numberings / sizeof *numberings; i++) {
        const numbering *its = &numberings[i];
        gp_pipeline_config pipeline;
        gp_device_config devices[MOST];
        int index[MOST] = {0};
        gp_error err = {0};
        print_message("%s\n", its->what);
        name_devices(its, &pipeline, devices);
        gp_status status = gp_placement_number(&pipeline, its->processes, its->process,
                                               its->known ? its->machines : NULL, index, &err);
        assert_string_equal(err.text, its->error ? its->error : "");
        assert_int_equal(status, its->error ? GP_CONFIG : GP_OK);
        for (int w = 0; w < pipeline.device_count && !its->error; w++) assert_int_equal(index[w], its->expected[w]);
    }
}

/* ---- all sizes --------------------------------------------------------------------------------------------------- */

/* Every process has a worker, and one more at most than any other. Each replica has processes of its own if it can. */
static void expect_even(const gp_pipeline_config *pipeline, int processes) {
    int process[MOST], workers[MOST] = {0}, each = pipeline->replicas[0];
    gp_error err = {0};
    assert_int_equal(gp_placement_find(pipeline, processes, process, &err), GP_OK);
    for (int w = 0; w < pipeline->device_count; w++) {
        assert_in_range(process[w], 0, processes - 1);
        workers[process[w]]++;
    }
    for (int p = 0; p < processes; p++) {
        assert_true(workers[p] >= pipeline->device_count / processes);
        assert_true(workers[p] <= (pipeline->device_count + processes - 1) / processes);
    }
    bool apart = each > 1 && processes % each == 0 && processes / each <= pipeline->entry_count;
    for (int w = 0; w < pipeline->device_count && apart; w++)
        assert_int_equal(process[w] / (processes / each), w % each);
}

static void test_all_sizes(void **state) {
    (void)state;
    for (int entries = 1; entries < MOST; entries++) {
        for (int each = 1; each * entries <= MOST; each++) {
            placement its = {.what = ""};
            gp_pipeline_config pipeline;
            gp_device_config devices[MOST];
            int replicas[MOST];
            for (int e = 0; e < entries; e++) its.replicas[e] = each;
            fill(&its, &pipeline, devices, replicas);
            for (int processes = 1; processes <= pipeline.device_count; processes++) expect_even(&pipeline, processes);
        }
    }
}

static void test_processes_that_ranks_need(void **state) {
    static const placement some[] = {{.processes = 1, .replicas = {1, 1}, .ranks = {0, 0}},
                                     {.processes = 1, .replicas = {1, 1}, .ranks = {0, 1}},
                                     {.processes = 3, .replicas = {1, 2}, .ranks = {0, 3, 0}},
                                     {.processes = 2, .replicas = {2}, .ranks = {2, 1}}};
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        gp_pipeline_config pipeline;
        gp_device_config devices[MOST];
        int replicas[MOST];
        fill(&some[i], &pipeline, devices, replicas);
        assert_int_equal(gp_placement_processes(&pipeline), some[i].processes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_processes_that_ranks_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
