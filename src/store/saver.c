#include "store/saver.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "base/sync.h"
#include "pipeline/follow.h"
#include "store/folder.h"
#include "store/parts.h"
#include "store/state_stream.h"

struct gp_saver {
    /* Constant once the thread runs. */
    gp_path folder;
    char *config;
    int64_t keep;
    gp_saver_sizes sizes;
    bool shared; /* gp_saver_share */
    bool started;
    pthread_t thread;

    char *buffer; /* the trainer's thread's: the largest parameter; NULL: not yet */

    /* The thread's while `busy`, else the caller's. */
    gp_state_layout layout; /* with places in `block`, if there is one */
    char *block;            /* a copy of the state, until its file is written, or the saver ends; NULL: none */
    gp_reached reached;
    int64_t begun; /* step of a snapshot of several processes that was begun and has not ended; −1: none */

    pthread_mutex_t lock;
    pthread_cond_t change;
    bool busy, quit;  /* lock */
    gp_error failure; /* of the last snapshot, until gp_saver_wait has returned it; lock */
};

/* Before anything is written: a link may have been put there since the run began. */
static gp_status check_entry(const gp_saver *saver, const char *name, gp_error *err) {
    gp_status status = gp_folder_check_entry(saver->folder.text, name, err);
    if (status != GP_USAGE) return status;
    if (err) err->status = GP_IO;
    return GP_IO;
}

/* The folder of snapshots, whose own entry is synced too. */
static gp_status make_folder(const gp_saver *saver, gp_error *err) {
    const gp_path path = gp_folder_file(saver->folder.text, "snapshots");
    if (mkdir(path.text, 0777) == 0) return gp_file_sync(saver->folder.text, err);
    return errno == EEXIST ? GP_OK : gp_fail(err, GP_IO, "%s: cannot be made: %s", path.text, strerror(errno));
}

/* A snapshot says how far metrics.jsonl was. If the file was removed since, resuming says so. */
static gp_status sync_metrics(const gp_saver *saver, gp_error *err) {
    const gp_path path = gp_folder_file(saver->folder.text, "metrics.jsonl");
    return access(path.text, F_OK) == 0 ? gp_file_sync(path.text, err) : GP_OK;
}

/* What cannot be listed or removed stays: there is only too much of it. `later`: those of later steps go too. */
static void remove_old(const gp_saver *saver, int64_t newest, bool later) {
    int64_t *steps = NULL, kept = 0;
    int count = 0;
    if (gp_snapshot_list(saver->folder.text, &steps, &count, NULL) != GP_OK) return;
    for (int i = 0; i < count; i++)
        if (steps[i] > newest ? later : kept++ >= saver->keep) gp_snapshot_remove(saver->folder.text, steps[i]);
    free(steps);
}

void gp_saver_tidy(gp_saver *saver, int64_t newest) {
    remove_old(saver, newest, false);
}

static gp_status prepare_folder(const gp_saver *saver, gp_error *err) {
    GP_RETURN_IF_FAILED(check_entry(saver, "snapshots", err));
    GP_RETURN_IF_FAILED(make_folder(saver, err));
    return sync_metrics(saver, err);
}

static gp_status write_items(const gp_saver *saver, const gp_safetensors_item *items, size_t count,
                             const gp_safetensors_source *source, const gp_reached *reached, gp_error *err) {
    const gp_path path = gp_snapshot_file(saver->folder.text, reached->step);
    GP_RETURN_IF_FAILED(prepare_folder(saver, err));
    GP_RETURN_IF_FAILED(gp_snapshot_write(path.text, items, count, source, reached, saver->config, err));
    gp_snapshot_remove_folder(saver->folder.text, reached->step);
    return GP_OK;
}

/* `source`: NULL: from the copy. */
static gp_status write_snapshot(const gp_saver *saver, const gp_safetensors_source *source, gp_error *err) {
    GP_RETURN_IF_FAILED(
        write_items(saver, saver->layout.items, (size_t)saver->layout.count, source, &saver->reached, err));
    remove_old(saver, saver->reached.step, true);
    return GP_OK;
}

/* ---- the copy of the state --------------------------------------------------------------------------------------- */

/* Copies the state into saver->block. *taken is false if there is no memory for it. The caller is idle, and there is no
 * copy. A copy that failed, or with a value that is not finite, does not stay. */
static gp_status take_copy(gp_saver *saver, gp_run *run, bool *taken, gp_error *err) {
    size_t bytes = saver->layout.bytes ? saver->layout.bytes : GP_ALIGNMENT;
    void *block = NULL;
    assert(!saver->block);
    *taken = posix_memalign(&block, GP_ALIGNMENT, bytes) == 0;
    if (!*taken) return GP_OK;
    gp_state_layout_place(&saver->layout, block);
    gp_status status = gp_run_read(run, saver->layout.copies, saver->layout.count, err);
    if (status == GP_OK) status = gp_state_check_finite(&saver->layout, saver->layout.count, err);
    if (status != GP_OK)
        free(block);
    else
        saver->block = block;
    return status;
}

