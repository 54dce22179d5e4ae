/* Norms of each sample alone. */
#include "device/ref/ref_ops.h"

#include <math.h>

/* The elements of one group of one sample are [rows of the sample, channels of the group]. */
typedef struct group {
    int64_t sample, index;       /* of the group within the sample */
    int64_t first_row, last_row; /* up to, not including */
    int64_t first_channel, last_channel;
} group;

static group group_at(const ref_call *call, int64_t i) {
    const gp_tensor *x = call->x.tensor;
    int64_t groups = call->desc->attributes.group_norm.groups;
    int64_t rows = gp_tensor_rows(x) / x->dim[0], width = x->dim[x->rank - 1] / groups;
    int64_t sample = i / groups, index = i % groups;
    return (group){sample, index, sample * rows, (sample + 1) * rows, index * width, (index + 1) * width};
}

static int64_t group_count(const ref_call *call) {
    return call->x.tensor->dim[0] * call->desc->attributes.group_norm.groups;
}

static double group_elements(group g) {
    return (double)((g.last_row - g.first_row) * (g.last_channel - g.first_channel));
}

/* 0: the mean; 1: 1/√(variance+eps). */
static int64_t stats_at(const ref_view *stats, group g, int which) {
    const int64_t *stride = stats->tensor->stride;
    return g.sample * stride[0] + g.index * stride[1] + which;
}

static double mean_of(const ref_view *x, group g) {
    double sum = 0;
    for (int64_t row = g.first_row; row < g.last_row; row++)
        for (int64_t c = g.first_channel; c < g.last_channel; c++) sum += ref_get_row(x, row, c);
    return sum / group_elements(g);
}

static double variance_of(const ref_view *x, group g, double mean) {
    double squares = 0;
    for (int64_t row = g.first_row; row < g.last_row; row++)
        for (int64_t c = g.first_channel; c < g.last_channel; c++)
            squares += (ref_get_row(x, row, c) - mean) * (ref_get_row(x, row, c) - mean);
    return squares / group_elements(g);
}

void ref_group_norm_forward(const ref_call *call) {
    const ref_view *x = &call->x, *y = &call->y, *gamma = &call->gamma, *beta = &call->beta, *stats = &call->stats;
    for (int64_t i = 0; i < group_count(call); i++) {
        group g = group_at(call, i);
        double mean = mean_of(x, g);
        double inverse = 1 / sqrt(variance_of(x, g, mean) + call->desc->attributes.group_norm.eps);
        for (int64_t row = g.first_row; row < g.last_row; row++) {
            for (int64_t c = g.first_channel; c < g.last_channel; c++) {
                double value = (ref_get_row(x, row, c) - mean) * inverse;
                if (gamma->data) value *= ref_get(gamma, c);
                if (beta->data) value += ref_get(beta, c);
                ref_put(y, ref_row(y->tensor, row) + c, value);
            }
        }
        if (!stats->data) continue;
        ref_put(stats, stats_at(stats, g, 0), mean);
        ref_put(stats, stats_at(stats, g, 1), inverse);
    }
}

void ref_group_norm_backward_data(const ref_call *call) {
    const ref_view *x = &call->x, *dy = &call->dy, *stats = &call->stats, *gamma = &call->gamma, *dx = &call->dx;
    for (int64_t i = 0; i < group_count(call); i++) {
        group g = group_at(call, i);
        double mean = ref_get(stats, stats_at(stats, g, 0)), inverse = ref_get(stats, stats_at(stats, g, 1));
        double products = 0, sum = 0;
        for (int64_t row = g.first_row; row < g.last_row; row++) {
            for (int64_t c = g.first_channel; c < g.last_channel; c++) {
                double gradient = ref_get_row(dy, row, c) * (gamma->data ? ref_get(gamma, c) : 1);
                products += gradient * (ref_get_row(x, row, c) - mean) * inverse;
                sum += gradient;
            }
        }
        for (int64_t row = g.first_row; row < g.last_row; row++) {
            for (int64_t c = g.first_channel; c < g.last_channel; c++) {
                double gradient = ref_get_row(dy, row, c) * (gamma->data ? ref_get(gamma, c) : 1);
                double normal = (ref_get_row(x, row, c) - mean) * inverse;
                ref_put(dx, ref_row(dx->tensor, row) + c,
                        inverse * (gradient - (sum + normal * products) / group_elements(g)));
            }
        }
    }
}

void ref_group_norm_backward_weights(const ref_call *call) {
    const ref_view *x = &call->x, *dy = &call->dy, *stats = &call->stats;
    const ref_view *dgamma = &call->dgamma, *dbeta = &call->dbeta;
    bool adds = call->desc->flags & GP_OP_ACCUMULATE;
    int64_t samples = x->tensor->dim[0], groups = call->desc->attributes.group_norm.groups;
    for (int64_t c = 0; c < dgamma->tensor->dim[0]; c++) {
        double products = adds ? ref_get(dgamma, c) : 0, sum = adds ? ref_get(dbeta, c) : 0;
        for (int64_t n = 0; n < samples; n++) {
            group g = group_at(call, n * groups + c * groups / dgamma->tensor->dim[0]);
            double mean = ref_get(stats, stats_at(stats, g, 0)), inverse = ref_get(stats, stats_at(stats, g, 1));
            for (int64_t row = g.first_row; row < g.last_row; row++) {
                products += ref_get_row(dy, row, c) * (ref_get_row(x, row, c) - mean) * inverse;
                sum += ref_get_row(dy, row, c);
            }
        }
        ref_put(dgamma, c, products);
        ref_put(dbeta, c, sum);
    }
}
