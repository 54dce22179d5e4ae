#include "train/tracing_data.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT = 128, SHORT_WAIT = 1000 /* nanoseconds: a mini-batch that is there is taken in less */ };

void gp_tracing_data_stop(const gp_tracing_data *data) {
    if (data->training) gp_loader_record(data->training, false);
    if (data->evaluation) gp_loader_record(data->evaluation, false);
}

/* ---- the first time ---------------------------------------------------------------------------------------------- */

static uint64_t first_read(const gp_loader *loader) {
    uint64_t first = UINT64_MAX;
    for (int i = 0; loader && i < gp_loader_threads(loader); i++) {
        size_t count;
        const gp_loader_span *spans = gp_loader_spans(loader, i, &count);
        if (count > 0 && spans[0].started < first) first = spans[0].started;
    }
    return first;
}

uint64_t gp_tracing_data_first(const gp_tracing_data *data) {
    uint64_t first = data->waits->count > 0 ? data->waits->spans[0].issued : UINT64_MAX;
    uint64_t training = first_read(data->training), evaluation = first_read(data->evaluation);
    if (training < first) first = training;
    return evaluation < first ? evaluation : first;
}

/* ---- the tracks -------------------------------------------------------------------------------------------------- */

static void write_waits(const gp_tracing_data *data, int track, gp_chrome *chrome) {
    gp_chrome_name_track(chrome, track, "pipeline: waits for data");
    for (size_t i = 0; i < data->waits->count; i++) {
        const gp_span *span = &data->waits->spans[i];
        char args[TEXT];
        if (span->ended - span->issued <= SHORT_WAIT) continue;
        snprintf(args, sizeof args, "\"step\":%" PRIu32 ",\"pass\":\"%s\"", span->step,
                 span->group ? "training" : "evaluation");
        gp_chrome_span(chrome, track, "wait", "wait for data", span->issued, span->ended, args);
    }
}

static void write_span(const gp_loader_span *span, const char *pass, int track, gp_chrome *chrome) {
    char name[TEXT], args[TEXT];
    snprintf(name, sizeof name, "read mini-batch %" PRId64, span->index + 1);
    snprintf(args, sizeof args, "\"pass\":\"%s\",\"epoch\":%" PRId64 ",\"mini_batch\":%" PRId64 ",\"samples\":%" PRId64,
             pass, span->epoch, span->index + 1, span->samples);
    gp_chrome_span(chrome, track, "data", name, span->started, span->ended, args);
}

/* The first track that is free afterwards. */
static int write_loader(const gp_loader *loader, const char *pass, int track, gp_chrome *chrome) {
    for (int i = 0; loader && i < gp_loader_threads(loader); i++) {
        char name[TEXT];
        size_t count;
        const gp_loader_span *spans = gp_loader_spans(loader, i, &count);
        if (gp_loader_threads(loader) == 1)
            snprintf(name, sizeof name, "loader (%s)", pass);
        else
            snprintf(name, sizeof name, "loader (%s), thread %d", pass, i);
        gp_chrome_name_track(chrome, track, name);
        for (size_t s = 0; s < count; s++) write_span(&spans[s], pass, track, chrome);
        track++;
    }
    return track;
}

void gp_tracing_data_write(const gp_tracing_data *data, int track, gp_chrome *chrome) {
    write_waits(data, track++, chrome);
    track = write_loader(data->training, "training", track, chrome);
    write_loader(data->evaluation, "evaluation", track, chrome);
}
