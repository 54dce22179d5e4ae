/* --trace: the timeline of a run holds what its programs say, in their order, and the run does not notice. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/memory.h"
#include "session/fixture.h"
#include "store/folder.h"

enum { MAX_ARROWS = 4096 };

static int runs;

/* A run of FIXTURE_CONFIG, 8 steps with evaluations after 4 and 8; its folder. */
static const char *run(const char *const *changes, gp_trace_options trace, gp_status wanted, gp_error *err) {
    char name[32];
    snprintf(name, sizeof name, "traced%d", runs++);
    const char *folder = fixture_path(name);
    assert_int_equal(gp_folder_make(folder, err), GP_OK);
    gp_session *session = fixture_session(changes);
    const gp_train_options options = {.folder = folder, .verbosity = GP_QUIET, .trace = trace};
    gp_status status = gp_train(session, &options, err);
    if (status != wanted) fail_msg("%s", err->text);
    gp_session_close(&session);
    return folder;
}

static json_t *events_of(const char *path) {
    json_error_t broken;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &broken);
    if (!root) fail_msg("%s: %s at %d", path, broken.text, broken.line);
    json_t *events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    return events;
}

static json_t *argument(json_t *event, const char *key) {
    return json_object_get(json_object_get(event, "args"), key);
}

static const char *text_of(json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static double time_of(json_t *event, const char *key) {
    return json_number_value(json_object_get(event, key));
}

static bool is_instruction(json_t *event, int track) {
    return strcmp(text_of(event, "ph"), "X") == 0 && strcmp(text_of(event, "name"), "wait") != 0 &&
           strcmp(text_of(event, "cat"), "layer") != 0 && json_integer_value(json_object_get(event, "tid")) == track;
}

/* The spans of one worker: each traced mini-batch's program from first to last, one after another in time. */
static void check_track(json_t *events, const gp_plan *plan, int worker, const char *steps) {
    char seen[256] = "";
    size_t i, wanted = 0, count = 0;
    double before = 0;
    json_t *event;
    const gp_program *program = NULL;
    json_array_foreach(events, i, event) {
        if (!is_instruction(event, worker + 1)) continue;
        char text[GP_INSTR_TEXT];
        if (wanted == count) {
            bool training = strcmp(json_string_value(argument(event, "pass")), "training") == 0;
            int step = (int)json_integer_value(argument(event, "step"));
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), " %c%d", training ? 's' : 'e', step);
            int mini = gp_plan_find(plan, training, training ? (step % 4 ? 16 : 2) : 14);
            assert_true(mini >= 0);
            program = &plan->minis[mini].programs->worker[worker];
            wanted = 0;
            count = program->count;
        }
        assert_int_equal(json_integer_value(argument(event, "pc")), wanted);
        assert_string_equal(text_of(event, "name"), gp_instr_text(text, &program->instrs[wanted]));
        wanted++;
        assert_true(time_of(event, "dur") >= 0);
        assert_true(time_of(event, "ts") >= before - 1e-3);
        before = time_of(event, "ts") + time_of(event, "dur");
    }
    assert_int_equal(wanted, count);
    assert_string_equal(seen, steps);
}

/* Each arrow has one beginning and one end, in this order. */
static int check_arrows(json_t *events) {
    static double from[MAX_ARROWS], to[MAX_ARROWS];
    static int64_t ids[MAX_ARROWS];
    int count = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        bool begins = strcmp(text_of(event, "ph"), "s") == 0, ends = strcmp(text_of(event, "ph"), "f") == 0;
        if (!begins && !ends) continue;
        int64_t id = json_integer_value(json_object_get(event, "id"));
        int at = 0;
        while (at < count && ids[at] != id) at++;
        if (at == count) {
            assert_true(++count < MAX_ARROWS);
            ids[at] = id;
            from[at] = to[at] = -1;
        }
        double *end = begins ? &from[at] : &to[at];
        assert_true(*end < 0);
        *end = time_of(event, "ts");
    }
    for (int a = 0; a < count; a++) assert_true(from[a] >= 0 && to[a] >= from[a]);
    return count;
}

static void check_memory(json_t *events, const gp_plan *plan, int worker) {
    char name[64];
    gp_error err = {0};
    gp_memory_peak peak;
    size_t i, most = 0;
    json_t *event;
    snprintf(name, sizeof name, "memory of worker %d", worker);
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "name"), name) != 0) continue;
        size_t bytes = (size_t)json_integer_value(argument(event, "bytes alive"));
        if (bytes > most) most = bytes;
    }
    assert_int_equal(gp_memory_find_peak(plan, worker, &peak, &err), GP_OK);
    assert_int_equal(most, peak.bytes);
}

