/* Replicas that compute a pass together (gp_stage.group): it begins on all of them when all can begin it. */
#include "schedule/play_internal.h"

/* Replicas of a group that have samples of the micro-batch. */
static int count_members(const gp_player *p, int first, int micro) {
    int count = 0;
    for (int s = first; s < first + p->stages->stage[first].group; s++)
        count += gp_micros_have(gp_micros_of_stage(gp_programs_pieces(p->programs), &p->stages->stage[s]), micro);
    return count;
}

static void let_go(gp_player *p, size_t which, double time) {
    int first = (int)(which / 2);
    for (int s = first; s < first + p->stages->stage[first].group; s++) {
        int worker = p->programs->worker_of_stage[s];
        for (int i = p->first[worker]; i < p->first[worker + 1]; i++) {
            gp_agent *other = &p->agents[i];
            if (other->sleeps != GP_IN_GROUP || other->until != which) continue;
            other->joined = true;
            other->clock = time;
            gp_player_wake(p, i);
        }
    }
}

/* Only the last micro-batch can have other replicas than the rest: those of the rest may wait while others compute the
 * last one. */
bool gp_player_join_group(gp_player *p, gp_agent *a, double *time) {
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[a->pc];
    if (!p->programs->training || !gp_instr_is_joint(p->stages, instr)) return true;
    int first = gp_stages_group(p->stages, instr->stage);
    size_t which = 2 * (size_t)first + (instr->micro == p->programs->pieces - 1);
    gp_play_group *its = &p->groups[which];
    if (a->joined) {
        a->joined = false;
        return true;
    }
    if (its->arrived == 0 || *time > its->time) its->time = *time;
    if (++its->arrived < count_members(p, first, instr->micro)) {
        a->sleeps = GP_IN_GROUP;
        a->until = which;
        return false;
    }
    its->arrived = 0;
    *time = its->time;
    let_go(p, which, its->time);
    return true;
}
