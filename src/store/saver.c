#include "store/saver.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "base/sync.h"
#include "store/folder.h"

struct gp_saver {
    /* Constant once the thread runs. */
    gp_state_layout layout; /* with places in `block` */
    char *folder, *config;
    int64_t keep;
    gp_saver_sizes sizes;
    bool started;
    pthread_t thread;

    /* The thread's while `busy`, else the caller's. */
    char *block;
    gp_reached reached;

    pthread_mutex_t lock;
    pthread_cond_t change;
    bool busy, quit;  /* lock */
    gp_error failure; /* of the last snapshot, until somebody was told; lock */
};

/* Before anything is written: a link may have been put there since the run began. */
static gp_status check_entry(const gp_saver *saver, const char *name, gp_error *err) {
    gp_status status = gp_folder_check_entry(saver->folder, name, err);
    if (status != GP_USAGE) return status;
    if (err) err->status = GP_IO;
    return GP_IO;
}

/* The folder of snapshots, whose own entry is synced too. */
static gp_status make_folder(const gp_saver *saver, gp_error *err) {
    const gp_path path = gp_folder_file(saver->folder, "snapshots");
    if (mkdir(path.text, 0777) == 0) return gp_file_sync(saver->folder, err);
    return errno == EEXIST ? GP_OK : gp_fail(err, GP_IO, "%s: cannot be made: %s", path.text, strerror(errno));
}

/* A snapshot says how far metrics.jsonl was. Where somebody took the file away, resuming says so. */
static gp_status sync_metrics(const gp_saver *saver, gp_error *err) {
    const gp_path path = gp_folder_file(saver->folder, "metrics.jsonl");
    return access(path.text, F_OK) == 0 ? gp_file_sync(path.text, err) : GP_OK;
}

/* What cannot be listed or removed stays: there is only too much of it. `later`: those of later steps go too. */
static void remove_old(const gp_saver *saver, int64_t newest, bool later) {
    int64_t *steps = NULL, kept = 0;
    int count = 0;
    if (gp_snapshot_list(saver->folder, &steps, &count, NULL) != GP_OK) return;
    for (int i = 0; i < count; i++)
        if (steps[i] > newest ? later : kept++ >= saver->keep) unlink(gp_snapshot_path(saver->folder, steps[i]).text);
    free(steps);
}

void gp_saver_tidy(gp_saver *saver, int64_t newest) {
    remove_old(saver, newest, false);
}

static gp_status write_items(const gp_saver *saver, const gp_safetensors_item *items, size_t count,
                             const gp_reached *reached, gp_error *err) {
    const gp_path path = gp_snapshot_path(saver->folder, reached->step);
    GP_RETURN_IF_FAILED(check_entry(saver, "snapshots", err));
    GP_RETURN_IF_FAILED(make_folder(saver, err));
    GP_RETURN_IF_FAILED(sync_metrics(saver, err));
    return gp_snapshot_write(path.text, items, count, reached, saver->config, err);
}

static gp_status write_snapshot(const gp_saver *saver, gp_error *err) {
    GP_RETURN_IF_FAILED(write_items(saver, saver->layout.items, (size_t)saver->layout.count, &saver->reached, err));
    remove_old(saver, saver->reached.step, true);
    return GP_OK;
}

