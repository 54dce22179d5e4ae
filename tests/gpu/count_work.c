/* What a training step computes and moves, counted from shapes: count_work config.yaml [key.path=value]…
 *
 * Plans as gpipe-train does, and prints a line for each op that a training mini-batch runs, worker by worker:
 *   <op> <tf32 or f32> <floating-point operations> <bytes>
 * and before them "samples <of the mini-batch>". scripts/gpu-figures.py makes a floor of it. */
#include <stdio.h>

#include "session/session.h"

static void print_routine(const gp_routine *routine, bool first) {
    for (size_t i = 0; i < routine->count; i++) {
        const gp_prepared *prepared = routine->ops[i].prepared;
        if (routine->ops[i].when == (first ? GP_WHEN_REST : GP_WHEN_FIRST)) continue;
        printf("%s %s %.17g %.17g\n", gp_op_name(prepared->desc.kind),
               prepared->desc.flags & GP_OP_TF32 ? "tf32" : "f32", prepared->flops, prepared->bytes);
    }
}

static void print_instr(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_routine *routine = gp_instr_routine(mini, &plan->stage[instr->stage], instr);
    if (instr->op == GP_INSTR_STEP) routine = &mini->step[instr->stage];
    if (routine) print_routine(routine, (instr->flags & GP_INSTR_FIRST) != 0);
    if (instr->op == GP_INSTR_FORWARD && instr->flags & GP_INSTR_LAST) print_routine(&mini->total[instr->stage], false);
}

static gp_status print_work(const gp_session *session, gp_error *err) {
    const gp_plan *plan = session->plan;
    int found;
    GP_RETURN_IF_FAILED(gp_session_find_mini(session, true, session->config->data.batch, &found, err));
    const gp_mini_plan *mini = &plan->minis[found];
    printf("samples %lld\n", (long long)mini->samples);
    for (int w = 0; w < plan->workers; w++)
        for (size_t pc = 0; pc < mini->programs->worker[w].count; pc++)
            print_instr(plan, mini, &mini->programs->worker[w].instrs[pc]);
    return GP_OK;
}

int main(int argc, char **argv) {
    gp_error err = {0};
    gp_config *config = NULL;
    gp_session *session = NULL;
    if (argc < 2) {
        fputs("usage: count_work config.yaml [key.path=value]...\n", stderr);
        return 2;
    }
    gp_status status = gp_config_load(GP_TO_RUN, argv[1], (const char *const *)argv + 2, argc - 2, &config, &err);
    if (status == GP_OK) status = gp_session_open(&config, NULL, &session, &err);
    if (status == GP_OK) status = print_work(session, &err);
    if (status != GP_OK) fprintf(stderr, "count_work: %s\n", err.text);
    gp_session_close(&session);
    return status != GP_OK;
}
