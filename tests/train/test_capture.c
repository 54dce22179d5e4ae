/* --capture-steps, and the marks for profilers: whole runs on host memory in a GPU's place, with a table that notes the
 * marks of each thread and when the capture begins and ends. */
#include "train/capture.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/host_api.h"
#include "schedule/program.h"
#include "session/fixture.h"
#include "train/trainer.h"

/* The program records steps 2 to 9 for its report, so that they run alone in any case. */
enum { STEPS = 14, MOST = 4096, BEGINS = 1, ENDS = -1, CAPTURES = 2, RELEASES = -2 };

/* Mini-batches of 4 samples on two stages; evaluations after steps 7 and 14. */
#define CHANGES(...)                                                                                                   \
    FIXTURE_CHANGES("data.batch=4", "data.train.take=[0, 16]", "pipeline.micro_batches=2",                             \
                    "pipeline.devices=[cuda:0, cuda:0]", "train={steps: 14, eval_every: 7}", __VA_ARGS__)

typedef struct note {
    pthread_t thread;
    int what;
    char name[64];
} note;

static struct {
    pthread_mutex_t lock;
    bool listens, fails;
    note notes[MOST];
    int count;
    const char *folder;
    bool alone[STEPS + 1]; /* [step] it began when the one before had been reported */
    int64_t stop_at;
    volatile sig_atomic_t stop;
} it = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_note(int what, const char *name) {
    pthread_mutex_lock(&it.lock);
    if (it.count < MOST) {
        note *added = &it.notes[it.count++];
        *added = (note){.thread = pthread_self(), .what = what};
        snprintf(added->name, sizeof added->name, "%s", name);
    }
    pthread_mutex_unlock(&it.lock);
}

static bool mark_begin(const char *name) {
    add_note(BEGINS, name);
    return it.listens;
}

static void mark_end(void) {
    add_note(ENDS, "");
}

static gp_status capture(bool begins, gp_error *err) {
    if (it.fails) return gp_fail(err, GP_DEVICE, "cudaProfilerStart: made to fail");
    add_note(begins ? CAPTURES : RELEASES, "");
    return GP_OK;
}

static int make(void **state) {
    static gp_cuda_api table;
    int made = fixture_make(state);
    table = gp_host_api;
    table.mark_begin = mark_begin;
    table.mark_end = mark_end;
    table.capture = capture;
    gp_cuda = &table;
    gp_host_api_set_care(GP_HOST_ONCE);
    return made;
}

static gp_status look(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    (void)err;
    if (site->worker != 0 || site->pc != 0 || site->step > STEPS) return GP_OK;
    usleep(500); /* so that the loader is ahead, and steps may overlap */
    json_t *lines = fixture_metrics(it.folder);
    uint64_t reported = 0;
    for (size_t i = 0; i < json_array_size(lines); i++)
        reported += !strcmp(json_string_value(json_object_get(json_array_get(lines, i), "event")), "step");
    json_decref(lines);
    it.alone[site->step] = reported >= site->step - 1;
    if ((int64_t)site->step == it.stop_at) it.stop = 1;
    return GP_OK;
}

static gp_status train(const char *const *changes, gp_capture_options asked, gp_error *err) {
    gp_session *session = fixture_session(changes);
    const gp_hooks hooks = {.before = look};
    it.folder = fixture_new_folder();
    it.count = 0;
    it.stop = 0;
    memset(it.alone, 0, sizeof it.alone);
    const gp_train_options options = {
        .folder = it.folder, .verbosity = GP_QUIET, .stop = &it.stop, .hooks = &hooks, .capture = asked};
    *err = (gp_error){0};
    gp_status status = gp_train(session, &options, err);
    gp_session_close(&session);
    return status;
}

static int find(int what, const char *name, int from) {
    for (int i = from; i < it.count; i++)
        if (it.notes[i].what == what && !strcmp(it.notes[i].name, name)) return i;
    return -1;
}

