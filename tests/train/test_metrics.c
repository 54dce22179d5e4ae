#include "train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/philox.h"
#include "session/fixture.h"
#include "trace/recorder.h"

/* In place of the library's: a file that takes nothing and says nothing of it, as POSIX lets some do; and signals that
 * come before anything is written. */
static bool takes_nothing;
static int interruptions;
ssize_t write(int fd, const void *bytes, size_t count) {
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return takes_nothing ? 0 : (ssize_t)syscall(SYS_write, fd, bytes, count);
}

/* Another process is faster: it makes the file of this path just before the next call that would make it. */
static const char *taken;
static const char their_text[] = "theirs\n";
int open(const char *path, int flags, ...) {
    mode_t rights = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        rights = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    if (taken && (flags & O_CREAT) && strcmp(path, taken) == 0) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        (void)syscall(SYS_write, fd, their_text, sizeof their_text - 1);
        close(fd);
        taken = NULL;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, rights);
}

static double now(void) {
    return 1e-9 * (double)gp_clock();
}

static gp_status write_eval(gp_metrics *metrics, int64_t step, double loss, double accuracy) {
    gp_error err = {0};
    const gp_eval_record record = {
        .step = step, .epoch = 2, .loss = loss, .accuracy = accuracy, .seconds = 0.5, .data_seconds = 0.125};
    return gp_metrics_eval(metrics, &record, &err);
}

/* The object's keys in the order of the file, separated by blanks. */
static const char *keys_of(json_t *object) {
    static char text[512];
    const char *key;
    json_t *value;
    text[0] = '\0';
    json_object_foreach(object, key, value) {
        strcat(text, text[0] ? " " : "");
        strcat(text, key);
    }
    return text;
}

static gp_metrics *open_since(double began) {
    gp_metrics *metrics = NULL;
    gp_error err = {0};
    assert_int_equal(gp_metrics_open(fixture_path("metrics.jsonl"), began, &metrics, &err), GP_OK);
    return metrics;
}

static gp_metrics *open_file(void) {
    return open_since(now());
}

static json_t *close_and_read(gp_metrics *metrics) {
    gp_error err = {0};
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
    assert_null(metrics);
    return fixture_metrics(fixture_path(""));
}

static void the_start_says_what_runs(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(FIXTURE_CHANGES("pipeline.balance=[3, 5]", "train.seed=7", "train.steps=5"));
    gp_metrics *metrics = open_file();
    assert_int_equal(gp_metrics_start(metrics, session, &err), GP_OK);
    json_t *lines = close_and_read(metrics), *start = json_array_get(lines, 0);
    assert_int_equal(json_array_size(lines), 1);
    assert_true(json_real_value(json_object_get(start, "time")) >= 0);
    json_object_del(start, "time");
    json_t *wanted =
        json_pack("{s:s, s:s, s:i, s:i, s:[i, i], s:[s, s], s:i, s:i, s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:i}", "event",
                  "start", "version", GP_VERSION, "parameters", 1139, "layers", 8, "balance", 3, 5, "devices", "cpu",
                  "cpu", "processes", 1, "micro_batches", 4, "schedule", "gpipe", "checkpoint", "except_last",
                  "lockstep", 0, "seed", 7, "batch", 16, "train_samples", 50, "eval_samples", 14, "steps", 5);
    assert_non_null(wanted);
    assert_true(json_equal(start, wanted));
    json_decref(wanted);
    json_decref(lines);
    gp_session_close(&session);
}

/* Removes "time" from each line of text, where it is the last key. Times of lines never decrease; returns the last. */
static double remove_times(char *text) {
    double last = 0;
    for (char *key; (key = strstr(text, ",\"time\":"));) {
        char *end;
        double time = strtod(key + 8, &end);
        assert_true(time >= last);
        assert_memory_equal(end, "}\n", 2);
        memmove(key, end, strlen(end) + 1);
        last = time;
    }
    return last;
}

