/* Rounds of a bench: each op runs in its place and is timed; medians of these times. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "profile/bench.h"
#include "profile/median.h"
#include "profile/rounds.h"

static gp_status launch(gp_bench *bench, const gp_bench_op *ops, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    const gp_op_args args = {0};
    gp_device_op bound[GP_RUN_MANY];
    for (int i = 0; i < ops->launch; i++) gp_bench_bind(bench, ops->stage, ops[i].op, &bound[i]);
    if (ops->launch > 1) return kind->run_many(bench->stream, bound, ops->launch, &args, err);
    return kind->run(bench->stream, bound, &args, err);
}

/* The time of a launch of several ops is divided by the bytes that each op moves. */
static void share_out(const gp_bench_op *ops, double seconds, double *times) {
    double bytes = 0;
    for (int i = 0; i < ops->launch; i++) bytes += ops[i].op->prepared->bytes;
    for (int i = 0; i < ops->launch; i++)
        times[i] = ops->launch > 1 ? seconds * ops[i].op->prepared->bytes / bytes : seconds;
}

/* Events between the ops of a device that works later than it is told to; all are read when the stage is done. */
static gp_status read_events(gp_bench *bench, size_t first, size_t end, double *times, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    GP_RETURN_IF_FAILED(kind->stream_finish(bench->stream, NULL, err));
    for (size_t o = first, next; o < end; o = next) {
        double nanoseconds = 0;
        next = o + (size_t)bench->ops[o].launch;
        GP_RETURN_IF_FAILED(kind->event_elapsed(bench->events[o], bench->events[next], &nanoseconds, err));
        share_out(&bench->ops[o], nanoseconds * 1e-9, &times[o]);
    }
    return GP_OK;
}

/* Ops `first` … `end` − 1 are those of one stage. */
static gp_status run_stage(gp_bench *bench, size_t first, size_t end, double *times, gp_bench_stop stop, void *context,
                           bool *stopped, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    GP_RETURN_IF_FAILED(gp_bench_load(bench, bench->ops[first].stage, err));
    if (bench->events) GP_RETURN_IF_FAILED(kind->event_record(bench->events[first], bench->stream, err));
    for (size_t o = first, next; o < end; o = next) {
        next = o + (size_t)bench->ops[o].launch;
        *stopped = stop(context);
        if (*stopped) return kind->stream_finish(bench->stream, NULL, err);
        uint64_t from = bench->request->clock();
        GP_RETURN_IF_FAILED(launch(bench, &bench->ops[o], err));
        if (bench->events)
            GP_RETURN_IF_FAILED(kind->event_record(bench->events[next], bench->stream, err));
        else
            share_out(&bench->ops[o], (double)(bench->request->clock() - from) * 1e-9, &times[o]);
    }
    return bench->events ? read_events(bench, first, end, times, err) : GP_OK;
}

gp_status gp_bench_round(gp_bench *bench, gp_bench_stop stop, void *context, gp_error *err) {
    bool stopped = false;
    GP_RETURN_IF_FAILED(GP_GROW(&bench->seconds, &bench->capacity, (bench->rounds + 1) * bench->op_count, err));
    double *times = bench->seconds + bench->rounds * bench->op_count;
    for (size_t first = 0, end; first < bench->op_count && !stopped; first = end) {
        for (end = first; end < bench->op_count && bench->ops[end].stage == bench->ops[first].stage;) end++;
        if (run_stage(bench, first, end, times, stop, context, &stopped, err) != GP_OK)
            return gp_error_context(err, "timing on %s: ", bench->spec.kind->name);
    }
    bench->rounds += !stopped;
    return GP_OK;
}

/* ---- medians ----------------------------------------------------------------------------------------------------- */

static double time_of(const gp_bench *bench, size_t round, size_t op) {
    return bench->seconds[round * bench->op_count + op];
}

static double round_seconds(const gp_bench *bench, size_t round) {
    double seconds = 0;
    for (size_t o = 0; o < bench->op_count; o++) seconds += time_of(bench, round, o);
    return seconds;
}

/* Phases in which other programs disturbed the rounds do not count, if as many rounds in a row as a measurement needs
 * were quiet: they took nearly as little time as the shortest. Marks the rounds of the longest quiet phase, else all.
 */
