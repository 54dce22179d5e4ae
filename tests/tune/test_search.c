/* The search for a plan, where planning some candidates takes more memory than is left. */
#include "tune/search.h"

#include <string.h>

#include "session/fixture.h"
#include "tune/search_stages.h"

static const char config[] = FIXTURE_MODEL "data: {train: {tensors: d.safetensors}, batch: 64}\n"
                                           "pipeline: {devices: [cpu, cpu], micro_batches: 4}\n"
                                           "optimizer: {sgd: {lr: 0.1}}\n"
                                           "train: {steps: 1}\n";
#define LAYER "{\"forward\": 5, \"backward\": 10}"
static const char times[] =
    "{\"gpipe_profile\": 2, \"micro_batch\": 4, \"devices\": [{\"device\": \"cpu\", \"layers\": [" LAYER ", " LAYER
    ", " LAYER ", " LAYER ", " LAYER ", " LAYER ", " LAYER ", " LAYER "]}]}\n";

static gp_status search(size_t left, gp_search *out, gp_error *err) {
    const gp_machine_memory machine = {.limit = {SIZE_MAX, SIZE_MAX, left}};
    static const char *const overrides[] = {"data.shuffle=false"};
    const gp_search_request request = {.config = fixture_path("searched.yaml"),
                                       .overrides = overrides,
                                       .override_count = 1,
                                       .frees_micro_batches = true,
                                       .profile = fixture_path("times.json"),
                                       .processors = 64,
                                       .machine = &machine};
    fixture_write_text("searched.yaml", config);
    fixture_write_text("times.json", times);
    return gp_search_run(&request, out, err);
}

/* Many micro-batches have many instructions: those candidates are refused, and the others are found. */
static void a_plan_too_large_to_make_is_refused_alone(void **state) {
    (void)state;
    gp_search all, some;
    gp_error err = {0};
    int most = 0;
    if (search(SIZE_MAX, &all, &err) != GP_OK) fail_msg("%s", err.text);
    if (search(30 << 10, &some, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(some.tried, all.tried);
    assert_true(some.refused > all.refused && some.count > 0);
    assert_int_equal((int)some.count + some.refused, (int)all.count + all.refused);
    assert_non_null(strstr(some.why, " more memory for "));
    assert_non_null(
        strstr(some.why, " but the address space (RLIMIT_AS, ulimit -v), 30.0 KiB in all, has 30.0 KiB left"));
    for (size_t i = 0; i < some.count; i++)
        if (some.items[i].micro_batches > most) most = some.items[i].micro_batches;
    assert_in_range(most, 4, 63);
    gp_search_fini(&some);
    gp_search_fini(&all);
}

static void none_is_found_where_none_can_be_made(void **state) {
    (void)state;
    gp_search none;
    gp_error err = {0};
    assert_int_equal(search(0, &none, &err), GP_CONFIG);
    assert_int_equal(none.refused, none.tried);
    assert_non_null(
        strstr(err.text, "plans fits; the first one, 4 micro-batches, schedule gpipe, checkpoint never: planning "));
    gp_search_fini(&none);
}

/* ---- checkpoint modes of stages ---------------------------------------------------------------------------------- */

/* The first step recomputes nothing if all stages have just the memory for that. An evaluation takes more than a pass
 * that trains, but uses the bytes of saved values. */
static void memory_for_no_recompute_is_enough(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(FIXTURE_CHANGES("pipeline.checkpoint=never"));
    size_t beyond = 0;
    char devices[128];
    for (int w = 0; w < 2; w++) {
        const gp_stage_plan *stage = &session->plan->stage[w];
        size_t training = stage->transient + stage->workspace;
        if (stage->evaluation > training) beyond += stage->evaluation - training;
    }
    assert_true(beyond > 0);
    snprintf(devices, sizeof devices, "pipeline.devices=[{cpu: {memory: %zu}}, {cpu: {memory: %zu}}]",
             session->plan->arena[0], session->plan->arena[1]);
    gp_session_close(&session);
    session = fixture_session(FIXTURE_CHANGES("pipeline.checkpoint=always", devices));
    gp_stage_policy policy;
    if (gp_search_stages(session, &policy, &err) != GP_OK) fail_msg("%s", err.text);
    assert_non_null(policy.plan);
    for (int s = 0; s < 2; s++) assert_int_equal(policy.modes[s], GP_CHECKPOINT_NEVER);
    gp_stage_policy_fini(&policy);
    gp_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_too_large_to_make_is_refused_alone),
        cmocka_unit_test(none_is_found_where_none_can_be_made),
        cmocka_unit_test(memory_for_no_recompute_is_enough),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
