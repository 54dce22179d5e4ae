#include "profile/cache.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"

/* ---- the machine ------------------------------------------------------------------------------------------------- */

enum { LINE = 256 };

/* What stands behind "<key>:" in a file of lines; false where it does not. */
static bool find_line(const char *path, const char *key, char out[LINE]) {
    char line[LINE];
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) != 0) continue;
        const char *at = line + length;
        while (isspace((unsigned char)*at)) at++;
        if (*at++ != ':') continue;
        while (isspace((unsigned char)*at)) at++;
        snprintf(out, LINE, "%.*s", (int)strcspn(at, "\n"), at);
        found = *out != '\0';
    }
    if (file) fclose(file);
    return found;
}

/* GPUs as their driver lists them, without waking one. */
static gp_status add_gpus(char **machine, gp_error *err) {
    static const char folder[] = "/proc/driver/nvidia/gpus";
    DIR *gpus = opendir(folder);
    gp_status status = GP_OK;
    const struct dirent *entry;
    while (gpus && status == GP_OK && (entry = readdir(gpus))) {
        char path[LINE + sizeof folder + sizeof "/information"], model[LINE], *longer = NULL;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.200s/information", folder, entry->d_name);
        if (!find_line(path, "Model", model)) continue;
        status = gp_format_text(&longer, err, "%s, %s", *machine, model);
        if (status != GP_OK) break;
        free(*machine);
        *machine = longer;
    }
    if (gpus) closedir(gpus);
    return status;
}

gp_status gp_cache_machine(char **out, gp_error *err) {
    char model[LINE];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (!find_line("/proc/cpuinfo", "model name", model)) snprintf(model, sizeof model, "unknown CPU");
    GP_RETURN_IF_FAILED(gp_format_text(out, err, "%s, %ld CPU%s", model, cpus, cpus == 1 ? "" : "s"));
    return add_gpus(out, err);
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

gp_status gp_cache_folder(char **out, gp_error *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *below = "";
    if (!cache || cache[0] != '/') {
        cache = getenv("HOME");
        below = "/.cache";
    }
    *out = NULL;
    return cache && cache[0] == '/' ? gp_format_text(out, err, "%s%s/gpipe", cache, below) : GP_OK;
}

/* Folders of the path, from the cache's on. */
static void make_folders(char *path) {
    char *cut[3], *last = path + strlen(path);
    for (int i = 0; i < 3; i++) {
        while (last > path && *--last != '/') continue;
        cut[i] = last;
    }
    for (int i = 2; i >= 0; i--) {
        *cut[i] = '\0';
        (void)mkdir(path, S_IRWXU);
        *cut[i] = '/';
    }
}

gp_status gp_cache_write(const char *path, const char *text, gp_error *err) {
    char *copy = NULL;
    GP_RETURN_IF_FAILED(gp_copy_text(&copy, path, err));
    make_folders(copy);
    free(copy);
    return gp_file_replace(path, text, err);
}
