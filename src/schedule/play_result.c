#include <stdlib.h>

#include "schedule/play.h"

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