/* After its file was written, or could not be. */
static void drop_copy(gp_saver *saver) {
    free(saver->block);
    saver->block = NULL;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *work(void *argument) {
    gp_saver *saver = argument;
    pthread_mutex_lock(&saver->lock);
    for (;;) {
        while (!saver->busy && !saver->quit) pthread_cond_wait(&saver->change, &saver->lock);
        if (!saver->busy) break;
        pthread_mutex_unlock(&saver->lock);
        gp_error failure = {0};
        (void)write_snapshot(saver, NULL, &failure);
        drop_copy(saver);
        pthread_mutex_lock(&saver->lock);
        saver->failure = failure;
        saver->busy = false;
        pthread_cond_broadcast(&saver->change);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

static gp_status start(gp_saver *saver, gp_error *err) {
    int failed = gp_thread_start(&saver->thread, 0, work, saver);
    if (failed) return gp_fail(err, GP_MEMORY, "the saver's thread cannot be started: %s", strerror(failed));
    saver->started = true;
    return GP_OK;
}

/* Every page is touched now, so that no later step finds the memory gone. */
gp_status gp_saver_reserve(gp_saver *saver, gp_error *err) {
    size_t bytes = gp_run_largest_param(saver->layout.plan);
    void *buffer = NULL;
    char text[32];
    if (saver->buffer) return GP_OK;
    if (posix_memalign(&buffer, GP_ALIGNMENT, bytes ? bytes : GP_ALIGNMENT) != 0)
        return gp_fail(err, GP_MEMORY, "out of memory: %s to write the run's files from", gp_bytes_text(text, bytes));
    saver->buffer = memset(buffer, 0, bytes);
    return GP_OK;
}

/* Found out now, and not when hours of training are to be saved. */
static gp_status check_possible(gp_saver *saver, gp_error *err) {
    static const char *const metadata[] = {"format", "pt", "step, accuracy", "of 20 digits and of 20 digits at most",
                                           NULL};
    gp_saver_sizes *sizes = &saver->sizes;
    const gp_path path = gp_folder_file(saver->folder.text, "snapshots");
    gp_status status = gp_snapshot_can_be(path.text, saver->layout.items, (size_t)saver->layout.count, saver->config,
                                          &sizes->snapshot, err);
    if (status != GP_OK) return gp_error_context(err, "no snapshot of this run could be written: ");
    sizes->config = strlen(saver->config);
    return gp_safetensors_check("model.safetensors", saver->layout.items, (size_t)saver->layout.params, metadata,
                                &sizes->model, err);
}

gp_saver_sizes gp_saver_file_sizes(const gp_saver *saver) {
    return saver->sizes;
}

static gp_status prepare(gp_saver *saver, const gp_plan *plan, const char *folder, const char *config, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_state_layout_init(&saver->layout, plan, err));
    snprintf(saver->folder.text, sizeof saver->folder.text, "%s", folder);
    GP_RETURN_IF_FAILED(gp_copy_text(&saver->config, config, err));
    GP_RETURN_IF_FAILED(check_possible(saver, err));
    return start(saver, err);
}

gp_status gp_saver_create(const gp_plan *plan, const char *folder, const char *config, int64_t keep, gp_saver **out,
                          gp_error *err) {
    gp_saver *saver = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&saver, 1, err));
    saver->keep = keep;
    saver->begun = -1;
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->change, NULL);
    gp_status status = prepare(saver, plan, folder, config, err);
    if (status != GP_OK)
        gp_saver_destroy(&saver);
    else
        *out = saver;
    return status;
}

void gp_saver_destroy(gp_saver **saver) {
    gp_saver *it = *saver;
    if (!it) return;
    if (it->started) {
        pthread_mutex_lock(&it->lock);
        it->quit = true;
        pthread_cond_broadcast(&it->change);
        pthread_mutex_unlock(&it->lock);
        pthread_join(it->thread, NULL);
    }
    if (it->begun >= 0) gp_snapshot_remove_folder(it->folder.text, it->begun);
    pthread_cond_destroy(&it->change);
    pthread_mutex_destroy(&it->lock);
    gp_state_layout_fini(&it->layout);
    free(it->block);
    free(it->buffer);
    free(it->config);
    free(it);
    *saver = NULL;
}

static void wait_until_idle(gp_saver *saver) {
    pthread_mutex_lock(&saver->lock);
    while (saver->busy) pthread_cond_wait(&saver->change, &saver->lock);
    pthread_mutex_unlock(&saver->lock);
}