static void the_timeline_is_what_the_programs_say(void **state) {
    (void)state;
    gp_error err = {0};
    const char *path = fixture_path("t.json");
    run(NULL, (gp_trace_options){.path = path, .first = 3, .last = 5}, GP_OK, &err);
    json_t *events = events_of(path);
    gp_session *session = fixture_session(NULL);
    int sends = 0, posts = 0; /* each stage but the root collects what is posted: with two stages, one of them */
    for (int w = 0; w < session->plan->workers; w++) {
        check_track(events, session->plan, w, " s3 s4 e4 s5");
        check_memory(events, session->plan, w);
    }
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        bool send = strcmp(text_of(event, "ph"), "X") == 0 && strncmp(text_of(event, "name"), "send", 4) == 0;
        if (send) assert_true(json_integer_value(argument(event, "bytes")) > 0);
        sends += send;
        posts += strcmp(text_of(event, "ph"), "X") == 0 && strncmp(text_of(event, "name"), "post", 4) == 0;
    }
    assert_true(sends > 0 && posts > 0);
    assert_int_equal(session->plan->stages->count, 2);
    assert_int_equal(check_arrows(events), sends + posts);
    gp_session_close(&session);
    json_decref(events);
}

static void expect_traced(int64_t first, int64_t last, const char *steps) {
    gp_error err = {0};
    const char *path = fixture_path("w.json");
    run(NULL, (gp_trace_options){.path = path, .first = first, .last = last}, GP_OK, &err);
    json_t *events = events_of(path);
    gp_session *session = fixture_session(NULL);
    for (int w = 0; w < session->plan->workers; w++) check_track(events, session->plan, w, steps);
    gp_session_close(&session);
    json_decref(events);
}

/* An evaluation belongs to the step that it follows. */
static void steps_and_their_evaluations_are_traced_from_first_to_last(void **state) {
    (void)state;
    expect_traced(5, 8, " s5 s6 s7 s8 e8");
    expect_traced(4, 4, " s4 e4");
    expect_traced(1, 3, " s1 s2 s3");
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

enum { ROUNDING = 1 }; /* nanoseconds of a time in microseconds, as a double */

/* Of all instructions of a step, or of the evaluation after it: the first time and the last. */
static void find_range(json_t *events, int workers, json_t *step, double *first, double *last) {
    size_t i;
    json_t *event;
    *first = INFINITY;
    *last = 0;
    json_array_foreach(events, i, event) {
        json_int_t track = json_integer_value(json_object_get(event, "tid"));
        if (track < 1 || track > workers || !is_instruction(event, (int)track)) continue;
        if (!json_equal(argument(event, "step"), argument(step, "step")) ||
            !json_equal(argument(event, "pass"), argument(step, "pass")))
            continue;
        *first = fmin(*first, time_of(event, "ts"));
        *last = fmax(*last, time_of(event, "ts") + time_of(event, "dur"));
    }
}

/* What metrics.jsonl says of it. */
static json_t *find_line(json_t *lines, json_t *step) {
    const char *kind = strcmp(json_string_value(argument(step, "pass")), "training") == 0 ? "step" : "eval";
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        bool same = json_equal(json_object_get(line, "step"), argument(step, "step"));
        if (same && strcmp(text_of(line, "event"), kind) == 0) return line;
    }
    fail_msg("no line");
    return NULL;
}

static void check_step(json_t *events, json_t *lines, json_t *step, const char *name, json_int_t samples) {
    double first, last;
    json_t *line = find_line(lines, step);
    assert_string_equal(text_of(step, "name"), name);
    assert_string_equal(text_of(step, "cat"), "step");
    assert_int_equal(json_integer_value(argument(step, "samples")), samples);
    assert_true(json_equal(argument(step, "epoch"), json_object_get(line, "epoch")));
    double loss = json_number_value(json_object_get(line, "loss"));
    assert_true(fabs(json_number_value(argument(step, "loss")) - loss) <= 1e-8 * loss);
    find_range(events, 2, step, &first, &last);
    assert_true(fabs(time_of(step, "ts") - first) < 1e-3 * ROUNDING);
    assert_true(fabs(time_of(step, "ts") + time_of(step, "dur") - last) < 1e-3 * ROUNDING);
}