static void the_lines_of_a_run(void **state) {
    (void)state;
    gp_error err = {0};
    gp_step_record record = {.step = 12,
                             .epoch = 3,
                             .loss = 2.302585125,
                             .rate = 0.02,
                             .accuracy = (double)NAN,
                             .samples = 64,
                             .seconds = 0.0123,
                             .data_seconds = 0.0045};
    gp_metrics *metrics = open_file();
    assert_int_equal(gp_metrics_step(metrics, &record, &err), GP_OK);
    record.normed = true;
    record.grad_norm = 1.25;
    record.accuracy = 0.75;
    assert_int_equal(gp_metrics_step(metrics, &record, &err), GP_OK);
    assert_int_equal(write_eval(metrics, 12, 0.5, 0.9812), GP_OK);
    assert_int_equal(write_eval(metrics, 13, 0.25, (double)NAN), GP_OK);
    assert_int_equal(gp_metrics_end(metrics, "done", 12, 1.25, NULL, &err), GP_OK);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
    size_t bytes;
    char *text = fixture_read(fixture_path("metrics.jsonl"), &bytes);
    remove_times(text);
    assert_string_equal(text,
                        "{\"event\":\"step\",\"step\":12,\"epoch\":3,\"loss\":2.30258512,\"lr\":0.02,\"samples\":64,"
                        "\"seconds\":0.0123,\"data_seconds\":0.0045}\n"
                        "{\"event\":\"step\",\"step\":12,\"epoch\":3,\"loss\":2.30258512,\"lr\":0.02,\"samples\":64,"
                        "\"seconds\":0.0123,\"data_seconds\":0.0045,\"accuracy\":0.75,\"grad_norm\":1.25}\n"
                        "{\"event\":\"eval\",\"step\":12,\"epoch\":2,\"loss\":0.5,\"seconds\":0.5,"
                        "\"data_seconds\":0.125,\"accuracy\":0.9812}\n"
                        "{\"event\":\"eval\",\"step\":13,\"epoch\":2,\"loss\":0.25,\"seconds\":0.5,"
                        "\"data_seconds\":0.125}\n"
                        "{\"event\":\"end\",\"status\":\"done\",\"steps\":12,\"seconds\":1.25}\n");
    free(text);
}

/* "time" of the only line that a process writes that began `before` seconds ago, into a file that holds `kept`. */
static double next_time(const char *kept, double before) {
    gp_error err = {0};
    gp_metrics *metrics = NULL;
    bool lost;
    size_t bytes;
    fixture_write_text("metrics.jsonl", kept);
    assert_int_equal(gp_metrics_reopen(fixture_path("metrics.jsonl"), (int64_t)strlen(kept), INT64_MAX, now() - before,
                                       &metrics, &lost, &err),
                     GP_OK);
    assert_int_equal(gp_metrics_end(metrics, "done", 12, 1.25, NULL, &err), GP_OK);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
    char *text = fixture_read(fixture_path("metrics.jsonl"), &bytes);
    const char *key = strstr(text + strlen(kept), ",\"time\":");
    assert_non_null(key);
    double time = strtod(key + 8, NULL);
    free(text);
    return time;
}

/* The clock counts from the beginning of the run; of one that is resumed, from the last line that is kept. The clock's
 * own time is of days here, so that the seconds that this test takes do not matter. */
static void time_goes_on(void **state) {
    (void)state;
    const double day = 86400;
    static const struct {
        const char *kept;
        double days;
    } cases[] = {
        {"", 1},
        {"{}\n", 1},
        {"{\"event\":\"start\"}\n", 1},
        {"{\"time\":86400}\n", 2},
        {"{\"event\":\"step\",\"loss\":1,\"time\":172800.5}\n", 3},
        {"{\"time\":1e9}\n{\"event\":\"step\",\"time\":8.64e4}\n", 2},
        {"{\"time\":86400}\n{\"event\":\"step\"}\n", 1}, /* written by a version without times */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double time = next_time(cases[i].kept, day);
        if (!(time >= cases[i].days * day && time < (cases[i].days + 0.5) * day))
            fail_msg("after %s: %g days", cases[i].kept, time / day);
    }
}

/* A line is in the file when the function returns, for those who follow it and for those who end the process. */
static void lines_are_written_at_once(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = open_file();
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write_eval(metrics, i, 0, 0), GP_OK);
        json_t *lines = fixture_metrics(fixture_path(""));
        assert_int_equal(json_array_size(lines), i);
        json_decref(lines);
    }
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
}

