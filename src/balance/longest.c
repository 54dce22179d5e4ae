#include "balance/longest.h"

#include <string.h>

#include "balance/expect.h"
#include "pipeline/lookout.h"

static void take_program(const gp_durations *durations, int mini, const gp_program *program, double *out) {
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        double *longest = &out[gp_lookout_expected_index(durations->plan, mini, instr)], seconds = 0;
        if (gp_instr_computes(instr)) seconds = gp_durations_computing(durations, instr);
        if (gp_instr_copies(instr)) seconds = gp_durations_copying(durations, instr);
        if (seconds > *longest) *longest = seconds;
    }
}

gp_status gp_expect_longest(const gp_plan *plan, const gp_profile *profile, double *out, gp_error *err) {
    memset(out, 0, gp_lookout_expected_count(plan) * sizeof *out);
    for (int m = 0; m < plan->mini_count; m++) {
        gp_durations durations;
        GP_RETURN_IF_FAILED(gp_durations_init(plan, m, profile, &durations, err));
        for (int w = 0; w < plan->workers; w++) take_program(&durations, m, &plan->minis[m].programs->worker[w], out);
        gp_durations_fini(&durations);
    }
    return GP_OK;
}
