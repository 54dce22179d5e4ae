/* The identity of a plan, and of its parts: what differs shows in the part that has it, and in no other. */
#include "plan/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

typedef struct identity {
    uint64_t whole, parts[GP_IDENTITY_PARTS];
} identity;

static identity of(const harness_options *options) {
    harness h;
    identity its;
    harness_plan(&h, options);
    its.whole = gp_identity_plan(h.plan);
    gp_identity_parts(h.plan, its.parts);
    harness_end(&h);
    return its;
}

static const harness_options usual = {.model = network_vectors,
                                      .layers = (const int64_t[]){5, 4},
                                      .stages = 2,
                                      .replicas = (const int[]){1, 2},
                                      .kind = &gp_ref_kind,
                                      .micro_batches = 2,
                                      .batch = 8,
                                      .processes = 2,
                                      .process = (const int[]){0, 0, 1}};

static void expect_differences(const harness_options *options, unsigned parts) {
    const identity a = of(&usual), b = of(options);
    assert_int_equal(a.whole != b.whole, parts != 0);
    for (int p = 0; p < GP_IDENTITY_PARTS; p++) assert_int_equal(a.parts[p] != b.parts[p], parts >> p & 1);
}

static void parts_tell_what_differs(void **state) {
    (void)state;
    harness_options other = usual;
    expect_differences(&other, 0);
    other.threads = 2;
    expect_differences(&other, 1U << GP_IDENTITY_DEVICES);
    other = usual;
    other.process = (const int[]){0, 1, 1};
    expect_differences(&other, 1U << GP_IDENTITY_PROCESSES);
    other = usual;
    other.schedule.kind = GP_SCHEDULE_1F1B;
    expect_differences(&other, 1U << GP_IDENTITY_PROGRAMS);
    other = usual;
    other.rank = 1; /* every process has the same plan */
    expect_differences(&other, 0);
}

static void another_cut_is_in_stages_at_least(void **state) {
    (void)state;
    harness_options other = usual;
    other.layers = (const int64_t[]){4, 5};
    const identity a = of(&usual), b = of(&other);
    assert_true(a.whole != b.whole && a.parts[GP_IDENTITY_STAGES] != b.parts[GP_IDENTITY_STAGES]);
    assert_true(a.parts[GP_IDENTITY_DEVICES] == b.parts[GP_IDENTITY_DEVICES]);
}

static void each_part_has_a_name(void **state) {
    (void)state;
    for (int p = 0; p < GP_IDENTITY_PARTS; p++) assert_true(strlen(gp_identity_part_name((gp_identity_part)p)) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_tell_what_differs),
        cmocka_unit_test(another_cut_is_in_stages_at_least),
        cmocka_unit_test(each_part_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