static float any_float(uint32_t i) {
    union {
        uint32_t bits;
        float value;
    } u = {.bits = gp_philox_draw(3, (gp_philox){{i, 0, 0, 0}}).word[0]};
    return isfinite(u.value) ? u.value : (float)i;
}

static void floats_come_back_as_they_were(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    gp_metrics *metrics = open_file();
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(write_eval(metrics, i, (double)any_float(i), -(double)any_float(i)), GP_OK);
    json_t *lines = close_and_read(metrics);
    assert_int_equal(json_array_size(lines), COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        json_t *line = json_array_get(lines, i);
        assert_true((float)json_real_value(json_object_get(line, "loss")) == any_float(i));
        assert_true((float)json_real_value(json_object_get(line, "accuracy")) == -any_float(i));
    }
    json_decref(lines);
}

static void what_is_not_finite_is_null(void **state) {
    (void)state;
    gp_error err = {0};
    const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    gp_metrics *metrics = open_file();
    for (int i = 0; i < 3; i++) {
        gp_step_record record = {.step = 1, .epoch = 1, .loss = values[i], .rate = 0.1, .samples = 1, .seconds = 1};
        assert_int_equal(gp_metrics_step(metrics, &record, &err), GP_OK);
        assert_int_equal(write_eval(metrics, 1, values[i], 0), GP_OK);
    }
    json_t *lines = close_and_read(metrics);
    assert_int_equal(json_array_size(lines), 6);
    for (size_t i = 0; i < 6; i++) assert_true(json_is_null(json_object_get(json_array_get(lines, i), "loss")));
    assert_string_equal(keys_of(json_array_get(lines, 0)),
                        "event step epoch loss lr samples seconds data_seconds accuracy time");
    json_decref(lines);
}

static void an_old_file_is_emptied(void **state) {
    (void)state;
    gp_error err = {0};
    fixture_write_text("metrics.jsonl", "old\n");
    gp_metrics *metrics = open_file();
    assert_int_equal(gp_metrics_end(metrics, "failed", 0, 0, NULL, &err), GP_OK);
    json_t *lines = close_and_read(metrics);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
}

/* Whether there was an old file, or none. */
static void the_file_of_another_process_is_not_taken(void **state) {
    (void)state;
    char wanted[600], found[64];
    const char *path = fixture_path("taken.jsonl");
    snprintf(wanted, sizeof wanted, "%s: cannot be written: %s", path, strerror(EEXIST));
    for (int old = 0; old < 2; old++) {
        gp_metrics *metrics = NULL;
        gp_error err = {0};
        unlink(path);
        if (old) fixture_write_text("taken.jsonl", "old\n");
        taken = path;
        assert_int_equal(gp_metrics_open(path, now(), &metrics, &err), GP_IO);
        assert_null(taken);
        assert_string_equal(err.text, wanted);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_string_equal(fgets(found, sizeof found, file), their_text);
        assert_null(fgets(found, sizeof found, file));
        fclose(file);
    }
}

static void files_that_cannot_be_written_are_named(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = NULL;
    char wanted[700];
    assert_int_equal(gp_metrics_open(fixture_path("none/metrics.jsonl"), now(), &metrics, &err), GP_IO);
    assert_null(metrics);
    snprintf(wanted, sizeof wanted, "%s: cannot be written: No such file or directory",
             fixture_path("none/metrics.jsonl"));
    assert_string_equal(err.text, wanted);
    assert_int_equal(gp_metrics_open("/dev/full", now(), &metrics, &err), GP_OK);
    assert_int_equal(gp_metrics_end(metrics, "done", 1, 1, NULL, &err), GP_OK);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_IO);
    assert_string_equal(err.text,
                        "/dev/full: cannot be written: No space left on device; free space on that file system");
    assert_null(metrics);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
}

