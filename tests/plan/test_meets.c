/* Whom workers meet in the barriers of lockstep: those that copy from them in that clock, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/meets.h"
#include "schedule/toy_graph.h"

enum { MOST = 8, LINE = 400 };

static gp_device_kind host = {.on_host = true}, gpu = {.on_host = false};

static gp_waits *meets_of(const toy *t, const gp_programs *programs, const gp_device_spec *devices) {
    gp_waits *meets = NULL;
    gp_error err = {0};
    if (gp_meets_create(t->stages, programs, devices, &meets, &err) != GP_OK) fail_msg("%s", err.text);
    return meets;
}

/* "@2 r0/1 r1/0": in its third barrier a worker waits until micro-batches 0 and 1 were pulled on edges 1 and 0. */
static void write_meets(const gp_worker_waits *its, size_t barriers, char line[LINE]) {
    size_t used = 0;
    line[0] = '\0';
    for (size_t b = 0; b < barriers; b++)
        for (size_t i = its->first[b]; i < its->first[b + 1]; i++) {
            assert_int_equal(its->items[i].kind, GP_WAIT_PULLED);
            if (i == its->first[b]) used += (size_t)snprintf(line + used, LINE - used, "%s@%zu", used ? " " : "", b);
            used += (size_t)snprintf(line + used, LINE - used, " r%u/%u", its->items[i].micro, its->items[i].edge);
        }
}

static void check_table(int stages, bool skips, const char *const *lines) {
    toy t;
    gp_device_spec devices[MOST] = {{0}};
    toy_init_chain(&t, stages, skips);
    for (int w = 0; w < stages; w++) devices[w].kind = &host;
    gp_programs *programs = toy_schedule(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, true, true});
    gp_waits *meets = meets_of(&t, programs, devices);
    assert_non_null(meets);
    for (int w = 0; w < stages; w++) {
        char line[LINE];
        write_meets(&meets->worker[w], 2 * (2 + (size_t)stages - 1), line);
        assert_string_equal(line, lines[w]);
    }
    gp_waits_destroy(&meets);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Edges as in test_emit.c. */
static void tables(void **state) {
    (void)state;
    check_table(1, false, (const char *[]){""});
    check_table(2, false, (const char *[]){"@1 r0/0 @2 r1/0", "@4 r1/1 @5 r0/1"});
    check_table(3, false, (const char *[]){"@1 r0/0 @2 r1/0", "@2 r0/1 @3 r1/1 @6 r1/3 @7 r0/3", "@5 r1/2 @6 r0/2"});
    check_table(3, true,
                (const char *[]){"@1 r0/0 @2 r1/0 r0/1 @3 r1/1", "@2 r0/2 @3 r1/2 @6 r1/5 @7 r0/5",
                                 "@5 r1/3 r1/4 @6 r0/3 r0/4"});
}

/* Two workers on one GPU, which copies beside computing: there all meet. Not without barriers. */
static void who_shares_a_gpu_meets_all(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 3, false);
    gp_device_spec devices[3] = {{.kind = &gpu}, {.kind = &gpu, .index = 1}, {.kind = &host}};
    gp_programs *programs = toy_schedule(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, true, true});
    gp_waits *meets = meets_of(&t, programs, devices);
    assert_non_null(meets);
    gp_waits_destroy(&meets);
    devices[1].index = 0;
    assert_null(meets_of(&t, programs, devices));
    gp_programs_destroy(&programs);
    programs = toy_schedule(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, false, true});
    devices[1].index = 1;
    assert_null(meets_of(&t, programs, devices));
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(who_shares_a_gpu_meets_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
