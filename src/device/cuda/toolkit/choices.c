#include "device/cuda/toolkit/choices.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/replace.h"

/* The file: a first line that names the format, then a line for each choice, which begins with a sum of the rest:
 *
 *   gpipe engines 1
 *   <sum> <key> <engine> <knobs> [<type>=<value> ...]
 */
static const char first_line[] = "gpipe engines 1\n";
enum { LINE = 64 + GP_CUDNN_MAX_KNOBS * 44, MOST_CHOICES = 1 << 13 };

typedef struct choice {
    uint64_t key;
    gp_cudnn_engine engine;
} choice;

typedef struct choices {
    choice *item;
    size_t count, capacity;
} choices;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static choices known;
static bool was_read, unsaved; /* unsaved: the file lacks something, or is none */

uint64_t gp_choice_key(const gp_op_desc *desc, const char *device, size_t version) {
    uint64_t hash = gp_hash_bytes(0, desc, gp_op_desc_bytes(desc));
    hash = gp_hash_bytes(hash, &version, sizeof version);
    return gp_hash_bytes(hash, device, strlen(device));
}

static choice *find(const choices *in, uint64_t key) {
    for (size_t i = 0; i < in->count; i++)
        if (in->item[i].key == key) return &in->item[i];
    return NULL;
}

/* The oldest makes room; what does not fit into memory is not kept, since it can be chosen again. */
static void put(choices *in, uint64_t key, const gp_cudnn_engine *engine) {
    gp_error ignored;
    choice *at = find(in, key);
    if (!at) {
        if (in->count == MOST_CHOICES) memmove(in->item, in->item + 1, --in->count * sizeof *in->item);
        if (GP_GROW(&in->item, &in->capacity, in->count + 1, &ignored) != GP_OK) return;
        at = &in->item[in->count++];
    }
    at->key = key;
    at->engine = *engine;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* False where there is no place for it. */
static bool find_file(char path[PATH_MAX]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *below = "";
    if (!cache || cache[0] != '/') {
        cache = home;
        below = "/.cache";
    }
    if (!cache || cache[0] != '/') return false;
    int length = snprintf(path, PATH_MAX, "%s%s/gpipe/cudnn-engines", cache, below);
    return length > 0 && length < PATH_MAX;
}

/* The file's folder and the one that holds it. What cannot be made is found out when the file is written. */
static void make_folders(const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    char *last = strrchr(folder, '/');
    *last = '\0';
    (void)mkdir(folder, S_IRWXU);
    *last = '/';
    (void)mkdir(folder, S_IRWXU);
}

/* The sum is of all that stands behind it, the line's end included. */
static bool read_line(const char *line, choice *out) {
    uint64_t sum;
    int end = 0;
    *out = (choice){0};
    if (sscanf(line, "%16" SCNx64 " %n", &sum, &end) != 1 || sum != gp_hash_text(line + end)) return false;
    line += end;
    if (sscanf(line, "%16" SCNx64 " %20" SCNd64 " %3d%n", &out->key, &out->engine.id, &out->engine.knobs, &end) != 3)
        return false;
    if (out->engine.knobs < 0 || out->engine.knobs > GP_CUDNN_MAX_KNOBS) return false;
    for (int i = 0; i < out->engine.knobs; i++) {
        struct gp_cudnn_knob *knob = &out->engine.knob[i];
        line += end;
        if (sscanf(line, "%20" SCNd64 "=%20" SCNd64 "%n", &knob->type, &knob->value, &end) != 2) return false;
    }
    return strcmp(line + end, "\n") == 0;
}

/* Adds what the file has to `in`, but where `in` knows better; false where some of it is no choice. */
static bool read_file(choices *in) {
    char path[PATH_MAX], line[LINE];
    choice one;
    FILE *file = find_file(path) ? fopen(path, "re") : NULL;
    if (!file) return true;
    bool whole = fgets(line, sizeof line, file) && strcmp(line, first_line) == 0;
    for (bool more = whole; more && fgets(line, sizeof line, file);) {
        if (!read_line(line, &one))
            whole = false;
        else if (!find(in, one.key))
            put(in, one.key, &one.engine);
    }
    fclose(file);
    return whole;
}

static gp_status write_choice(gp_replacing *file, const choice *its, gp_error *err) {
    char sum[24], line[LINE];
    int at = snprintf(line, sizeof line, "%" PRIx64 " %" PRId64 " %d", its->key, its->engine.id, its->engine.knobs);
    for (int i = 0; i < its->engine.knobs; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %" PRId64 "=%" PRId64, its->engine.knob[i].type,
                       its->engine.knob[i].value);
    snprintf(line + at, sizeof line - (size_t)at, "\n");
    snprintf(sum, sizeof sum, "%" PRIx64 " ", gp_hash_text(line));
    GP_RETURN_IF_FAILED(gp_file_add(file, sum, strlen(sum), err));
    return gp_file_add(file, line, strlen(line), err);
}

static gp_status write_file(const char *path, const choices *its, gp_error *err) {
    gp_replacing *file;
    GP_RETURN_IF_FAILED(gp_file_begin(path, &file, err));
    gp_status status = gp_file_add(file, first_line, strlen(first_line), err);
    for (size_t i = 0; i < its->count && status == GP_OK; i++) status = write_choice(file, &its->item[i], err);
    return gp_file_end(&file, status, err);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

bool gp_choice_find(uint64_t key, gp_cudnn_engine *out) {
    pthread_mutex_lock(&lock);
    if (!was_read && !read_file(&known)) unsaved = true;
    was_read = true;
    const choice *its = find(&known, key);
    if (its) *out = its->engine;
    pthread_mutex_unlock(&lock);
    return its != NULL;
}

void gp_choice_add(uint64_t key, const gp_cudnn_engine *engine) {
    pthread_mutex_lock(&lock);
    put(&known, key, engine);
    unsaved = true;
    pthread_mutex_unlock(&lock);
}

void gp_choices_save(void) {
    char path[PATH_MAX];
    gp_error ignored;
    pthread_mutex_lock(&lock);
    if (unsaved && find_file(path)) {
        make_folders(path);
        (void)read_file(&known);
        (void)write_file(path, &known, &ignored);
    }
    unsaved = false;
    pthread_mutex_unlock(&lock);
}

void gp_choices_forget(void) {
    pthread_mutex_lock(&lock);
    free(known.item);
    known = (choices){0};
    was_read = unsaved = false;
    pthread_mutex_unlock(&lock);
}