/* A file that may not grow takes a part of a line; nothing of it stays, and later lines that fit are whole. */
static void a_full_disk_leaves_whole_lines(void **state) {
    (void)state;
    gp_error err = {0};
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    gp_metrics *metrics = open_since(now() - 1e9); /* every line has "time":1e9, and lines are equally long */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    assert_int_equal(write_eval(metrics, 1, 0.5, 0.5), GP_OK);
    const int64_t shorter = gp_metrics_bytes(metrics);
    small.rlim_cur = (rlim_t)(3 * shorter + shorter / 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    /* Lines of which three fit and one waits; then long ones, until they are too many. */
    int written = 1, said = 0;
    for (; written < 4; written++) {
        assert_int_equal(write_eval(metrics, 1, 0.5, 0.5), GP_OK);
        if (gp_metrics_poll(metrics, &err) != GP_OK) said = said ? -1 : written;
    }
    static char text[4001];
    memset(text, 'x', 4000);
    int64_t bytes = gp_metrics_bytes(metrics),
            line = 4000 + (int64_t)strlen("{'event':'end','status':'','steps':1,'seconds':1.0,'time':1e9}\n");
    for (; written < 10000 && gp_metrics_end(metrics, text, 1, 1, NULL, &err) == GP_OK; written++, bytes += line)
        assert_int_equal(gp_metrics_poll(metrics, &err), GP_OK);
    json_t *lines = fixture_metrics(fixture_path(""));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(json_array_size(lines), 3);
    json_decref(lines);
    assert_int_equal(said, 3);
    assert_int_equal(written, 4 + ((16 << 20) - shorter) / line);
    assert_int_equal(gp_metrics_bytes(metrics), bytes);
    assert_non_null(strstr(err.text, "metrics.jsonl: cannot be written: File too large"));
    /* There is room again. */
    assert_int_equal(gp_metrics_end(metrics, "done", 1, 1, NULL, &err), GP_OK);
    lines = close_and_read(metrics);
    assert_int_equal(json_array_size(lines), written + 1);
    json_decref(lines);
}

static void a_file_that_takes_nothing_is_full(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = open_file();
    takes_nothing = true;
    assert_int_equal(write_eval(metrics, 1, 0.5, 0.5), GP_OK);
    gp_status status = gp_metrics_poll(metrics, &err);
    takes_nothing = false;
    assert_int_equal(status, GP_IO);
    assert_non_null(strstr(err.text, "metrics.jsonl: cannot be written: the system wrote no byte"));
    json_t *lines = close_and_read(metrics);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
}

static void an_interrupted_write_is_repeated(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = open_file();
    interruptions = 3;
    assert_int_equal(write_eval(metrics, 1, 0.5, 0.5), GP_OK);
    assert_int_equal(interruptions, 0);
    assert_int_equal(gp_metrics_poll(metrics, &err), GP_OK);
    json_t *lines = close_and_read(metrics);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
}

/* What is left of `before` where a run goes on from `bytes`, with one line more. */
static void expect_cut(const char *before, int64_t bytes, const char *kept, bool wanted) {
    gp_error err = {0};
    gp_metrics *metrics = NULL;
    size_t found = 0;
    bool lost = !wanted;
    fixture_write_text("metrics.jsonl", before);
    assert_int_equal(gp_metrics_reopen(fixture_path("metrics.jsonl"), bytes, 7, now(), &metrics, &lost, &err), GP_OK);
    assert_int_equal(lost, wanted);
    assert_int_equal(gp_metrics_bytes(metrics), strlen(kept));
    assert_int_equal(gp_metrics_end(metrics, "done", 1, 1, NULL, &err), GP_OK);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
    char *text = fixture_read(fixture_path("metrics.jsonl"), &found);
    assert_memory_equal(text, kept, strlen(kept));
    assert_memory_equal(text + strlen(kept), "{\"event\":\"end\"", 14);
    free(text);
}

static void reopened_it_is_cut_back_to_whole_lines(void **state) {
    (void)state;
    expect_cut("{}\n[]\nlater\n", 6, "{}\n[]\n", false);
    expect_cut("{}\n[]\nlater\n", 5, "{}\n", true);
    expect_cut("{}\n[]\npart", 6, "{}\n[]\n", false);
    expect_cut("{}\n[]\npart", 30, "{}\n[]\n", true);
    expect_cut("{}\n[]\n", 30, "{}\n[]\n", true);
    expect_cut("part", 3, "", true);
    expect_cut("", 0, "", false);
    /* Of a file that began anew after the snapshot, of step 7, was written. */
#define LINE(event, step) "{\"event\":\"" event "\",\"step\":" step ",\"time\":1}\n"
#define KEPT              LINE("eval", "5") LINE("change", "8") LINE("step", "7")
    expect_cut(KEPT LINE("step", "8"), (int64_t)strlen(KEPT), KEPT, false);
    expect_cut(KEPT LINE("step", "8") "later\n", (int64_t)strlen(KEPT) + 40, KEPT, true);
    expect_cut(LINE("step", "12") LINE("eval", "12") LINE("step", "13"), 60, "", true);
    expect_cut(KEPT LINE("eval", "10") LINE("step", "11"), 1000, KEPT, true);
#undef KEPT
#undef LINE
}

static void what_is_no_file_is_not_reopened(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = NULL;
    char wanted[700];
    bool lost = false;
    assert_int_equal(mkfifo(fixture_path("pipe"), 0600), 0);
    assert_int_equal(gp_metrics_reopen(fixture_path("pipe"), 0, 0, now(), &metrics, &lost, &err), GP_IO);
    snprintf(wanted, sizeof wanted, "%s: is not a regular file, so its lines after the snapshot cannot be removed",
             fixture_path("pipe"));
    assert_string_equal(err.text, wanted);
    assert_null(metrics);
    assert_int_equal(gp_metrics_reopen(fixture_path("none/metrics.jsonl"), 0, 0, now(), &metrics, &lost, &err), GP_IO);
    assert_null(metrics);
}

static void a_file_that_was_removed_begins_anew(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = NULL;
    const char *path = fixture_path("renewed");
    size_t bytes;
    bool renewed = true;
    assert_int_equal(gp_metrics_open(path, now(), &metrics, &err), GP_OK);
    assert_int_equal(write_eval(metrics, 1, 1, 1), GP_OK);
    assert_int_equal(gp_metrics_renew(metrics, path, &renewed, &err), GP_OK);
    assert_false(renewed); /* it is there */
    assert_false(gp_metrics_are_gone(metrics));
    assert_int_equal(unlink(path), 0);
    assert_true(gp_metrics_are_gone(metrics));
    fixture_write_text("renewed", "theirs\n");
    assert_int_equal(gp_metrics_renew(metrics, path, &renewed, &err), GP_IO);
    assert_non_null(strstr(err.text, "renewed was replaced while the run went on: what is there now stays as it is, "
                                     "and the lines of the run are lost"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(gp_metrics_renew(metrics, fixture_path("none/metrics.jsonl"), &renewed, &err), GP_IO);
    assert_non_null(strstr(err.text, "the file was removed while the run went on, and cannot be made again: "));
    assert_false(renewed);
    assert_int_equal(write_eval(metrics, 1, 1, 1), GP_OK); /* the old file takes lines still */
    assert_int_equal(gp_metrics_renew(metrics, path, &renewed, &err), GP_OK);
    assert_true(renewed);
    assert_false(gp_metrics_are_gone(metrics));
    assert_int_equal(gp_metrics_bytes(metrics), 0);
    assert_int_equal(write_eval(metrics, 2, 1, 1), GP_OK);
    char *text = fixture_read(path, &bytes);
    assert_int_equal(bytes, gp_metrics_bytes(metrics));
    assert_non_null(strstr(text, "\"step\":2"));
    free(text);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_says_what_runs),
        cmocka_unit_test(the_lines_of_a_run),
        cmocka_unit_test(time_goes_on),
        cmocka_unit_test(lines_are_written_at_once),
        cmocka_unit_test(floats_come_back_as_they_were),
        cmocka_unit_test(what_is_not_finite_is_null),
        cmocka_unit_test(an_old_file_is_emptied),
        cmocka_unit_test(the_file_of_another_process_is_not_taken),
        cmocka_unit_test(files_that_cannot_be_written_are_named),
        cmocka_unit_test(a_full_disk_leaves_whole_lines),
        cmocka_unit_test(a_file_that_takes_nothing_is_full),
        cmocka_unit_test(an_interrupted_write_is_repeated),
        cmocka_unit_test(reopened_it_is_cut_back_to_whole_lines),
        cmocka_unit_test(what_is_no_file_is_not_reopened),
        cmocka_unit_test(a_file_that_was_removed_begins_anew),
    };
    return cmocka_run_group_tests_name("metrics", tests, fixture_make, fixture_remove);
}