void gp_saver_move(gp_saver *saver, const gp_path *folder) {
    wait_until_idle(saver);
    saver->folder = *folder;
}

gp_status gp_saver_wait(gp_saver *saver, gp_error *err) {
    wait_until_idle(saver);
    return gp_saver_poll(saver, err);
}

gp_status gp_saver_poll(gp_saver *saver, gp_error *err) {
    pthread_mutex_lock(&saver->lock);
    gp_status status = saver->busy ? GP_OK : saver->failure.status;
    if (status != GP_OK && err) *err = saver->failure;
    if (status != GP_OK) saver->failure.status = GP_OK;
    pthread_mutex_unlock(&saver->lock);
    return status;
}

static gp_state_stream stream_of(gp_saver *saver, gp_run *run) {
    return (gp_state_stream){.run = run, .layout = &saver->layout, .buffer = saver->buffer};
}

/* The first `count` tensors must be finite before anything is written. */
static gp_status open_stream(gp_saver *saver, gp_run *run, int count, gp_state_stream *out, gp_error *err) {
    wait_until_idle(saver);
    assert(!saver->block); /* the stream moves the places that gp_saver_give reads from */
    GP_RETURN_IF_FAILED(gp_saver_reserve(saver, err));
    *out = stream_of(saver, run);
    return gp_state_stream_check(out, count, err);
}

gp_status gp_saver_check(gp_saver *saver, gp_run *run, gp_error *err) {
    gp_state_stream stream;
    return open_stream(saver, run, saver->layout.count, &stream, err);
}

gp_status gp_saver_take(gp_saver *saver, gp_run *run, gp_error *err) {
    char text[32];
    bool taken;
    wait_until_idle(saver);
    GP_RETURN_IF_FAILED(take_copy(saver, run, &taken, err));
    if (taken) return GP_OK;
    return gp_fail(err, GP_MEMORY, "out of memory: %s for a copy of the run's state",
                   gp_bytes_text(text, saver->layout.bytes));
}

/* Writes in the calling thread. A failure of the run is returned; one of the file is kept for gp_saver_wait. */
static gp_status write_now(gp_saver *saver, gp_run *run, gp_error *err) {
    gp_state_stream stream;
    gp_error failure = {0};
    GP_RETURN_IF_FAILED(open_stream(saver, run, saver->layout.count, &stream, err));
    const gp_safetensors_source source = gp_state_stream_source(&stream);
    gp_status status = write_snapshot(saver, &source, &failure);
    if (status != GP_OK && stream.failed) {
        if (err) *err = failure;
        return status;
    }
    pthread_mutex_lock(&saver->lock);
    saver->failure = failure;
    pthread_mutex_unlock(&saver->lock);
    return GP_OK;
}

void gp_saver_share(gp_saver *saver, bool shared) {
    saver->shared = shared;
}

/* Each process its part. *ran: the failure is not the run's. */
static gp_status write_all_parts(gp_saver *saver, gp_run *run, bool *ran, gp_error *err) {
    const gp_plan *plan = saver->layout.plan;
    int64_t step = saver->reached.step;
    gp_error failure = {0};
    *ran = false;
    if (gp_cancelled(gp_run_cancel(run))) return gp_cancel_cause(gp_run_cancel(run), err);
    *ran = true;
    GP_RETURN_IF_FAILED(prepare_folder(saver, err));
    GP_RETURN_IF_FAILED(gp_parts_begin(saver->folder.text, step, err));
    saver->begun = step;
    *ran = false;
    GP_RETURN_IF_FAILED(gp_run_ask(run, GP_ASK_SAVE, step, err));
    gp_status status = gp_part_write(run, plan, saver->folder.text, step, &saver->reached, saver->config, ran, err);
    if (status != GP_OK && !*ran) return status;
    *ran = false;
    if (gp_run_answers(run, &failure, status == GP_OK ? err : NULL) != GP_OK) return GP_CANCELLED;
    *ran = true;
    if (status == GP_OK && failure.status != GP_OK) {
        *err = failure;
        status = failure.status;
    }
    if (status == GP_OK) status = gp_parts_end(plan, saver->folder.text, step, err);
    if (status != GP_OK) gp_snapshot_remove_folder(saver->folder.text, step);
    saver->begun = -1;
    if (status != GP_OK) return status;
    unlink(gp_snapshot_file(saver->folder.text, step).text);
    remove_old(saver, step, true);
    return GP_OK;
}

/* A value that is not finite ends the run, as in any snapshot; another failure of a file does not. */
static gp_status write_parts(gp_saver *saver, gp_run *run, gp_error *err) {
    gp_error failure = {0};
    bool ran = false;
    gp_status status = write_all_parts(saver, run, &ran, &failure);
    if (status != GP_OK && (!ran || status == GP_NUMERIC)) {
        if (err) *err = failure;
        return status;
    }
    pthread_mutex_lock(&saver->lock);
    saver->failure = failure;
    pthread_mutex_unlock(&saver->lock);
    return GP_OK;
}

