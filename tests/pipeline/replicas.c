#include "pipeline/replicas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"

harness_options replicas_options(const char *model, const replicas_layout *its) {
    return (harness_options){.model = model,
                             .layers = its->layers,
                             .stages = its->stages,
                             .replicas = its->replicas,
                             .kind = &gp_ref_kind,
                             .real = GP_F64,
                             .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                             .micro_batches = 3,
                             .batch = 24,
                             .last = 12,
                             .evaluation = 18};
}

void replicas_must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* In place: the floats lie at the beginning. */
static void widen(double *values, int64_t count) {
    for (int64_t i = count; i-- > 0;) {
        float value;
        memcpy(&value, (const char *)values + (size_t)i * sizeof value, sizeof value);
        values[i] = (double)value;
    }
}

replicas_results replicas_train(const harness_options *options, int steps) {
    harness h;
    gp_error err = {0};
    replicas_results out = {0};
    gp_step_result result;
    harness_plan(&h, options);
    harness_start(&h, NULL);
    for (int s = 1; s <= steps; s++) {
        replicas_must(harness_step(&h, s == 3 ? options->last : options->batch, true, (uint32_t)s, &result, &err),
                      &err);
        out.losses[s - 1] = result.loss_sum;
        out.norm = result.grad_norm;
    }
    replicas_must(harness_step(&h, options->evaluation, false, 1, &result, &err), &err);
    out.losses[3] = result.loss_sum;
    for (int p = 0; p < h.graph->param_count; p++) {
        int64_t elements;
        assert_true(gp_shape_elements(h.graph->params[p].spec.shape, &elements));
        out.values = realloc(out.values, (size_t)(out.count + elements) * sizeof(double));
        assert_non_null(out.values);
        replicas_must(gp_run_read(h.run, &(gp_tensor_copy){p, -1, out.values + out.count}, 1, &err), &err);
        if (h.plan->types.master == GP_F32) widen(out.values + out.count, elements);
        out.count += elements;
    }
    harness_end(&h);
    return out;
}

void replicas_expect_close(const replicas_results *found, const replicas_results *expected, const char *what) {
    assert_int_equal(found->count, expected->count);
    for (int i = 0; i < 4; i++)
        if (!(fabs(found->losses[i] - expected->losses[i]) <= 1e-10 * fabs(expected->losses[i])))
            fail_msg("%s: loss %d is %.17g, not %.17g", what, i, found->losses[i], expected->losses[i]);
    if (!(fabs(found->norm - expected->norm) <= 1e-10 * fabs(expected->norm)))
        fail_msg("%s: norm %.17g, not %.17g", what, found->norm, expected->norm);
    for (int64_t i = 0; i < found->count; i++)
        if (!(fabs(found->values[i] - expected->values[i]) <= 1e-9 * (1e-3 + fabs(expected->values[i]))))
            fail_msg("%s: value %lld is %.17g, not %.17g", what, (long long)i, found->values[i], expected->values[i]);
}
