#include "train/norms.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

/* Sums of squares, of a layer or of all. */
typedef struct squares {
    double grad, params;
    bool trained; /* some parameter has a gradient */
} squares;

static gp_status square_of(gp_run *run, const gp_plan *plan, int param, double *out, gp_error *err) {
    float *values = NULL;
    int64_t elements;
    double sum = 0;
    if (!gp_shape_elements(plan->graph->params[param].spec.shape, &elements))
        return gp_fail(err, GP_INTERNAL, "parameter %s has no size", plan->graph->params[param].name);
    GP_RETURN_IF_FAILED(GP_NEW(&values, elements, err));
    gp_status status = gp_run_read(run, param, -1, values, err);
    for (int64_t i = 0; i < elements && status == GP_OK; i++) sum += (double)values[i] * values[i];
    free(values);
    *out = sum;
    return status;
}

static void print_line(gp_progress *progress, const char *name, const squares *of) {
    char grad[16] = "-";
    if (of->trained) snprintf(grad, sizeof grad, "%.4g", sqrt(of->grad));
    gp_progress_detail(progress, "  %-32s %11s %11.4g", name, grad, sqrt(of->params));
}

/* Takes the squares of the layer's trained parameters from *next on. */
static gp_status add_layer(gp_run *run, const gp_plan *plan, const gp_node *node, const double **next, squares *out,
                           gp_error *err) {
    for (int i = 0; i < node->param_count; i++) {
        const gp_param *param = &plan->graph->params[node->first_param + i];
        double square = 0;
        if (param->spec.buffer) continue;
        GP_RETURN_IF_FAILED(square_of(run, plan, node->first_param + i, &square, err));
        out->params += square;
        if (!param->trained) continue;
        out->grad += *(*next)++;
        out->trained = true;
    }
    return GP_OK;
}

static gp_status print_layers(gp_progress *progress, gp_run *run, const gp_plan *plan, const double *grads,
                              gp_error *err) {
    squares all = {0};
    for (int n = 0; n < plan->graph->node_count; n++) {
        const gp_node *node = &plan->graph->nodes[n];
        squares its = {0};
        char name[160];
        GP_RETURN_IF_FAILED(add_layer(run, plan, node, &grads, &its, err));
        if (its.params == 0 && !its.trained) continue;
        snprintf(name, sizeof name, "%s %s", node->layer->type->name, node->name);
        print_line(progress, name, &its);
        all.grad += its.grad;
        all.params += its.params;
        all.trained = all.trained || its.trained;
    }
    print_line(progress, "all", &all);
    return GP_OK;
}

gp_status gp_norms_print(gp_progress *progress, gp_run *run, const gp_plan *plan, int64_t step, gp_error *err) {
    double *grads = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&grads, plan->graph->param_count, err));
    gp_status status = gp_run_squares(run, grads, err);
    if (status == GP_OK) {
        char title[48];
        snprintf(title, sizeof title, "norms after step %" PRId64, step);
        gp_progress_detail(progress, "%-34s %11s %11s", title, "gradient", "parameters");
        status = print_layers(progress, run, plan, grads, err);
    }
    free(grads);
    return status;
}
