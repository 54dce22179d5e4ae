#include "trace/chrome.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_text.h"
#include "base/memory.h"
#include "base/replace.h"
#include "base/write_error.h"

struct gp_chrome {
    FILE *file;
    char *path;
    uint64_t origin;
    bool began; /* some event is written */
    bool data;  /* the events have ended, and otherData has begun */
};

static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

gp_status gp_chrome_open(const char *path, gp_chrome **out, gp_error *err) {
    gp_chrome *chrome = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&chrome, 1, err));
    gp_status status = gp_file_check_kind(path, head, "timeline", err);
    if (status == GP_OK) status = gp_copy_text(&chrome->path, path, err);
    if (status == GP_OK && !(chrome->file = fopen(path, "we")))
        status = gp_fail(err, GP_IO, "%s: cannot be written: %s", path, strerror(errno));
    if (status != GP_OK) {
        free(chrome->path);
        free(chrome);
        return status;
    }
    fputs(head, chrome->file);
    *out = chrome;
    return GP_OK;
}

gp_status gp_chrome_close(gp_chrome **chrome, gp_error *err) {
    gp_chrome *it = *chrome;
    if (!it) return GP_OK;
    gp_status status = GP_OK;
    char text[GP_WRITE_ERROR_TEXT];
    fputs(it->data ? "}}\n" : "\n]}\n", it->file);
    bool failed = ferror(it->file) != 0;
    if (fclose(it->file) != 0 || failed)
        status = gp_fail(err, GP_IO, "%s: cannot be written: %s", it->path,
                         errno ? gp_write_error(text, errno) : "it is cut off");
    free(it->path);
    free(it);
    *chrome = NULL;
    return status;
}

void gp_chrome_origin(gp_chrome *chrome, uint64_t origin) {
    chrome->origin = origin;
}

static void begin_event(gp_chrome *chrome, char phase, int track, const char *name) {
    fprintf(chrome->file, "%s\n{\"ph\":\"%c\",\"pid\":1,\"tid\":%d,\"name\":", chrome->began ? "," : "", phase, track);
    gp_json_text(chrome->file, name);
    chrome->began = true;
}

/* Microseconds with the nanoseconds behind the point: a double's printing would round them after some hours. */
static void write_time(gp_chrome *chrome, const char *key, uint64_t nanoseconds) {
    fprintf(chrome->file, ",\"%s\":%" PRIu64 ".%03u", key, nanoseconds / 1000, (unsigned)(nanoseconds % 1000));
}

void gp_chrome_name_process(gp_chrome *chrome, const char *name) {
    begin_event(chrome, 'M', 0, "process_name");
    fputs(",\"args\":{\"name\":", chrome->file);
    gp_json_text(chrome->file, name);
    fputs("}}", chrome->file);
}

void gp_chrome_name_track(gp_chrome *chrome, int track, int order, const char *name) {
    begin_event(chrome, 'M', track, "thread_name");
    fputs(",\"args\":{\"name\":", chrome->file);
    gp_json_text(chrome->file, name);
    fputs("}}", chrome->file);
    begin_event(chrome, 'M', track, "thread_sort_index");
    fprintf(chrome->file, ",\"args\":{\"sort_index\":%d}}", order);
}

void gp_chrome_span(gp_chrome *chrome, int track, const char *category, const char *name, uint64_t start, uint64_t end,
                    const char *args) {
    begin_event(chrome, 'X', track, name);
    fprintf(chrome->file, ",\"cat\":\"%s\"", category);
    write_time(chrome, "ts", start - chrome->origin);
    write_time(chrome, "dur", end - start);
    fprintf(chrome->file, ",\"args\":{%s}}", args);
}

void gp_chrome_arrow(gp_chrome *chrome, bool ends, int track, const char *name, uint64_t id, uint64_t time) {
    begin_event(chrome, ends ? 'f' : 's', track, name);
    fprintf(chrome->file, ",\"cat\":\"copy\",\"id\":%" PRIu64 "%s", id, ends ? ",\"bp\":\"e\"" : "");
    write_time(chrome, "ts", time - chrome->origin);
    fputs("}", chrome->file);
}

void gp_chrome_counter(gp_chrome *chrome, const char *name, const char *unit, uint64_t time, uint64_t value) {
    begin_event(chrome, 'C', 0, name);
    write_time(chrome, "ts", time - chrome->origin);
    fputs(",\"args\":{", chrome->file);
    gp_json_text(chrome->file, unit);
    fprintf(chrome->file, ":%" PRIu64 "}}", value);
}

FILE *gp_chrome_data(gp_chrome *chrome, const char *key) {
    fputs(chrome->data ? "," : "\n],\"otherData\":{", chrome->file);
    chrome->data = true;
    gp_json_text(chrome->file, key);
    fputs(":", chrome->file);
    return chrome->file;
}
