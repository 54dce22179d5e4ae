/* What a person sees of a run: on a terminal, in a pipe, and when. */
#include "train/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "session/fixture.h"
#include "train/trainer.h"

#define NORM                                                                                                           \
    "warning: batch norm sees 4 samples of a mini-batch of 16 at a time; below 16 its statistics are rough: take "     \
    "fewer micro_batches, or group_norm in its place\n"

static int streams[2];

/* What is printed from here on goes into files. */
static void begin(void) {
    static const char *const names[] = {"out", "err"};
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        streams[i] = dup(i + 1);
        FILE *file = fopen(fixture_path(names[i]), "w");
        assert_non_null(file);
        assert_true(streams[i] >= 0 && dup2(fileno(file), i + 1) == i + 1);
        fclose(file);
    }
}

/* What is printed from here on is the test's again. */
static void end(void) {
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(streams[i], i + 1);
        close(streams[i]);
    }
}

static void expect(const char *out, const char *err) {
    const char *const wanted[] = {out, err};
    end();
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        char *text = fixture_read(fixture_path(i ? "err" : "out"), &bytes);
        assert_string_equal(text, wanted[i]);
        free(text);
    }
}

/* A run of 1,100 steps, 1,000 of which took 1,000 seconds, whose last line is a day old. */
static gp_progress far(gp_verbosity verbosity, bool terminal) {
    double now = gp_now();
    return (gp_progress){.verbosity = verbosity,
                         .ticker = {.out = stdout, .terminal = terminal, .said = now - 86400},
                         .steps = 1100,
                         .began = now - 1000};
}

static const gp_step_record thousandth = {.step = 1000, .epoch = 3, .loss = 0.125, .accuracy = 0.5, .samples = 86400};

static void in_a_pipe_there_are_lines(void **state) {
    (void)state;
    gp_progress progress = far(GP_NORMAL, false);
    begin();
    gp_progress_step(&progress, &thousandth);
    gp_progress_step(&progress, &thousandth); /* too soon for another */
    gp_progress_eval(&progress, &(gp_eval_record){.step = 1000, .epoch = 3, .loss = 0.25, .accuracy = 0.75});
    gp_progress_eval(&progress, &(gp_eval_record){.step = 0, .epoch = 0, .loss = 0.25, .accuracy = NAN});
    gp_progress_warn(&progress, "%d snapshots", 3);
    gp_progress_line(&progress, "done: %s", "all");
    expect("step 1000/1100  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  1m40s left\n"
           "step 1000/1100  epoch 3  eval loss 0.2500  accuracy 0.7500\n"
           "eval loss 0.2500\n"
           "done: all\n",
           "gpipe-train: warning: 3 snapshots\n");
}

/* One line, written over; what is to stay begins a new one, or takes its place. */
static void on_a_terminal_a_line_is_rewritten(void **state) {
    (void)state;
    gp_progress progress = far(GP_NORMAL, true);
    begin();
    gp_progress_step(&progress, &thousandth);
    gp_progress_warn(&progress, "a");
    progress.ticker.said -= 86400;
    gp_progress_step(&progress, &thousandth);
    gp_progress_eval(&progress, &(gp_eval_record){.step = 1000, .epoch = 3, .loss = 0.25, .accuracy = NAN});
    gp_progress_line(&progress, "done");
    expect("\rstep 1000/1100  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  1m40s left\033[K\n"
           "\rstep 1000/1100  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  1m40s left\033[K"
           "\r\033[Kstep 1000/1100  epoch 3  eval loss 0.2500\n"
           "done\n",
           "gpipe-train: warning: a\n");
}

/* What another thread has to say before the process ends: it clears an open line once, and nothing else. */
static void an_error_begins_a_line(void **state) {
    (void)state;
    gp_progress progress = far(GP_NORMAL, true);
    begin();
    gp_ticker_clear_line(false);
    gp_progress_step(&progress, &thousandth);
    gp_ticker_clear_line(false);
    gp_ticker_clear_line(false);
    progress.ticker.said -= 86400;
    gp_progress_step(&progress, &thousandth);
    gp_progress_line(&progress, "done");
    gp_ticker_clear_line(false);
    gp_ticker_clear_line(true); /* this output is no terminal, on which another process may have left a line */
    expect("\rstep 1000/1100  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  1m40s left\033[K\r\033[K"
           "\rstep 1000/1100  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  1m40s left\033[K\ndone\n",
           "");
}

