#include "store/disk.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/memory.h"
#include "base/replace.h"
#include "store/folder.h"
#include "store/snapshot.h"

enum { SIZE_TEXT = 32, ADVICE_TEXT = 160 };

/* Snapshots that stand at one time. */
static int64_t at_once(const gp_disk_use *use) {
    return use->keep < use->snapshots ? use->keep + 1 : use->snapshots;
}

uint64_t gp_disk_needed(const gp_disk_use *use) {
    uint64_t models = gp_size_times(use->model, use->best ? 2 : 1);
    return gp_size_plus(gp_size_plus(models, gp_size_plus(use->config, use->plan)),
                        gp_size_times(use->snapshot, (uint64_t)at_once(use)));
}

uint64_t gp_disk_free(const char *folder) {
    struct statvfs about;
    if (statvfs(folder, &about) != 0 || about.f_blocks == 0) return UINT64_MAX;
    return gp_size_times(about.f_bavail, about.f_frsize);
}

static uint64_t held_by(const char *path, const char *init) {
    enum { BLOCK = 512 }; /* unit of st_blocks */
    struct stat about;
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_nlink != 1) return 0;
    return init && gp_file_is(path, init) ? 0 : gp_size_times((uint64_t)about.st_blocks, BLOCK);
}

/* The parts of a snapshot of several processes. */
static uint64_t held_within(const char *folder, const char *init) {
    uint64_t sum = 0;
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL)
        sum = gp_size_plus(sum, held_by(gp_folder_file(folder, entry->d_name).text, init));
    if (entries) closedir(entries);
    return sum;
}

uint64_t gp_disk_held(const char *folder, const char *init) {
    static const char *const names[] = {"model.safetensors", "best.safetensors", "config.yaml", "plan.json"};
    uint64_t sum = 0;
    int64_t *steps = NULL;
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        sum = gp_size_plus(sum, held_by(gp_folder_file(folder, names[i]).text, init));
    if (gp_snapshot_list(folder, &steps, &count, NULL) != GP_OK) return sum;
    for (int i = 0; i < count; i++) {
        const gp_path path = gp_snapshot_path(folder, steps[i]);
        sum = gp_size_plus(sum, held_by(path.text, init));
        if (strcmp(path.text, gp_snapshot_folder(folder, steps[i]).text) == 0)
            sum = gp_size_plus(sum, held_within(path.text, init));
    }
    free(steps);
    return sum;
}

/* The setting that makes the run fit; "": none does. */
static void find_advice(const gp_disk_use *use, uint64_t room, char text[ADVICE_TEXT]) {
    gp_disk_use less = *use;
    text[0] = '\0';
    less.snapshots = 0;
    uint64_t others = gp_disk_needed(&less);
    uint64_t fitting = others < room && use->snapshot > 0 ? (room - others) / use->snapshot : 0;
    if (fitting > 1 && fitting < (uint64_t)at_once(use)) /* one of them while it is written */
        snprintf(text, ADVICE_TEXT, ", or set train.keep to %" PRIu64, fitting - 1);
    else if (fitting == 1 && use->saves_by_time)
        snprintf(text, ADVICE_TEXT, ", or set train.save_every to never (Ctrl-C still writes a snapshot)");
}

static void describe_snapshots(const gp_disk_use *use, char *text, size_t bytes) {
    char size[SIZE_TEXT];
    int64_t count = at_once(use);
    if (count == 0) return;
    gp_bytes_text(size, use->snapshot);
    if (count == 1)
        snprintf(text, bytes, ", one snapshot %s", size);
    else
        snprintf(text, bytes, ", %" PRId64 " snapshots of %s (train.keep: %" PRId64 ")", count, size, use->keep);
}

gp_status gp_disk_check(const gp_disk_use *use, const char *folder, uint64_t free, uint64_t held, gp_error *err) {
    uint64_t room = gp_size_plus(free, held), needed = gp_disk_needed(use);
    char need[SIZE_TEXT], there[SIZE_TEXT], model[SIZE_TEXT], old[SIZE_TEXT], missing[SIZE_TEXT];
    char snapshots[ADVICE_TEXT] = "", advice[ADVICE_TEXT], holds[ADVICE_TEXT] = "";
    if (needed <= room) return GP_OK;
    gp_bytes_text(model, use->model);
    describe_snapshots(use, snapshots, sizeof snapshots);
    find_advice(use, room, advice);
    if (held) snprintf(holds, sizeof holds, ", and the run's old files there take %s", gp_bytes_text(old, held));
    return gp_fail(err, GP_IO,
                   "%s: the run needs up to %s of disk space, but its file system has %s free%s (model.safetensors "
                   "%s%s%s%s): free %s, choose a folder on another file system with -o%s",
                   folder, gp_bytes_text(need, needed), gp_bytes_text(there, free), holds, model,
                   use->best ? ", best.safetensors " : "", use->best ? model : "", snapshots,
                   gp_bytes_text(missing, needed - room), advice);
}
