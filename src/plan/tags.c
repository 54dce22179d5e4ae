#include "plan/tags.h"

#include "plan/lines.h"

int gp_tags_micros(const gp_plan *plan) {
    int most = 1;
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].pieces > most) most = plan->minis[m].pieces;
    return most;
}

uint32_t gp_tag_of_edge(const gp_plan *plan, uint32_t edge, uint16_t micro) {
    return edge * (uint32_t)gp_tags_micros(plan) + micro;
}

uint32_t gp_tag_of_collective(const gp_plan *plan, size_t collective) {
    size_t tag = plan->stages->edge_count * (size_t)gp_tags_micros(plan);
    for (size_t c = 0; c < collective; c++) {
        const gp_collective *its = &plan->stages->collectives[c];
        if (its->transport != GP_TRANSPORT_THREADS) tag += its->contributors.count * its->collectors.count;
    }
    return tag < UINT32_MAX / 2 ? (uint32_t)tag : UINT32_MAX / 2;
}

bool gp_tags_has_exchange(const gp_plan *plan, int stage) {
    int first = gp_stages_group(plan->stages, stage);
    for (int s = first; s < first + plan->stages->stage[stage].group; s++)
        if (plan->process[plan->stage[s].worker] != plan->process[plan->stage[stage].worker])
            return !gp_plan_has_line(plan, s, stage);
    return false;
}

uint32_t gp_tag_of_exchange(const gp_plan *plan, int stage) {
    uint32_t tag = gp_tag_of_collective(plan, plan->stages->collective_count);
    for (int s = 0; s < stage; s++)
        if (gp_tags_has_exchange(plan, s)) tag += (uint32_t)plan->stages->stage[s].group;
    return tag;
}

uint32_t gp_tag_of_line(const gp_plan *plan, uint32_t number) {
    return gp_tag_of_exchange(plan, plan->stages->count) + number;
}

uint32_t gp_tags_end(const gp_plan *plan) {
    return gp_tag_of_line(plan, gp_lines_numbers(plan));
}