/* The last mini-batch of an epoch has 2 of its 50 samples; the evaluation has one mini-batch, of 14. */
static void steps_have_a_track(void **state) {
    (void)state;
    static const struct {
        const char *name;
        json_int_t samples;
    } expected[] = {{"step 3", 16}, {"step 4", 2}, {"evaluation after step 4", 14}, {"step 5", 16}};
    gp_error err = {0};
    const char *path = fixture_path("s.json");
    const char *folder = run(NULL, (gp_trace_options){.path = path, .first = 3, .last = 5}, GP_OK, &err);
    json_t *events = events_of(path), *lines = fixture_metrics(folder), *event;
    json_int_t track = 0;
    size_t i, count = 0;
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "name"), "thread_name") == 0 &&
            strcmp(json_string_value(argument(event, "name")), "pipeline: steps") == 0)
            track = json_integer_value(json_object_get(event, "tid"));
        if (strcmp(text_of(event, "cat"), "step") != 0) continue;
        assert_true(count < sizeof expected / sizeof *expected);
        assert_int_equal(json_integer_value(json_object_get(event, "tid")), track);
        check_step(events, lines, event, expected[count].name, expected[count].samples);
        count++;
    }
    assert_true(track > 2);
    assert_int_equal(count, sizeof expected / sizeof *expected);
    json_decref(events);
    json_decref(lines);
}

/* A step whose loss is not finite ends the run, and has a span without a number. */
static void a_step_that_is_not_finite_has_no_loss(void **state) {
    (void)state;
    gp_error err = {0};
    const char *path = fixture_path("n.json");
    run(FIXTURE_CHANGES("optimizer.sgd.lr=1e30"), (gp_trace_options){.path = path, .first = 1, .last = 100}, GP_NUMERIC,
        &err);
    json_t *events = events_of(path), *event, *last = NULL;
    size_t i;
    json_array_foreach(events, i, event) if (strcmp(text_of(event, "cat"), "step") == 0) last = event;
    assert_non_null(last);
    assert_true(json_is_null(argument(last, "loss")));
    assert_true(json_is_integer(argument(last, "epoch")));
    json_decref(events);
}

/* From when the trainer asked for the mini-batch of step 3 to when it had it; of the evaluation after step 4. */
static void a_wait_for_data_belongs_to_the_step_that_it_delays(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(NULL);
    gp_tracing *tracing;
    const char *path = fixture_path("d.json");
    const gp_trace_options options = {.path = path, .first = 3, .last = 4};
    assert_int_equal(gp_tracing_open(&options, session, &tracing, &err), GP_OK);
    for (int take = 0; take < 3; take++) {
        bool training = take < 2;
        int64_t step = take == 0 ? 2 : take == 1 ? 3 : 4;
        uint64_t began = 1000000 * (1 + (uint64_t)take);
        assert_int_equal(gp_tracing_before_take(tracing, training, step, &err), GP_OK);
        gp_tracing_after_take(tracing, training, step, began, began + 250000);
    }
    assert_int_equal(gp_tracing_close(&tracing, &err), GP_OK);
    json_t *events = events_of(path), *event;
    size_t i, count = 0;
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "name"), "wait for data") != 0) continue;
        assert_int_equal(json_integer_value(argument(event, "step")), 3 + (json_int_t)count);
        assert_string_equal(json_string_value(argument(event, "pass")), count == 0 ? "training" : "evaluation");
        assert_true(time_of(event, "ts") == 1000 * (double)count);
        assert_true(time_of(event, "dur") == 250);
        count++;
    }
    assert_int_equal(count, 2);
    json_decref(events);
    gp_session_close(&session);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* Times that a worker recorded for the layers in the file: one behind each, and one before each routine. */
static size_t count_ticks(json_t *events, const gp_plan *plan, int worker) {
    size_t i, ticks = 0;
    json_t *event;
    json_array_foreach(events, i, event) {
        bool layer = strcmp(text_of(event, "cat"), "layer") == 0;
        if (json_integer_value(json_object_get(event, "tid")) == worker + 1 && layer) ticks++;
        if (!is_instruction(event, worker + 1)) continue;
        const gp_routine *routines[GP_INSTR_ROUTINES];
        bool training = strcmp(json_string_value(argument(event, "pass")), "training") == 0;
        const gp_mini_plan *mini = &plan->minis[gp_plan_find(plan, training, training ? 16 : 14)];
        json_int_t pc = json_integer_value(argument(event, "pc"));
        ticks += (size_t)gp_instr_routines(plan, mini, &mini->programs->worker[worker].instrs[pc], routines);
    }
    return ticks;
}

