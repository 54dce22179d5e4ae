#include "device/op_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "device/op_run.h"

void trial_fill(trial *t) {
    for (int i = 0; i < (int)t->op_case.desc.operands; i++) {
        const gp_tensor *tensor = &t->op_case.desc.operand[i];
        t->host[i] = NULL;
        if (!tensor->present) continue;
        t->host[i] = malloc(gp_tensor_bytes(tensor));
        assert_non_null(t->host[i]);
        gp_op_case_fill(&t->op_case, i, t->host[i]);
    }
}

void trial_fini(trial *t) {
    for (int i = 0; i < (int)t->op_case.desc.operands; i++) free(t->host[i]);
}

void trial_run(const gp_device_kind *kind, trial *t) {
    gp_error err = {0};
    char text[GP_CASE_TEXT];
    if (gp_op_case_run(kind, &t->op_case, t->host, &err) != GP_OK)
        fail_msg("%s: %s: %s", kind->name, gp_op_case_text(text, &t->op_case), err.text);
}

void trial_compare(const trial *got, const trial *want, double tolerance) {
    const gp_op_desc *desc = &want->op_case.desc;
    char difference[GP_DIFFERENCE_TEXT], text[GP_CASE_TEXT];
    gp_op_case_text(text, &got->op_case);
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        const char *name = gp_op_operand_name(desc->kind, i);
        if (!tensor->present || !gp_op_writes(desc->kind, i)) continue;
        if (!gp_op_same_elements(tensor, got->host[i], want->host[i], tolerance, difference))
            fail_msg("%s, operand %s: %s", text, name, difference);
        if (!gp_op_gaps_kept(tensor, got->host[i])) fail_msg("%s, operand %s: wrote between its rows", text, name);
    }
}
