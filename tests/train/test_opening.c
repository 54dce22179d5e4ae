/* What process 0 sends before the first step: what another process refuses, and what it says. */
#include "train/opening.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

static const char impossible[] = "process 0 sent an opening with impossible values";

/* ---- the head ---------------------------------------------------------------------------------------------------- */

static gp_opening_head good_head(void) {
    gp_opening_head its = {.bytes = 100, .samples = {64, 16}, .phase = 3, .step = 2, .timeout = 60};
    gp_opening_set_version(&its);
    return its;
}

static void expect_impossible(gp_opening_head head) {
    gp_error err = {0};
    assert_int_equal(gp_opening_check(&head, &err), GP_INTERNAL);
    assert_string_equal(err.text, impossible);
}

static void heads_that_process_0_sends(void **state) {
    (void)state;
    gp_error err = {0};
    gp_opening_head head = good_head();
    assert_int_equal(gp_opening_check(&head, &err), GP_OK);
    head = (gp_opening_head){.asks = GP_OPENING_ASKS_ADDRESSES};
    gp_opening_set_version(&head);
    assert_int_equal(gp_opening_check(&head, &err), GP_OK);
    head.asks = 0; /* nothing to run */
    assert_int_equal(gp_opening_check(&head, &err), GP_OK);
    head = good_head();
    memset(head.libraries, 'l', sizeof head.libraries);
    memset(head.folder.text, 'f', sizeof head.folder.text);
    assert_int_equal(gp_opening_check(&head, &err), GP_OK);
    assert_int_equal(strlen(head.libraries), sizeof head.libraries - 1);
    assert_int_equal(strlen(head.folder.text), sizeof head.folder.text - 1);
}

/* What the others plan with is what process 0 has said. */
static void an_opening_is_as_its_head(void **state) {
    (void)state;
    char text[] = "model: …";
    for (int i = 0; i < 2; i++) {
        gp_opening opening;
        gp_opening_head head = good_head();
        head.norms = i == 0;
        head.shares = i == 1;
        gp_opening_fill(&opening, &head, text);
        assert_ptr_equal(opening.text, text);
        assert_int_equal(opening.samples[1], 16);
        assert_int_equal(opening.phase, 3);
        assert_int_equal(opening.norms, i == 0);
        assert_int_equal(opening.shares, i == 1);
    }
}

static void heads_that_no_process_0_sends(void **state) {
    (void)state;
    gp_opening_head head;
#define EXPECT(change) (head = good_head(), change, expect_impossible(head))
    EXPECT(head.asks = GP_OPENING_ASKS_LINKS);
    EXPECT((head.bytes = 0, head.asks = GP_OPENING_QUESTIONS));
    EXPECT(head.bytes = (uint64_t)GP_YAML_MAX_BYTES + 1);
    EXPECT(head.phase = -1);
    EXPECT(head.step = -1);
    EXPECT(head.step = (int64_t)UINT32_MAX + 1);
    EXPECT(head.samples[0] = -1);
    EXPECT(head.samples[1] = (INT64_C(1) << 48) + 1);
    EXPECT(head.timeout = 0.5);
    EXPECT(head.timeout = 2 * GP_MAX_TIMEOUT);
    EXPECT(head.timeout = (double)NAN);
#undef EXPECT
}

/* Also when there is nothing to run, and when nothing else of the head makes sense. */
static void another_version(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        gp_error err = {0};
        gp_opening_head head = good_head();
        if (i > 0) head.bytes = 0;
        if (i > 1) head.asks = 7;
        snprintf(head.version, sizeof head.version, "99.1");
        assert_int_equal(gp_opening_check(&head, &err), GP_UNSUPPORTED);
        assert_string_equal(err.text, "it runs version " GP_VERSION " of the program, but process 0 runs version 99.1: "
                                      "install the same on all hosts");
    }
}

/* ---- the balance, and the plan that comes of it ------------------------------------------------------------------ */