/* The instruction's span in the same mini-batch, and around it. */
static bool has_instruction_around(json_t *events, json_t *layer) {
    double from = time_of(layer, "ts"), to = from + time_of(layer, "dur");
    int track = (int)json_integer_value(json_object_get(layer, "tid"));
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        if (!is_instruction(event, track) || !json_equal(argument(event, "pc"), argument(layer, "pc")) ||
            !json_equal(argument(event, "step"), argument(layer, "step")))
            continue;
        double start = time_of(event, "ts");
        if (start <= from + 0.0005 && to <= start + time_of(event, "dur") + 0.0005) return true;
    }
    return false;
}

typedef struct fault {
    int worker, step;
    size_t pc;
} fault;

static gp_status fail_there(void *context, const gp_site *site, gp_error *err) {
    const fault *there = context;
    if (site->worker != there->worker || (int)site->step != there->step || site->pc != there->pc) return GP_OK;
    return gp_fail(err, GP_INTERNAL, "a fault");
}

/* Before the instruction runs, or after: then its layers are recorded, but it is not. The other workers stop at some
 * instruction of the same step. */
static void expect_whole_timeline(fault there, bool after) {
    const char *folder = fixture_new_folder(), *path = fixture_path("fault.json");
    const gp_hooks hooks = {.context = &there, .before = after ? NULL : fail_there, .after = after ? fail_there : NULL};
    gp_error err = {0};
    gp_session *session = fixture_session(FIXTURE_CHANGES("train={steps: 3}"));
    assert_int_equal(gp_folder_make(folder, &err), GP_OK);
    const gp_train_options options = {.folder = folder,
                                      .verbosity = GP_QUIET,
                                      .hooks = &hooks,
                                      .trace = {.path = path, .first = 1, .last = 3, .layers = true}};
    assert_int_equal(gp_train(session, &options, &err), GP_INTERNAL);
    gp_session_close(&session);
    json_t *events = events_of(path), *event;
    size_t i, layers = 0;
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "cat"), "layer") != 0) continue;
        if (!has_instruction_around(events, event)) fail_msg("worker %d, pc %zu", there.worker, there.pc);
        layers++;
    }
    assert_true(layers > 10);
    json_decref(events);
}

static void a_run_that_fails_in_a_step_leaves_a_whole_timeline(void **state) {
    (void)state;
    gp_session *session = fixture_session(NULL);
    const gp_plan *plan = session->plan;
    const gp_programs *programs = plan->minis[gp_plan_find(plan, true, 16)].programs;
    for (int w = 0; w < plan->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc += 5) expect_whole_timeline((fault){w, 2, pc}, pc % 2);
    gp_session_close(&session);
}

static size_t planned_records(const char *const *changes, const gp_trace_options *trace) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(FIXTURE_CONFIG, changes);
    if (gp_session_open(&config, &(gp_session_options){.trace = trace}, &session, &err) != GP_OK)
        fail_msg("%s", err.text);
    size_t bytes = session->host.bytes[GP_HOST_RECORDS];
    gp_session_close(&session);
    return bytes;
}

/* Three steps of 16 samples and an evaluation of 14. What the plan reserves for the layers is what they take. */
static void layers_take_what_is_planned(void **state) {
    (void)state;
    gp_error err = {0};
    const char *const *changes = FIXTURE_CHANGES("train={steps: 3}");
    const char *path = fixture_path("l.json");
    const gp_trace_options without = {.path = path, .first = 1, .last = 3};
    const gp_trace_options with = {.path = path, .first = 1, .last = 3, .layers = true};
    run(changes, with, GP_OK, &err);
    json_t *events = events_of(path);
    gp_session *session = fixture_session(changes);
    size_t bytes = 0;
    for (int w = 0; w < session->plan->workers; w++) {
        size_t ticks = count_ticks(events, session->plan, w);
        assert_true(ticks > 100);
        bytes += gp_ticks_bytes(ticks);
        check_track(events, session->plan, w, " s1 s2 s3 e3");
    }
    assert_int_equal(planned_records(changes, &with) - planned_records(changes, &without), bytes);
    gp_session_close(&session);
    json_decref(events);
}

