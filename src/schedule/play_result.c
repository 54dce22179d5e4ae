/* The beginning and the end of a play, and its longest span. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schedule/play.h"

static gp_status begin_worker(gp_play_worker *its, size_t count, bool timeline, bool issued, gp_error *err) {
    its->first = INFINITY;
    if (timeline) GP_RETURN_IF_FAILED(GP_NEW(&its->start, count, err));
    if (timeline) GP_RETURN_IF_FAILED(GP_NEW(&its->end, count, err));
    if (timeline && issued) GP_RETURN_IF_FAILED(GP_NEW(&its->issued, count, err));
    return timeline && issued ? GP_NEW(&its->after, count, err) : GP_OK;
}

gp_status gp_play_begin(const gp_programs *programs, bool timeline, bool issued, gp_play **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&(*out)->worker, programs->workers, err));
    (*out)->workers = programs->workers;
    for (int w = 0; w < programs->workers; w++)
        GP_RETURN_IF_FAILED(begin_worker(&(*out)->worker[w], programs->worker[w].count, timeline, issued, err));
    return GP_OK;
}

gp_status gp_play_end(gp_play **play, gp_status status, gp_play **out) {
    if (status != GP_OK) {
        gp_play_destroy(play);
        return status;
    }
    for (int w = 0; w < (*play)->workers; w++)
        if ((*play)->worker[w].first > (*play)->worker[w].last) (*play)->worker[w].first = 0;
    *out = *play;
    return GP_OK;
}

void gp_play_destroy(gp_play **play) {
    gp_play *it = *play;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) {
        free(it->worker[w].start);
        free(it->worker[w].end);
        free(it->worker[w].issued);
        free(it->worker[w].after);
    }
    free(it->worker);
    free(it->arrived);
    free(it);
    *play = NULL;
}

gp_play_span gp_play_longest(const gp_play *play) {
    gp_play_span longest = {0, -1, 0};
    for (int w = 0; w < play->workers; w++) {
        double seconds = play->worker[w].last - play->worker[w].first;
        if (seconds > longest.seconds) longest = (gp_play_span){w, seconds, 0};
    }
    if (longest.seconds > 0) longest.bubble = (longest.seconds - play->worker[longest.worker].busy) / longest.seconds;
    return longest;
}

double gp_play_bubble(const gp_play *play) {
    double busy = 0;
    for (int w = 0; w < play->workers; w++) busy += play->worker[w].busy;
    return play->length > 0 ? 1 - busy / (play->length * play->workers) : 0;
}