static void balances(void **state) {
    static const struct {
        int count;
        int64_t last;
        gp_status status;
    } cases[] = {{2, 1, GP_OK},
                 {2, INT32_MAX, GP_OK},
                 {0, 1, GP_INTERNAL},
                 {-1, 1, GP_INTERNAL},
                 {2, 0, GP_INTERNAL},
                 {2, (int64_t)INT32_MAX + 1, GP_INTERNAL},
                 {GP_MAX_STAGES, 1, GP_OK},
                 {GP_MAX_STAGES + 1, 1, GP_INTERNAL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static gp_phase phase;
        gp_error err = {0};
        phase.count = cases[i].count;
        for (int s = 0; s < GP_MAX_STAGES; s++) phase.layers[s] = 1;
        if (cases[i].count >= 1 && cases[i].count <= GP_MAX_STAGES) phase.layers[cases[i].count - 1] = cases[i].last;
        assert_int_equal(gp_phase_check_layers(&phase, &err), cases[i].status);
        if (cases[i].status != GP_OK) assert_string_equal(err.text, "process 0 sent a balance with impossible numbers");
    }
}

/* A plan, and what a process 0 with the same plan and the same libraries says of it. */
typedef struct made {
    harness h;
    gp_phase phase;
    gp_opening opening;
} made;

static void make(made *its, const int *replicas) {
    const harness_options options = {.model = network_vectors,
                                     .layers = (const int64_t[]){5, 4},
                                     .stages = 2,
                                     .replicas = replicas,
                                     .kind = &gp_ref_kind,
                                     .micro_batches = 2,
                                     .batch = 8,
                                     .processes = 2,
                                     .process = (const int[]){0, 1, 1}};
    harness_plan(&its->h, &options);
    its->phase.identity = gp_identity_plan(its->h.plan);
    gp_identity_parts(its->h.plan, its->phase.parts);
    gp_device_libraries(its->h.plan->devices, its->h.plan->workers, its->opening.libraries);
}

static void expect_plan(const made *its, gp_status status, const char *format) {
    gp_error err = {0};
    char sentence[GP_ERROR_TEXT], own[GP_LIBRARIES_TEXT];
    assert_int_equal(gp_phase_check(&its->phase, &its->opening, its->h.plan, &err), status);
    if (!format) return;
    gp_device_libraries(its->h.plan->devices, its->h.plan->workers, own);
    const char *at = strstr(format, "%s");
    snprintf(sentence, sizeof sentence, "%.*s%s%s", (int)(at ? at - format : (int)strlen(format)), format,
             at ? own : "", at ? at + 2 : "");
    assert_string_equal(err.text, sentence);
}

#define OTHER_PLAN "it made another plan than process 0 from the same configuration"
#define ALIKE      "; do all hosts have the same program and processors?"

static void other_plans(void **state) {
    static made its;
    (void)state;
    make(&its, (const int[]){1, 2});
    expect_plan(&its, GP_OK, NULL);
    its.phase.identity++;
    expect_plan(&its, GP_INTERNAL, OTHER_PLAN ALIKE);
    its.phase.parts[GP_IDENTITY_DEVICES]++;
    expect_plan(&its, GP_INTERNAL, OTHER_PLAN "; they differ in devices and their threads" ALIKE);
    its.phase.parts[GP_IDENTITY_STAGES]++;
    its.phase.parts[GP_IDENTITY_PROCESSES]++;
    its.phase.parts[GP_IDENTITY_PROGRAMS]++;
    expect_plan(&its, GP_INTERNAL,
                OTHER_PLAN
                "; they differ in the layers of stages, devices and their threads, the processes of workers, "
                "programs" ALIKE);
    harness_end(&its.h);
}

/* They may differ if no stage has replicas; then a plan that differs names them. */
static void other_libraries(void **state) {
    static made its;
    (void)state;
    make(&its, (const int[]){1, 2});
    snprintf(its.opening.libraries, sizeof its.opening.libraries, "oneDNN 9 with AVX9");
    expect_plan(&its, GP_UNSUPPORTED,
                "it computes with %s, but process 0 with oneDNN 9 with AVX9: replicas of a stage must compute alike");
    harness_end(&its.h);
    make(&its, (const int[]){1, 1});
    snprintf(its.opening.libraries, sizeof its.opening.libraries, "oneDNN 9 with AVX9");
    expect_plan(&its, GP_OK, NULL);
    its.phase.identity++;
    expect_plan(&its, GP_INTERNAL, OTHER_PLAN "; it computes with %s, but process 0 with oneDNN 9 with AVX9" ALIKE);
    harness_end(&its.h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_that_process_0_sends),
        cmocka_unit_test(an_opening_is_as_its_head),
        cmocka_unit_test(heads_that_no_process_0_sends),
        cmocka_unit_test(another_version),
        cmocka_unit_test(balances),
        cmocka_unit_test(other_plans),
        cmocka_unit_test(other_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
