#include "plan/loads.h"

static bool stage_loads(const gp_plan *plan, int process, int value, int stage) {
    const gp_stage *its = &plan->stages->stage[stage];
    bool loads = value == GP_VALUE_INPUT ? its->loads_input : its->loads_target;
    return loads && plan->process[plan->stage[stage].worker] == process;
}

bool gp_plan_loads(const gp_plan *plan, int process, int value) {
    for (int s = 0; s < plan->stages->count; s++)
        if (stage_loads(plan, process, value, s)) return true;
    return false;
}

bool gp_plan_loads_any(const gp_plan *plan, int process) {
    return gp_plan_loads(plan, process, GP_VALUE_INPUT) || gp_plan_loads(plan, process, GP_VALUE_TARGET);
}

/* The same within micro-batch `micro`. */
static gp_share load_of_micro(const gp_plan *plan, const gp_mini_plan *mini, int process, int value, int64_t from,
                              int micro) {
    gp_share first = {mini->samples, 0};
    const gp_share rest = {from, mini->samples - from};
    for (int s = 0; s < plan->stages->count; s++) {
        if (!stage_loads(plan, process, value, s)) continue;
        gp_share own = gp_share_common(gp_mini_share(mini, &plan->stages->stage[s], micro), rest);
        if (own.count > 0 && (first.count == 0 || own.first < first.first)) first = own;
    }
    return first;
}

gp_share gp_mini_loads(const gp_plan *plan, const gp_mini_plan *mini, int process, int value, int64_t from) {
    gp_share found = {mini->samples, 0};
    if (!gp_plan_loads(plan, process, value)) return found;
    for (int64_t micro = from / mini->piece; micro < mini->pieces && found.count == 0; micro++)
        found = load_of_micro(plan, mini, process, value, from, (int)micro);
    return found;
}