static void *work(void *argument) {
    gp_saver *saver = argument;
    pthread_mutex_lock(&saver->lock);
    for (;;) {
        while (!saver->busy && !saver->quit) pthread_cond_wait(&saver->change, &saver->lock);
        if (!saver->busy) break;
        pthread_mutex_unlock(&saver->lock);
        gp_error failure = {0};
        (void)write_snapshot(saver, &failure);
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
static gp_status reserve(gp_saver *saver, gp_error *err) {
    size_t bytes = saver->layout.bytes ? saver->layout.bytes : GP_ALIGNMENT;
    void *block = NULL;
    char text[32];
    if (posix_memalign(&block, GP_ALIGNMENT, bytes) != 0)
        return gp_fail(err, GP_MEMORY, "out of memory: %s for copies of the run's state", gp_bytes_text(text, bytes));
    saver->block = memset(block, 0, bytes);
    return GP_OK;
}

/* Found out now, and not when hours of training are to be saved. */
static gp_status check_possible(gp_saver *saver, gp_error *err) {
    static const char *const metadata[] = {"format", "pt", "step, accuracy", "of 20 digits and of 20 digits at most",
                                           NULL};
    gp_saver_sizes *sizes = &saver->sizes;
    const gp_path path = gp_folder_file(saver->folder, "snapshots");
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
    GP_RETURN_IF_FAILED(gp_copy_text(&saver->folder, folder, err));
    GP_RETURN_IF_FAILED(gp_copy_text(&saver->config, config, err));
    GP_RETURN_IF_FAILED(reserve(saver, err));
    gp_state_layout_place(&saver->layout, saver->block);
    GP_RETURN_IF_FAILED(check_possible(saver, err));
    return start(saver, err);
}

gp_status gp_saver_create(const gp_plan *plan, const char *folder, const char *config, int64_t keep, gp_saver **out,
                          gp_error *err) {
    gp_saver *saver = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&saver, 1, err));
    saver->keep = keep;
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
    pthread_cond_destroy(&it->change);
    pthread_mutex_destroy(&it->lock);
    gp_state_layout_fini(&it->layout);
    free(it->block);
    free(it->folder);
    free(it->config);
    free(it);
    *saver = NULL;
}

static void wait_until_idle(gp_saver *saver) {
    pthread_mutex_lock(&saver->lock);
    while (saver->busy) pthread_cond_wait(&saver->change, &saver->lock);
    pthread_mutex_unlock(&saver->lock);
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

/* Into the block, the first `count` of them. They must be finite. */
static gp_status copy_tensors(gp_saver *saver, gp_run *run, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_run_read(run, saver->layout.copies, count, err));
    return gp_state_check_finite(&saver->layout, count, err);
}

gp_status gp_saver_check(gp_saver *saver, gp_run *run, gp_error *err) {
    wait_until_idle(saver);
    return copy_tensors(saver, run, saver->layout.count, err);
}

gp_status gp_saver_snapshot(gp_saver *saver, gp_run *run, const gp_reached *reached, gp_error *err) {
    wait_until_idle(saver);
    GP_RETURN_IF_FAILED(copy_tensors(saver, run, saver->layout.count, err));
    saver->reached = *reached;
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

static gp_status read_item(const gp_safetensors *file, size_t index, char *to, gp_safetensors_item *item,
                           gp_error *err) {
    const gp_safetensor *tensor = gp_safetensors_at(file, index);
    *item = (gp_safetensors_item){.name = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank, .data = to};
    memcpy(item->dim, tensor->dim, sizeof item->dim);
    return gp_safetensors_read(file, tensor, 0, tensor_bytes(file, index), to, err);
}

/* The block of copies is large enough, unless the run drops states of the optimizer now. */
gp_status gp_saver_rewrite(gp_saver *saver, const gp_safetensors *file, const gp_reached *reached, gp_error *err) {
    size_t count = gp_safetensors_count(file), bytes = 0;
    gp_safetensors_item *items = NULL;
    char *own = NULL;
    wait_until_idle(saver);
    for (size_t i = 0; i < count; i++) bytes += tensor_bytes(file, i);
    gp_status status = GP_NEW(&items, count, err);
    if (status == GP_OK && bytes > saver->layout.bytes) status = GP_NEW(&own, bytes, err);
    char *to = own ? own : saver->block;
    for (size_t i = 0; i < count && status == GP_OK; to += tensor_bytes(file, i++))
        status = read_item(file, i, to, &items[i], err);
    if (status == GP_OK) status = write_items(saver, items, count, reached, err);
    free(own);
    free(items);
    return status;
}

gp_status gp_saver_model(gp_saver *saver, gp_run *run, const char *name, const char *const *metadata, gp_error *err) {
    const gp_path path = gp_folder_file(saver->folder, name);
    wait_until_idle(saver);
    GP_RETURN_IF_FAILED(check_entry(saver, name, err));
    GP_RETURN_IF_FAILED(copy_tensors(saver, run, saver->layout.params, err));
    return gp_safetensors_write(path.text, saver->layout.items, (size_t)saver->layout.params, metadata, err);
}
