#include "train/norms.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/params.h"

/* Sums of squares, of a layer or of all. */
typedef struct squares {
    double grad, params;
    bool trained; /* some parameter has a gradient */
} squares;

static gp_status add_square(void *context, int index, void *host, size_t bytes, gp_error *err) {
    double *sums = context;
    const float *values = host;
    (void)err;
    for (size_t i = 0; i < bytes / sizeof *values; i++) sums[index] += (double)values[i] * values[i];
    return GP_OK;
}

static void print_line(gp_progress *progress, const char *name, const squares *of) {
    char grad[16] = "-";
    if (of->trained) snprintf(grad, sizeof grad, "%.4g", sqrt(of->grad));
    gp_progress_line(progress, "  %-32s %11s %11.4g", name, grad, sqrt(of->params));
}

/* Takes the squares of the layer's trained parameters from *next on. */
static squares add_layer(const gp_plan *plan, const gp_node *node, const double *params, const double **next) {
    squares sum = {0};
    for (int p = node->first_param; p < node->first_param + node->param_count; p++) {
        const gp_param *param = &plan->graph->params[p];
        if (param->spec.buffer) continue;
        sum.params += params[p];
        if (!param->trained) continue;
        sum.grad += *(*next)++;
        sum.trained = true;
    }
    return sum;
}

static void print_layers(gp_progress *progress, const gp_plan *plan, const double *params, const double *grads) {
    squares all = {0};
    for (int n = 0; n < plan->graph->node_count; n++) {
        const gp_node *node = &plan->graph->nodes[n];
        const squares its = add_layer(plan, node, params, &grads);
        char name[160];
        if (its.params == 0 && !its.trained) continue;
        snprintf(name, sizeof name, "%s %s", node->layer->type->name, node->name);
        print_line(progress, name, &its);
        all.grad += its.grad;
        all.params += its.params;
        all.trained = all.trained || its.trained;
    }
    print_line(progress, "all", &all);
}

gp_status gp_norms_print(gp_progress *progress, gp_run *run, const gp_plan *plan, int64_t step, gp_error *err) {
    double *sums = NULL; /* of gradients, then of parameters */
    int count = plan->graph->param_count;
    char title[48];
    GP_RETURN_IF_FAILED(GP_NEW(&sums, (size_t)2 * (size_t)count, err));
    gp_status status = gp_run_squares(run, sums, err);
    if (status == GP_OK) status = gp_params_read(run, plan, add_square, sums + count, err);
    if (status == GP_OK) {
        snprintf(title, sizeof title, "norms after step %" PRId64, step);
        gp_progress_line(progress, "%-34s %11s %11s", title, "gradient", "parameters");
        print_layers(progress, plan, sums + count, sums);
    }
    free(sums);
    return status;
}
