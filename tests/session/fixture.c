#include "session/fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "data/safetensors.h"
#include "profile/cost.h"
#include "store/folder.h"

enum { CHANNELS = 2, HEIGHT = 4, WIDTH = 4, ELEMENTS = CHANNELS * HEIGHT * WIDTH, MAX_SAMPLES = 512 };

static char folder[] = "/tmp/gp-test-train-XXXXXX";

int fixture_make(void **state) {
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    if (!mkdtemp(folder)) return -1;
    fixture_write_data("d.safetensors", FIXTURE_SAMPLES, 0);
    return 0;
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

int fixture_remove(void **state) {
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void fixture_strip_folder(char *text) {
    size_t length = strlen(fixture_path(""));
    for (char *at; (at = strstr(text, fixture_path("")));) memmove(at, at + length, strlen(at + length) + 1);
}

const char *fixture_path(const char *name) {
    static char texts[64][512];
    static int next;
    char *text = texts[next++ % 64];
    snprintf(text, sizeof texts[0], "%s/%s", folder, name);
    return text;
}

const char *fixture_new_folder(void) {
    static int runs;
    gp_error err = {0};
    char name[32];
    snprintf(name, sizeof name, "run%d", runs++);
    const char *made = fixture_path(name);
    assert_int_equal(gp_folder_make(made, &err), GP_OK);
    return made;
}

void fixture_write_data(const char *name, int samples, int ignored) {
    static float x[MAX_SAMPLES][ELEMENTS];
    static int64_t y[MAX_SAMPLES];
    gp_error err = {0};
    assert_true(samples <= MAX_SAMPLES);
    for (int n = 0; n < samples; n++) {
        y[n] = n % FIXTURE_CLASSES;
        for (int i = 0; i < ELEMENTS; i++) {
            gp_philox counter = {{(uint32_t)i, (uint32_t)n, 0, 0}};
            float noise = (float)gp_philox_draw(5, counter).word[0] * 0x1p-32F - 0.5F;
            x[n][i] = noise + (i % FIXTURE_CLASSES == y[n] ? 1.0F : 0.0F);
        }
        if (ignored && n % ignored == ignored - 1) y[n] = -100;
    }
    const gp_safetensors_item items[] = {
        {.name = "x", .dtype = GP_F32, .rank = 4, .dim = {samples, CHANNELS, HEIGHT, WIDTH}, .data = x},
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {samples}, .data = y}};
    assert_int_equal(gp_safetensors_write(fixture_path(name), items, 2, NULL, &err), GP_OK);
}

void fixture_write_text(const char *name, const char *text) {
    FILE *file = fopen(fixture_path(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

char *fixture_read(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is missing", path);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(*bytes + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    return text;
}

int fixture_count_entries(const char *path) {
    int count = 0;
    DIR *dir = opendir(path);
    if (!dir) return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

gp_config *fixture_config(const char *text, const char *const *changes) {
    gp_error err = {0};
    gp_config *config = NULL;
    int count = 0;
    while (changes && changes[count]) count++;
    fixture_write_text("c.yaml", text);
    if (gp_config_load(GP_TO_RUN, fixture_path("c.yaml"), changes, count, &config, &err) != GP_OK)
        fail_msg("%s", err.text);
    return config;
}

gp_session *fixture_session(const char *const *changes) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(FIXTURE_CONFIG, changes);
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    assert_null(config);
    return session;
}

gp_session *fixture_resume(const char *text, const char *const *changes, const char *run, gp_resume *resume) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(text, changes);
    if (gp_resume_open(&config, run, resume, &err) != GP_OK) fail_msg("%s", err.text);
    const gp_session_options options = {.resumes = true, .step = resume->step};
    if (gp_session_open(&config, &options, &session, &err) != GP_OK) fail_msg("%s", err.text);
    if (gp_resume_check(resume, session, run, &err) != GP_OK) fail_msg("%s", err.text);
    return session;
}

void fixture_refused(const char *text, const char *const *changes, gp_status wanted, const char *rest) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(text, changes);
    gp_status status = gp_session_open(&config, NULL, &session, &err);
    assert_null(config);
    if (status == GP_OK) {
        gp_session_close(&session);
        fail_msg("no refusal where this was expected: %s", rest);
    }
    assert_null(session);
    fixture_strip_folder(err.text);
    assert_string_equal(err.text, rest);
    assert_int_equal(status, wanted);
    assert_int_equal(err.status, wanted);
}

void fixture_count_cost(const gp_session *session, double recomputes, int64_t *cost) {
    gp_cost_request request = gp_cost_assumed(session->graph, gp_session_piece(session));
    gp_error err = {0};
    request.recomputes = recomputes;
    request.updates = 1.0 / session->config->pipeline.micro_batches;
    request.optimizer_states = session->update.states;
    request.kind = session->devices[0].kind;
    if (gp_cost_by_time(&request, cost, &err) != GP_OK) fail_msg("%s", err.text);
}

json_t *fixture_metrics(const char *run_folder) {
    char path[600];
    size_t bytes;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run_folder);
    char *text = fixture_read(path, &bytes), *rest = text;
    json_t *lines = json_array();
    while (*rest) {
        char *end = strchr(rest, '\n');
        if (!end) fail_msg("%s ends within a line: %s", path, rest);
        *end = '\0';
        json_error_t error;
        json_t *line = json_loads(rest, 0, &error);
        if (!line) fail_msg("%s: %s: %s", path, error.text, rest);
        json_array_append_new(lines, line);
        rest = end + 1;
    }
    free(text);
    return lines;
}