static int count(int what) {
    int found = 0;
    for (int i = 0; i < it.count; i++) found += it.notes[i].what == what;
    return found;
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* The marks of a mini-batch as one text: "step 3: load s0 m0; F s0 m0; …" */
static void expect_program(char *text, size_t size, const char *name, const gp_program *program) {
    int used = snprintf(text, size, "%s:", name);
    for (size_t pc = 0; pc < program->count; pc++) {
        char instr[GP_INSTR_TEXT];
        used += snprintf(text + used, size - (size_t)used, " %s;", gp_instr_text(instr, &program->instrs[pc]));
    }
}

/* The same from the notes of `thread`, from note *at on. The instructions' marks are inside that of the step. */
static bool read_marks(char *text, size_t size, pthread_t thread, int *at) {
    int depth = 0, used = 0;
    for (; *at < it.count; (*at)++) {
        const note *here = &it.notes[*at];
        if (!pthread_equal(here->thread, thread) || (here->what != BEGINS && here->what != ENDS)) continue;
        if (here->what == BEGINS)
            used += snprintf(text + used, size - (size_t)used, depth ? " %s;" : "%s:", here->name);
        depth += here->what;
        assert_in_range(depth, 0, 2);
        if (depth > 0) continue;
        (*at)++;
        return true;
    }
    assert_int_equal(depth, 0);
    return false;
}

/* Each worker's marks are the programs that the plan has for it, step after step, with evaluations between them. */
static void marks_have_the_names_of_the_plan(void **state) {
    (void)state;
    static char expected[8192], found[8192];
    gp_error err;
    gp_session *session = fixture_session(CHANGES(NULL));
    it.listens = true;
    it.stop_at = 0;
    assert_int_equal(train(CHANGES(NULL), (gp_capture_options){0}, &err), GP_OK);
    const gp_plan *plan = session->plan;
    const gp_mini_plan *training = &plan->minis[gp_plan_find(plan, true, 4)];
    assert_int_equal(plan->workers, 2);
    for (int w = 0; w < 2; w++) {
        int at = find(BEGINS, w == 0 ? "F s0 m0" : "F s1 m0", 0), steps = 0, others = 0;
        assert_int_not_equal(at, -1);
        pthread_t thread = it.notes[at].thread;
        at = 0;
        while (read_marks(found, sizeof found, thread, &at)) {
            if (!strncmp(found, "evaluation:", 11)) {
                assert_true(steps == 7 || steps == STEPS);
                assert_non_null(strstr(found, " F s"));
                assert_null(strstr(found, " B s"));
                others++;
                continue;
            }
            char name[32];
            snprintf(name, sizeof name, "step %d", ++steps);
            expect_program(expected, sizeof expected, name, &training->programs->worker[w]);
            assert_string_equal(found, expected);
        }
        assert_int_equal(steps, STEPS);
        assert_int_equal(others, 2 * 4); /* 14 samples in mini-batches of 4 */
    }
    gp_session_close(&session);
}

/* If no profiler listens, a step costs each worker one mark, and instructions cost none. */
static void without_a_profiler_only_steps_are_marked(void **state) {
    (void)state;
    gp_error err;
    it.listens = false;
    it.stop_at = 0;
    assert_int_equal(train(CHANGES(NULL), (gp_capture_options){0}, &err), GP_OK);
    assert_int_equal(count(BEGINS), 2 * (STEPS + 2 * 4));
    assert_int_equal(count(ENDS), count(BEGINS));
    assert_int_equal(find(BEGINS, "F s0 m0", 0), -1);
}

/* ---- the capture ------------------------------------------------------------------------------------------------- */

static void a_capture_has_whole_steps(void **state) {
    (void)state;
    gp_error err;
    it.listens = true;
    it.stop_at = 0;
    assert_int_equal(train(CHANGES(NULL), (gp_capture_options){11, 12}, &err), GP_OK);
    assert_int_equal(count(CAPTURES), 1);
    assert_int_equal(count(RELEASES), 1);
    int begin = find(CAPTURES, "", 0), end = find(RELEASES, "", 0);
    for (int step = 1; step <= STEPS; step++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", step);
        int first = find(BEGINS, name, 0), second = find(BEGINS, name, first + 1);
        assert_int_not_equal(second, -1);
        assert_int_equal(first > begin && second < end, step == 11 || step == 12);
        assert_true(step > 10 || second < begin);
        assert_true(step < 13 || first > end);
    }
    /* Those steps run alone, and so does the next one: nothing else is in the capture. */
    assert_true(it.alone[11] && it.alone[12] && it.alone[13]);
}

static void a_run_that_ends_within_a_capture_ends_it(void **state) {
    (void)state;
    gp_error err;
    it.stop_at = 3;
    assert_int_equal(train(CHANGES(NULL), (gp_capture_options){2, 8}, &err), GP_INTERRUPTED);
    assert_int_equal(count(CAPTURES), 1);
    assert_int_equal(count(RELEASES), 1);
}

static void a_run_that_ends_before_a_capture_has_none(void **state) {
    (void)state;
    gp_error err;
    it.stop_at = 2;
    assert_int_equal(train(CHANGES(NULL), (gp_capture_options){6, 8}, &err), GP_INTERRUPTED);
    assert_int_equal(count(CAPTURES) + count(RELEASES), 0);
}

static void a_failing_call_ends_the_run_with_its_sentence(void **state) {
    (void)state;
    gp_error err;
    it.stop_at = 0;
    it.fails = true;
    assert_int_equal(train(CHANGES(NULL), (gp_capture_options){2, 3}, &err), GP_DEVICE);
    it.fails = false;
    assert_string_equal(err.text, "step 2: cudaProfilerStart: made to fail");
}

static void steps_that_the_run_has_not_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t first, last, from;
        const char *sentence;
    } cases[] = {
        {0, 0, 0, NULL},
        {14, 15, 0, NULL},
        {1, 5, 4, NULL},
        {15, 15, 0,
         "--capture-steps 15:15: the run has steps 1 to 14, so the capture would be empty: choose some of these"},
        {1, 4, 4,
         "--capture-steps 1:4: the run has steps 5 to 14, so the capture would be empty: choose some of these"},
    };
    gp_session *session = fixture_session(CHANGES(NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        const gp_capture_options asked = {cases[i].first, cases[i].last};
        gp_status status = gp_capture_check(&asked, session->plan, cases[i].from, STEPS, &err);
        assert_int_equal(status, cases[i].sentence ? GP_USAGE : GP_OK);
        if (cases[i].sentence) assert_string_equal(err.text, cases[i].sentence);
    }
    gp_session_close(&session);
}

static void a_run_without_a_gpu_has_no_capture(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(CHANGES("pipeline.devices=[cpu, cpu]", NULL));
    const gp_capture_options asked = {3, 6};
    assert_int_equal(gp_capture_check(&asked, session->plan, 0, STEPS, &err), GP_USAGE);
    assert_string_equal(err.text, "--capture-steps 3:6: no device of the run has a profiler: name a GPU in "
                                  "pipeline.devices, or record a timeline with --trace");
    gp_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_have_the_names_of_the_plan),
        cmocka_unit_test(without_a_profiler_only_steps_are_marked),
        cmocka_unit_test(a_capture_has_whole_steps),
        cmocka_unit_test(a_run_that_ends_within_a_capture_ends_it),
        cmocka_unit_test(a_run_that_ends_before_a_capture_has_none),
        cmocka_unit_test(a_failing_call_ends_the_run_with_its_sentence),
        cmocka_unit_test(steps_that_the_run_has_not_are_refused),
        cmocka_unit_test(a_run_without_a_gpu_has_no_capture),
    };
    return cmocka_run_group_tests(tests, make, fixture_remove);
}