static void recording_does_not_change_the_result(void **state) {
    (void)state;
    gp_error err = {0};
    size_t with_bytes, without_bytes;
    char with_path[600], without_path[600];
    const gp_trace_options traced = {.path = fixture_path("u.json"), .first = 1, .last = 100, .layers = true};
    snprintf(with_path, sizeof with_path, "%s/model.safetensors", run(NULL, traced, GP_OK, &err));
    snprintf(without_path, sizeof without_path, "%s/model.safetensors", run(NULL, (gp_trace_options){0}, GP_OK, &err));
    char *with = fixture_read(with_path, &with_bytes), *without = fixture_read(without_path, &without_bytes);
    assert_int_equal(with_bytes, without_bytes);
    assert_memory_equal(with, without, with_bytes);
    free(with);
    free(without);
}

static void a_run_that_only_evaluates_is_traced_too(void **state) {
    (void)state;
    gp_error err = {0};
    const char *path = fixture_path("v.json");
    run(FIXTURE_CHANGES("train.steps=0"), (gp_trace_options){.path = path, .first = 1, .last = 100}, GP_OK, &err);
    json_t *events = events_of(path);
    gp_session *session = fixture_session(FIXTURE_CHANGES("train.steps=0"));
    check_track(events, session->plan, 0, " e0");
    gp_session_close(&session);
    json_decref(events);
}

/* The run has a step that is asked for, or it is refused. A run of 10 steps; one that goes on after its step 6; one
 * that only evaluates. */
static void an_empty_timeline_is_refused(void **state) {
    (void)state;
    static const struct {
        int64_t first, last, from, steps;
        const char *refused; /* NULL: not */
    } cases[] = {
        {1, 100, 0, 10, NULL},
        {10, 10, 0, 10, NULL},
        {11, 11, 0, 10, "--trace-steps 11:11: the run has steps 1 to 10"},
        {100, 200, 0, 10, "--trace-steps 100:200: the run has steps 1 to 10"},
        {1, 7, 6, 10, NULL},
        {1, 6, 6, 10, "--trace-steps 1:6: the run has steps 7 to 10"},
        {1, 100, 0, 0, NULL},
        {2, 100, 0, 0, "--trace-steps 2:100: the run trains no step"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        const gp_trace_options options = {.path = "t.json", .first = cases[i].first, .last = cases[i].last}, none = {0};
        gp_status status = gp_trace_options_check(&options, cases[i].from, cases[i].steps, &err);
        assert_int_equal(status, cases[i].refused ? GP_USAGE : GP_OK);
        if (cases[i].refused) assert_ptr_equal(strstr(err.text, cases[i].refused), err.text);
        assert_int_equal(gp_trace_options_check(&none, cases[i].from, cases[i].steps, &err), GP_OK);
    }
}

/* Nothing is trained for a file that cannot be made; a disk that fills up costs the timeline alone. */
static void a_file_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    gp_error err = {0};
    char model[600];
    const char *folder =
        run(NULL, (gp_trace_options){.path = fixture_path("none/t.json"), .first = 1, .last = 2}, GP_IO, &err);
    snprintf(model, sizeof model, "%s/model.safetensors", folder);
    assert_int_not_equal(access(model, F_OK), 0);
    assert_non_null(strstr(err.text, "none/t.json: cannot be written: No such file"));
    if (access("/dev/full", W_OK) != 0) skip();
    folder = run(NULL, (gp_trace_options){.path = "/dev/full", .first = 1, .last = 2}, GP_IO, &err);
    snprintf(model, sizeof model, "%s/model.safetensors", folder);
    assert_int_equal(access(model, F_OK), 0);
    json_t *lines = fixture_metrics(folder);
    assert_int_equal(json_array_size(lines), 12);
    json_decref(lines);
    assert_non_null(strstr(err.text, "/dev/full: cannot be written"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeline_is_what_the_programs_say),
        cmocka_unit_test(steps_and_their_evaluations_are_traced_from_first_to_last),
        cmocka_unit_test(steps_have_a_track),
        cmocka_unit_test(a_step_that_is_not_finite_has_no_loss),
        cmocka_unit_test(a_wait_for_data_belongs_to_the_step_that_it_delays),
        cmocka_unit_test(layers_take_what_is_planned),
        cmocka_unit_test(a_run_that_fails_in_a_step_leaves_a_whole_timeline),
        cmocka_unit_test(recording_does_not_change_the_result),
        cmocka_unit_test(a_run_that_only_evaluates_is_traced_too),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
        cmocka_unit_test(an_empty_timeline_is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
