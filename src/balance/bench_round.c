/* A round: the routines of all stages run op by op, each op timed. */
#include <string.h>

#include "balance/bench_internal.h"
#include "base/memory.h"

int gp_bench_routines(const gp_plan *plan, int stage, gp_bench_routine out[GP_BENCH_ROUTINES]) {
    const gp_mini_plan *mini = &plan->minis[0];
    const gp_stage_plan *its = &plan->stage[stage];
    const gp_routine *routine = gp_mini_sized(mini, its, 0)->routine;
    const gp_bench_routine all[GP_BENCH_ROUTINES] = {
        {&routine[GP_ROUTINE_KEEP], GP_SAMPLED_KEEP, GP_WHEN_ALWAYS},
        {&mini->total[stage], GP_SAMPLED_UPDATE, GP_WHEN_ALWAYS},
        {&routine[GP_ROUTINE_BACKWARD], GP_SAMPLED_BACKWARD, GP_WHEN_REST},
        {&routine[GP_ROUTINE_DISCARD], GP_SAMPLED_DISCARD, GP_WHEN_ALWAYS},
        {&routine[GP_ROUTINE_RECOMPUTE], GP_SAMPLED_RECOMPUTE, GP_WHEN_ALWAYS},
        {&routine[GP_ROUTINE_BACKWARD], GP_SAMPLED_BACKWARD, GP_WHEN_FIRST},
        {&its->norm, GP_SAMPLED_UPDATE, GP_WHEN_ALWAYS},
        {&its->clip, GP_SAMPLED_UPDATE, GP_WHEN_ALWAYS},
        {&mini->step[stage], GP_SAMPLED_UPDATE, GP_WHEN_ALWAYS},
    };
    memcpy(out, all, sizeof all);
    return GP_BENCH_ROUTINES;
}

void gp_bench_bind(const gp_bench *bench, int stage, const gp_exec_op *ops, size_t count, gp_device_op *out) {
    const gp_slot_choice slots = {{0}};
    const gp_bases bases = gp_bases_of(bench->plan, &bench->plan->stage[stage], &slots, 0, (char *)bench->arena);
    for (size_t i = 0; i < count; i++) gp_bind_op(&bench->bindings, &bases, &ops[i], &out[i]);
}

/* Updates that the device does in one launch, as a worker hands them over: how many stand here together. */
static size_t count_together(const gp_bench *bench, const gp_routine *routine, size_t first) {
    gp_op_kind kind = routine->ops[first].prepared->desc.kind;
    size_t count = 1;
    if (!bench->request.spec.kind->run_many || kind != bench->request.update.op) return 1;
    while (first + count < routine->count && count < GP_RUN_MANY &&
           routine->ops[first + count].prepared->desc.kind == kind)
        count++;
    return count;
}

static gp_status run_ops(gp_bench *bench, int stage, const gp_exec_op *ops, size_t count, gp_error *err) {
    const gp_device_kind *kind = bench->request.spec.kind;
    const gp_op_args args = {0};
    gp_device_op bound[GP_RUN_MANY];
    gp_bench_bind(bench, stage, ops, count, bound);
    if (count > 1) return kind->run_many(bench->stream, bound, (int)count, &args, err);
    return kind->run(bench->stream, bound, &args, err);
}

/* What a launch of several took is shared out by the bytes that each moves. */
static void share_out(const gp_exec_op *ops, size_t count, double seconds, double *times) {
    double bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += ops[i].prepared->bytes;
    for (size_t i = 0; i < count; i++) times[i] = count > 1 ? seconds * ops[i].prepared->bytes / bytes : seconds;
}

/* One run of a routine. Times of ops that were left out are negative. */
typedef struct run {
    gp_bench *bench;
    int stage;
    const gp_bench_routine *its;
    bool only_new; /* ops that were timed before are left out */
    const gp_bench_pace *pace;
} run;

static bool is_left_out(const run *r, const gp_exec_op *op) {
    if (op->when != GP_WHEN_ALWAYS && op->when == r->its->skipped) return true;
    if (r->pace->over(r->pace->context)) return true;
    return r->only_new && gp_samples_find(&r->bench->samples, op->prepared, r->its->pass)->count > 0;
}