/* Of the steps that this process made; from an hour on, in minutes. */
static void the_time_left_is_that_of_the_steps_so_far(void **state) {
    (void)state;
    gp_progress progress = far(GP_NORMAL, false);
    begin();
    gp_progress_resume(&progress, 500, "a/step-00000500.safetensors");
    gp_progress_step(&progress, &thousandth);
    progress.ticker.said -= 86400;
    progress.steps = 1000 + 3650;
    gp_progress_step(&progress, &thousandth);
    expect("going on after step 500, from a/step-00000500.safetensors\n"
           "step 1000/1100  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  3m20s left\n"
           "step 1000/4650  epoch 3  loss 0.1250  accuracy 0.5000  1 samples/s  2h01m left\n",
           "");
}

static void the_quiet_get_warnings_alone(void **state) {
    (void)state;
    gp_progress quiet = far(GP_QUIET, false);
    begin();
    gp_progress_resume(&quiet, 500, "a");
    gp_progress_step(&quiet, &thousandth);
    gp_progress_eval(&quiet, &(gp_eval_record){.step = 1000, .epoch = 3, .loss = 0.25, .accuracy = NAN});
    gp_progress_line(&quiet, "done");
    gp_progress_warn(&quiet, "quiet");
    expect("", "gpipe-train: warning: quiet\n");
}

static void the_start_says_what_is_trained(void **state) {
    (void)state;
    gp_progress progress;
    gp_session *one = fixture_session(FIXTURE_CHANGES("pipeline={devices: [cpu], checkpoint: never}"));
    gp_session *more = fixture_session(FIXTURE_CHANGES("pipeline.balance=[3, 5]"));
    char wanted[800], bytes[2][32];
    one->plan->processors = 1;
    more->plan->processors = 2;
    gp_bytes_text(bytes[0], one->plan->arena[0]);
    size_t largest = more->plan->arena[0] > more->plan->arena[1] ? more->plan->arena[0] : more->plan->arena[1];
    gp_bytes_text(bytes[1], largest);
    begin();
    gp_progress_start(&progress, GP_QUIET, one, NULL, "runs/a");
    gp_progress_start(&progress, GP_NORMAL, one, NULL, "runs/a");
    gp_progress_start(&progress, GP_NORMAL, more, NULL, "runs/b");
    snprintf(wanted, sizeof wanted,
             "8 layers, 1139 parameters; 1 stage [8], schedule gpipe, 1 micro-batch, checkpoint never; at most %s per "
             "stage\n"
             "run folder: runs/a\n"
             "8 layers, 1139 parameters; 2 stages [3, 5], schedule gpipe, 4 micro-batches, checkpoint except_last; at "
             "most %s per stage\n" NORM "run folder: runs/b\n",
             bytes[0], bytes[1]);
    expect(wanted, "");
    more->plan->processors = 1;
    begin();
    gp_progress_start(&progress, GP_QUIET, more, NULL, "runs/b");
    gp_progress_start(&progress, GP_NORMAL, more, NULL, "runs/b");
    snprintf(
        wanted, sizeof wanted,
        "8 layers, 1139 parameters; 2 stages [3, 5], schedule gpipe, 4 micro-batches, checkpoint except_last; at "
        "most %s per stage\n"
        "warning: 2 threads compute on 1 processor, so they take turns; list fewer devices in pipeline.devices, or "
        "give them fewer threads: at most 1 in all\n" NORM "run folder: runs/b\n",
        bytes[1]);
    expect(wanted, "");
    one->plan->devices[0].threads = 2;
    one->plan->processors = 1;
    begin();
    gp_progress_start(&progress, GP_NORMAL, one, NULL, "runs/a");
    snprintf(wanted, sizeof wanted,
             "8 layers, 1139 parameters; 1 stage [8], schedule gpipe, 1 micro-batch, checkpoint never; at most %s per "
             "stage\n"
             "warning: 2 threads compute on 1 processor, so they take turns; give the device at most 1\n"
             "run folder: runs/a\n",
             bytes[0]);
    expect(wanted, "");
    gp_session_close(&one);
    gp_session_close(&more);
}

static void the_start_says_which_stages_have_replicas(void **state) {
    (void)state;
    gp_progress progress;
    gp_session *session =
        fixture_session(FIXTURE_CHANGES("pipeline={devices: [[cpu, cpu], cpu], micro_batches: 4, balance: [3, 5]}"));
    char wanted[400], bytes[32];
    size_t largest = 0;
    for (int w = 0; w < 3; w++)
        if (session->plan->arena[w] > largest) largest = session->plan->arena[w];
    session->plan->processors = 3;
    begin();
    gp_progress_start(&progress, GP_NORMAL, session, NULL, "runs/a");
    snprintf(wanted, sizeof wanted,
             "8 layers, 1139 parameters; 2 stages [3, 5], replicas [2, 1], schedule gpipe, 4 micro-batches, checkpoint "
             "except_last; at most %s per worker\n"
             "warning: batch norm sees 2 samples of a mini-batch of 16 at a time; below 16 its statistics are rough: "
             "model.rules: {batch_norm: {sync: true}} shows it 4\n"
             "run folder: runs/a\n",
             gp_bytes_text(bytes, largest));
    expect(wanted, "");
    gp_session_close(&session);
}

