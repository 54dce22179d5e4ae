/* Questions about a plan that other files ask. */
#include <stdio.h>

#include "layers/layer.h"
#include "plan/plan.h"
#include "plan/program_index.h"

int64_t gp_mini_samples(const gp_mini_plan *mini, int micro) {
    return micro == mini->pieces - 1 ? mini->last : mini->piece;
}

gp_share gp_mini_share(const gp_mini_plan *mini, const gp_stage *stage, int micro) {
    gp_share share = gp_share_of(gp_mini_samples(mini, micro), stage->replicas, stage->replica);
    return (gp_share){share.first + mini->piece * micro, share.count};
}

const gp_sized *gp_mini_sized(const gp_mini_plan *mini, const gp_stage_plan *stage, int micro) {
    return &stage->sized[micro == mini->pieces - 1 ? mini->last_sized : mini->piece_sized];
}

int gp_plan_find(const gp_plan *plan, bool training, int64_t samples) {
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].training == training && plan->minis[m].samples == samples) return m;
    return -1;
}

int gp_plan_largest_mini(const gp_plan *plan) {
    int best = 0;
    for (int m = 1; m < plan->mini_count; m++) {
        const gp_mini_plan *is = &plan->minis[m], *was = &plan->minis[best];
        if (is->training != was->training ? is->training : is->samples > was->samples) best = m;
    }
    return best;
}

static int64_t samples_of_group(int64_t piece, const gp_stage *stage, int size) {
    int64_t samples = 0;
    int first = stage->replica - stage->replica % size;
    for (int r = first; r < first + size; r++) samples += gp_share_of(piece, stage->replicas, r).count;
    return samples;
}

/* A replica without samples of a micro-batch has no statistics of it. */
static void add_norm(const gp_mini_plan *mini, const gp_stage *stage, const gp_layer *layer, gp_norm_samples *to) {
    const int64_t pieces[2] = {mini->piece, mini->last};
    for (int i = mini->pieces > 1 ? 0 : 1; i < 2; i++) {
        int64_t samples = samples_of_group(pieces[i], stage, gp_layer_group(layer, stage->replicas));
        if (samples == 0) continue;
        if (to->least == 0 || samples < to->least) to->least = samples;
        if (samples > to->most) to->most = samples;
        if (to->joined == 0 || pieces[i] < to->joined) to->joined = pieces[i];
    }
}

gp_norm_samples gp_plan_norm_samples(const gp_plan *plan) {
    const gp_mini_plan *mini = &plan->minis[gp_plan_largest_mini(plan)];
    gp_norm_samples found = {0};
    for (int s = 0; s < plan->stages->count && mini->training; s++) {
        const gp_stage *stage = &plan->stages->stage[s];
        for (int n = stage->first_node; n < stage->first_node + stage->node_count; n++) {
            const gp_layer *layer = plan->graph->nodes[n].layer;
            if (layer->type->batch_statistics && !layer->frozen) add_norm(mini, stage, layer, &found);
        }
    }
    return found;
}

int gp_plan_processes(const gp_plan *plan) {
    return plan->links ? plan->links->processes : plan->processes;
}

int gp_plan_process_of(const gp_plan *plan, int worker) {
    return plan->links ? plan->links->process[worker] : plan->process[worker];
}

static int threads_of(const gp_plan *plan, int worker) {
    const gp_device_spec *device = &plan->devices[worker];
    return !device->kind->on_host ? 0 : device->threads > 1 ? device->threads : 1;
}

int gp_plan_threads(const gp_plan *plan) {
    int threads = 0;
    for (int w = 0; w < plan->workers; w++) threads += threads_of(plan, w);
    return threads;
}

/* Processes stand in the order of their hosts, but workers need not. */
int gp_plan_host_threads(const gp_plan *plan) {
    int most = 0;
    if (!plan->links || plan->links->hosts == 1) return gp_plan_threads(plan);
    for (int host = 0; host < plan->links->hosts; host++) {
        int threads = 0;
        for (int w = 0; w < plan->workers; w++)
            if (plan->links->host[w] == host) threads += threads_of(plan, w);
        if (threads > most) most = threads;
    }
    return most;
}

bool gp_plan_shares(const gp_plan *plan) {
    return plan->processors > 0 && gp_plan_host_threads(plan) > plan->processors;
}

bool gp_plan_works_on(const gp_plan *plan) {
    for (int w = 0; w < plan->workers; w++)
        if (plan->devices[w].kind->stream_turn) return true;
    return false;
}

bool gp_plan_has_queues(const gp_plan *plan) {
    for (int w = 0; w < plan->workers; w++)
        if (!plan->devices[w].kind->on_host) return true;
    return gp_plan_works_on(plan);
}

static bool has_programs(const gp_plan *plan, const gp_mini_plan *mini) {
    return gp_schedule_has_programs(&plan->schedule, mini->training, mini->pieces);
}

bool gp_plan_has_programs(const gp_plan *plan) {
    for (int m = 0; m < plan->mini_count; m++)
        if (has_programs(plan, &plan->minis[m])) return true;
    return false;
}

bool gp_plan_has_barriers(const gp_plan *plan) {
    for (int m = 0; m < plan->mini_count; m++)
        if (has_programs(plan, &plan->minis[m]) &&
            gp_program_count(&plan->minis[m].programs->worker[0], GP_INSTR_BARRIER) > 0)
            return true;
    return plan->lockstep;
}

const char *gp_plan_checkpoint_text(char buffer[GP_PLAN_CHECKPOINT_TEXT], const gp_plan *plan) {
    char text[GP_CHECKPOINT_TEXT];
    bool others = false;
    gp_checkpoint_text(text, plan->checkpoints, plan->stages->numbers);
    for (int m = 0; m < plan->mini_count; m++)
        others = others || (plan->minis[m].training && !has_programs(plan, &plan->minis[m]));
    if (!gp_plan_has_programs(plan))
        snprintf(buffer, GP_PLAN_CHECKPOINT_TEXT, "%s", text);
    else if (others)
        snprintf(buffer, GP_PLAN_CHECKPOINT_TEXT, "as the file says, for other mini-batches %s", text);
    else
        snprintf(buffer, GP_PLAN_CHECKPOINT_TEXT, "as the file says");
    return buffer;
}