/* Where calls return when the work is done: by the clock. */
static gp_status run_by_clock(const run *r, gp_error *err) {
    const gp_routine *routine = r->its->routine;
    gp_bench *bench = r->bench;
    for (size_t o = 0; o < routine->count;) {
        size_t count = count_together(bench, routine, o);
        const gp_exec_op *ops = &routine->ops[o];
        bench->times[o] = -1;
        if (count > 1 || !is_left_out(r, ops)) {
            uint64_t from = bench->request.clock();
            GP_RETURN_IF_FAILED(run_ops(bench, r->stage, ops, count, err));
            share_out(ops, count, (double)(bench->request.clock() - from) * 1e-9, &bench->times[o]);
        }
        o += count;
    }
    return GP_OK;
}

/* Elsewhere by events between the ops, looked at when all is done. */
static gp_status run_by_events(const run *r, gp_error *err) {
    const gp_device_kind *kind = r->bench->request.spec.kind;
    const gp_routine *routine = r->its->routine;
    gp_bench *bench = r->bench;
    if (routine->count == 0) return GP_OK;
    GP_RETURN_IF_FAILED(kind->event_record(bench->events[0], bench->stream, err));
    for (size_t o = 0; o < routine->count;) {
        size_t count = count_together(bench, routine, o);
        const gp_exec_op *ops = &routine->ops[o];
        if (count > 1 || !is_left_out(r, ops)) GP_RETURN_IF_FAILED(run_ops(bench, r->stage, ops, count, err));
        o += count;
        GP_RETURN_IF_FAILED(kind->event_record(bench->events[o], bench->stream, err));
    }
    GP_RETURN_IF_FAILED(kind->stream_finish(bench->stream, NULL, err));
    for (size_t o = 0; o < routine->count;) {
        size_t count = count_together(bench, routine, o);
        const gp_exec_op *ops = &routine->ops[o];
        double nanoseconds = 0;
        bench->times[o] = -1;
        if (count > 1 || !is_left_out(r, ops)) {
            GP_RETURN_IF_FAILED(kind->event_elapsed(bench->events[o], bench->events[o + count], &nanoseconds, err));
            share_out(ops, count, nanoseconds * 1e-9, &bench->times[o]);
        }
        o += count;
    }
    return GP_OK;
}

static gp_status run_routine(const run *r, bool cold, gp_error *err) {
    gp_bench *bench = r->bench;
    const gp_routine *routine = r->its->routine;
    gp_status status = bench->events ? run_by_events(r, err) : run_by_clock(r, err);
    for (size_t o = 0; o < routine->count && status == GP_OK; o++) {
        if (bench->times[o] < 0) continue;
        bench->total += bench->times[o];
        status = gp_samples_add(gp_samples_find(&bench->samples, routine->ops[o].prepared, r->its->pass),
                                bench->times[o], cold, err);
    }
    return status;
}

gp_status gp_bench_round(gp_bench *bench, bool cold, const gp_bench_pace *pace, gp_error *err) {
    bool whole = true;
    bench->total = 0;
    for (int s = 0; s < bench->plan->stages->count; s++) {
        gp_bench_routine routines[GP_BENCH_ROUTINES];
        int count = gp_bench_routines(bench->plan, s, routines);
        GP_RETURN_IF_FAILED(gp_bench_load(bench, s, err));
        for (int i = 0; i < count; i++) {
            const run r = {bench, s, &routines[i], cold && pace->late(pace->context), pace};
            whole = whole && !r.only_new;
            if (run_routine(&r, cold, err) != GP_OK)
                return gp_error_context(err, "timing on %s: ", bench->request.spec.kind->name);
        }
    }
    if (!whole || pace->over(pace->context)) return GP_OK;
    GP_RETURN_IF_FAILED(GP_GROW(&bench->totals, &bench->total_capacity, bench->total_count + 1, err));
    bench->totals[bench->total_count++] = bench->total;
    return GP_OK;
}
