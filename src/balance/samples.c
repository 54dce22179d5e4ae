#include "balance/samples.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void gp_samples_fini(gp_samples *samples) {
    for (size_t i = 0; i < samples->count; i++) free(samples->ops[i].seconds);
    free(samples->ops);
    *samples = (gp_samples){0};
}

gp_status gp_samples_expect(gp_samples *samples, const gp_prepared *prepared, gp_sampled_pass pass, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&samples->ops, &samples->capacity, samples->count + 1, err));
    samples->ops[samples->count++] = (gp_op_samples){.prepared = prepared, .pass = pass};
    return GP_OK;
}

static int compare_ops(const void *a, const void *b) {
    const gp_op_samples *first = a, *second = b;
    uintptr_t of_first = (uintptr_t)first->prepared, of_second = (uintptr_t)second->prepared;
    if (of_first != of_second) return of_first < of_second ? -1 : 1;
    return (int)first->pass - (int)second->pass;
}

void gp_samples_sort(gp_samples *samples) {
    size_t kept = 0;
    if (samples->count == 0) return;
    qsort(samples->ops, samples->count, sizeof *samples->ops, compare_ops);
    for (size_t i = 1; i < samples->count; i++)
        if (compare_ops(&samples->ops[kept], &samples->ops[i]) != 0) samples->ops[++kept] = samples->ops[i];
    samples->count = kept + 1;
}

gp_op_samples *gp_samples_find(const gp_samples *samples, const gp_prepared *prepared, gp_sampled_pass pass) {
    const gp_op_samples key = {.prepared = prepared, .pass = pass};
    if (samples->count == 0) return NULL;
    return bsearch(&key, samples->ops, samples->count, sizeof *samples->ops, compare_ops);
}

gp_status gp_samples_add(gp_op_samples *op, double seconds, bool cold, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&op->seconds, &op->capacity, op->count + 1, err));
    op->seconds[op->count++] = seconds;
    if (cold) op->cold = op->count;
    return GP_OK;
}

static int compare_numbers(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

gp_estimate gp_median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_numbers);
    double middle = (values[(count - 1) / 2] + values[count / 2]) / 2;
    double rank = floor((double)count / 2 - 0.98 * sqrt((double)count));
    size_t low = rank > 0 ? (size_t)rank : 0;
    return (gp_estimate){middle, values[low], values[count - 1 - low]};
}

gp_status gp_samples_estimate(const gp_op_samples *op, gp_estimate *out, gp_error *err) {
    size_t from = op->count > op->cold ? op->cold : 0, count = op->count - from;
    double *values = NULL;
    if (count == 0) {
        *out = (gp_estimate){0};
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(GP_NEW(&values, count, err));
    memcpy(values, op->seconds + from, count * sizeof *values);
    *out = gp_median(values, count);
    free(values);
    return GP_OK;
}