/* Four decimals, but not 70 digits before them, and never fewer significant digits than four. */
static void losses_are_short(void **state) {
    (void)state;
    static const struct {
        double loss;
        const char *text;
    } cases[] = {{0, "0"},
                 {1.2345678e-7, "1.235e-07"},
                 {-0.001, "-0.001"},
                 {0.0123456, "0.01235"},
                 {0.1, "0.1000"},
                 {-0.25, "-0.2500"},
                 {2.30258, "2.3026"},
                 {999999, "999999.0000"},
                 {1e6, "1e+06"},
                 {1.23456e73, "1.235e+73"},
                 {-1e300, "-1e+300"},
                 {(double)INFINITY, "inf"},
                 {-(double)INFINITY, "-inf"},
                 {(double)NAN, "nan"},
                 {-(double)NAN, "nan"}};
    char text[GP_LOSS_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(gp_loss_text(text, cases[i].loss), cases[i].text);
    gp_progress progress = far(GP_NORMAL, false);
    const gp_step_record huge = {.step = 1000, .epoch = 3, .loss = 1e73, .accuracy = (double)NAN, .samples = 86400};
    begin();
    gp_progress_step(&progress, &huge);
    gp_progress_eval(&progress, &(gp_eval_record){.step = 1000, .epoch = 3, .loss = -(double)NAN, .accuracy = 0.75});
    expect("step 1000/1100  epoch 3  loss 1e+73  1 samples/s  1m40s left\n"
           "step 1000/1100  epoch 3  eval loss nan  accuracy 0.7500\n",
           "");
}

/* ---- the first step ---------------------------------------------------------------------------------------------- */

typedef struct waiting {
    const char *out;
    bool seen;
    int left; /* looks at the output */
} waiting;

/* Until the line is there. */
static gp_status wait_for_line(void *context, const gp_site *site, gp_error *err) {
    (void)err;
    waiting *w = context;
    for (; w->left > 0 && !w->seen && site->worker == 0 && site->step == 1; w->left--) {
        size_t bytes;
        char *text = fixture_read(w->out, &bytes);
        w->seen = strstr(text, "\nfirst step: 16 micro-batches on 2 workers, ") &&
                  strstr(text, " s so far; a step is predicted to take ");
        free(text);
        if (!w->seen) usleep(5000);
    }
    return GP_OK;
}

static gp_status let_pass(void *context, const gp_site *site, gp_error *err) {
    (void)context, (void)site, (void)err;
    usleep(10000);
    return GP_OK;
}

static gp_error train_one_step(gp_verbosity verbosity, const gp_hooks *hooks) {
    gp_session *session = fixture_session(FIXTURE_CHANGES("train={steps: 1}", "pipeline.micro_batches=100"));
    const gp_train_options options = {
        .folder = fixture_new_folder(), .verbosity = verbosity, .hooks = hooks, .patience = 0.001};
    gp_error err = {0};
    if (gp_train(session, &options, &err) == GP_OK) err = (gp_error){0};
    gp_session_close(&session);
    return err;
}

static void a_long_first_step_says_what_it_does(void **state) {
    (void)state;
    waiting wait = {.out = fixture_path("out"), .left = 2000};
    const gp_hooks hooks = {.context = &wait, .before = wait_for_line}, slow = {.before = let_pass};
    begin();
    gp_error err = train_one_step(GP_NORMAL, &hooks);
    end();
    assert_string_equal(err.text, "");
    assert_true(wait.seen);
    begin();
    err = train_one_step(GP_QUIET, &slow);
    expect("", "");
    assert_string_equal(err.text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_pipe_there_are_lines),
        cmocka_unit_test(on_a_terminal_a_line_is_rewritten),
        cmocka_unit_test(an_error_begins_a_line),
        cmocka_unit_test(the_time_left_is_that_of_the_steps_so_far),
        cmocka_unit_test(the_quiet_get_warnings_alone),
        cmocka_unit_test(losses_are_short),
        cmocka_unit_test(the_start_says_what_is_trained),
        cmocka_unit_test(the_start_says_which_stages_have_replicas),
        cmocka_unit_test(a_long_first_step_says_what_it_does),
    };
    return cmocka_run_group_tests_name("progress", tests, fixture_make, fixture_remove);
}