static void mark_quiet_phase(const gp_bench *bench, size_t first, bool *counts) {
    static const double nearly = 1.1;
    double least = HUGE_VAL;
    size_t longest = 0, end = 0, length = 0;
    for (size_t r = first; r < bench->rounds; r++) least = fmin(least, round_seconds(bench, r));
    for (size_t r = first; r < bench->rounds; r++) {
        length = round_seconds(bench, r) <= nearly * least ? length + 1 : 0;
        if (length > longest) longest = length, end = r + 1;
    }
    bool quiet = longest >= GP_MEASURE_FEW_ROUNDS;
    for (size_t r = 0; r < bench->rounds; r++) counts[r] = quiet ? r < end && r + longest >= end : r >= first;
}

/* The times of all ops like this one in rounds that count; how many. */
static size_t list_times(const gp_bench *bench, const bool *counts, size_t op, double *values) {
    size_t count = 0;
    for (size_t o = op; o < bench->op_count; o++)
        for (size_t r = 0; r < bench->rounds && bench->ops[o].like == op; r++)
            if (counts[r]) values[count++] = time_of(bench, r, o);
    return count;
}

/* The standard error of a median is 1.25 σ/√n, and the quartiles of a normal distribution are 1.35 σ apart: half of a
 * 95 % interval is 1.82 times their distance, by √n. */
static void find_medians(const gp_bench *bench, const bool *counts, double *values, double *widths,
                         gp_bench_medians *out) {
    double sum = 0, width = 0;
    for (size_t o = 0; o < bench->op_count; o++) {
        size_t like = bench->ops[o].like;
        if (like == o) {
            size_t count = list_times(bench, counts, o, values);
            gp_median its = gp_median_of(values, count);
            out->op[o] = its.median;
            widths[o] = 1.82 * its.spread / sqrt((double)count);
        }
        out->op[o] = out->op[like];
        sum += out->op[like];
        width += widths[like];
    }
    size_t counted = 0;
    for (size_t r = 0; r < bench->rounds; r++)
        if (counts[r]) values[counted++] = round_seconds(bench, r);
    out->width = sum > 0 ? width / sum : 0;
    out->slowdown = sum > 0 ? gp_median_of(values, counted).median / sum : 1;
}

/* Of what takes so large a share of a round that it may move a cut. */
static bool has_outlier(const gp_bench *bench, const double *widths, const gp_bench_medians *medians,
                        const gp_layer_times *layers) {
    enum { FORWARD_BY_BACKWARD = 2 };
    static const double wide = 0.25, op_share = 0.01, layer_share = 0.02;
    double sum = 0;
    for (size_t o = 0; o < bench->op_count; o++) sum += medians->op[o];
    for (size_t o = 0; o < bench->op_count; o++)
        if (medians->op[o] >= op_share * sum && widths[bench->ops[o].like] > wide * medians->op[o]) return true;
    for (int l = 0; l < bench->plan->graph->layer_count; l++) {
        const double *time = layers[l].time;
        double backward = time[GP_PROFILE_TIME_BACKWARD_INPUT] + time[GP_PROFILE_TIME_BACKWARD_WEIGHT];
        if (time[GP_PROFILE_TIME_BACKWARD_WEIGHT] > 0 && time[GP_PROFILE_TIME_FORWARD] >= layer_share * sum &&
            time[GP_PROFILE_TIME_FORWARD] > FORWARD_BY_BACKWARD * backward)
            return true;
    }
    return false;
}

gp_status gp_bench_find_medians(const gp_bench *bench, gp_bench_medians *out, gp_error *err) {
    double *values = NULL, *widths = NULL;
    bool *counts = NULL;
    gp_layer_times *layers = NULL;
    gp_bench_medians medians = {0};
    gp_status status = GP_NEW(&values, bench->rounds * (bench->op_count + 1), err);
    if (status == GP_OK) status = GP_NEW(&widths, bench->op_count, err);
    if (status == GP_OK) status = GP_NEW(&counts, bench->rounds, err);
    if (status == GP_OK) status = GP_NEW(&layers, bench->plan->graph->layer_count, err);
    if (status == GP_OK) status = GP_NEW(&medians.op, bench->op_count, err);
    if (status == GP_OK) {
        mark_quiet_phase(bench, bench->rounds > 1, counts);
        find_medians(bench, counts, values, widths, &medians);
        gp_bench_add_layers(bench, medians.op, bench->request->mix, layers);
        medians.outlier = has_outlier(bench, widths, &medians, layers);
        *out = medians;
    }
    free(values);
    free(widths);
    free(layers);
    free(counts);
    return status;
}