gp_status gp_saver_snapshot(gp_saver *saver, gp_run *run, const gp_reached *reached, bool beside, gp_error *err) {
    bool taken = false;
    wait_until_idle(saver);
    saver->reached = *reached;
    if (saver->shared) return write_parts(saver, run, err);
    if (beside) GP_RETURN_IF_FAILED(take_copy(saver, run, &taken, err));
    if (!taken) return write_now(saver, run, err);
    pthread_mutex_lock(&saver->lock);
    saver->busy = true;
    pthread_cond_broadcast(&saver->change);
    pthread_mutex_unlock(&saver->lock);
    return GP_OK;
}

static void *find_copied(const gp_saver *saver, const char *name) {
    for (int i = 0; i < saver->layout.count; i++)
        if (strcmp(saver->layout.items[i].name, name) == 0) return saver->layout.copies[i].host;
    return NULL;
}

gp_status gp_saver_give(const gp_saver *saver, gp_run *run, const gp_plan *plan, gp_error *err) {
    gp_state_layout to;
    int count = 0;
    assert(saver->block);
    GP_RETURN_IF_FAILED(gp_state_layout_init(&to, plan, err));
    for (int i = 0; i < to.count; i++) {
        void *copied = find_copied(saver, to.items[i].name);
        if (copied) to.copies[count++] = (gp_tensor_copy){to.copies[i].param, to.copies[i].state, copied};
    }
    gp_status status = gp_run_write(run, to.copies, count, err);
    gp_state_layout_fini(&to);
    return status == GP_OK ? gp_run_refresh(run, err) : status;
}

static size_t tensor_bytes(const gp_safetensors *file, size_t index) {
    const gp_safetensor *tensor = gp_safetensors_at(file, index);
    return (size_t)(tensor->end - tensor->begin);
}

/* A file as a source of tensors. */
typedef struct old_file {
    const gp_safetensors *file;
    char *buffer; /* the saver's: the largest parameter */
} old_file;

static gp_status read_old(void *context, size_t index, const void **data, gp_error *err) {
    const old_file *its = context;
    *data = its->buffer;
    return gp_safetensors_read(its->file, gp_safetensors_at(its->file, index), 0, tensor_bytes(its->file, index),
                               its->buffer, err);
}

static void describe_items(const gp_safetensors *file, gp_safetensors_item *items) {
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        const gp_safetensor *tensor = gp_safetensors_at(file, i);
        items[i] = (gp_safetensors_item){.name = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank};
        memcpy(items[i].dim, tensor->dim, sizeof items[i].dim);
    }
}

/* A state of an optimizer that the run does not have any more was never compared with the plan. */
static gp_status check_sizes(const gp_safetensors *file, size_t room, gp_error *err) {
    for (size_t i = 0; i < gp_safetensors_count(file); i++)
        if (tensor_bytes(file, i) > room)
            return gp_fail(err, GP_DATA, "tensor \"%s\" of the snapshot is larger than every parameter of the model",
                           gp_safetensors_at(file, i)->name);
    return GP_OK;
}

gp_status gp_saver_rewrite(gp_saver *saver, const gp_safetensors *file, const gp_reached *reached, gp_error *err) {
    size_t count = gp_safetensors_count(file);
    gp_safetensors_item *items = NULL;
    wait_until_idle(saver);
    GP_RETURN_IF_FAILED(check_sizes(file, gp_run_largest_param(saver->layout.plan), err));
    GP_RETURN_IF_FAILED(gp_saver_reserve(saver, err));
    GP_RETURN_IF_FAILED(GP_NEW(&items, count, err));
    old_file old = {file, saver->buffer};
    const gp_safetensors_source source = {read_old, &old};
    describe_items(file, items);
    gp_status status = write_items(saver, items, count, &source, reached, err);
    free(items);
    return status;
}

gp_status gp_saver_model(gp_saver *saver, gp_run *run, const char *name, const char *const *metadata, gp_error *err) {
    const gp_path path = gp_folder_file(saver->folder.text, name);
    gp_state_stream stream;
    wait_until_idle(saver);
    GP_RETURN_IF_FAILED(check_entry(saver, name, err));
    GP_RETURN_IF_FAILED(open_stream(saver, run, saver->layout.params, &stream, err));
    const gp_safetensors_source source = gp_state_stream_source(&stream);
    return gp_safetensors_write_summed_from(path.text, saver->layout.items, (size_t)saver->layout.params, metadata,
                                            &source, err);
}
