/* Buckets of gradients that are added up within a backward (gp_early_sum). The player comes to their instructions after
 * the backward, and finds when their sums would have been posted: as soon as all parts are there, one bucket after
 * another. The time of the additions stands after the backward; that changes no end. */
#include "schedule/play_internal.h"

/* When all parts of a bucket were there, the own one too; the agent has waited for them. */
static double parts_there(gp_player *p, gp_agent *a, const gp_instr *collect) {
    const gp_wait own = {collect->collective, collect->stage, GP_WAIT_POSTED};
    double time = p->when[gp_player_number(p, &own)];
    (void)gp_player_waits_over(p, a, &time);
    return time;
}

double gp_player_posted(gp_player *p, gp_agent *a, const gp_instr *instr, double start, double end) {
    const gp_worker_posts *early = p->request.early ? &p->request.early[a->worker] : NULL;
    if (!early || !p->messages.links || p->shares || a->queue >= 0 || !gp_instr_has_collective(instr)) return end;
    for (size_t i = 0; i < early->sum_count; i++) {
        const gp_early_sum *its = &early->sums[i];
        if (a->pc == its->collect) {
            double there = parts_there(p, a, instr);
            if (there > a->summed) a->summed = there;
        } else if (a->pc == its->reduce) {
            a->summed += end - start;
        } else if (its->post > 0 && a->pc == its->post) {
            return a->summed < end ? a->summed : end;
        }
    }
    return end;
}
