#include "pipeline/lookout.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "pipeline/places.h"
#include "pipeline/pulse.h"
#include "pipeline/run_internal.h"

/* What was last seen of a worker. */
typedef struct watched {
    gp_pulse_seen host; /* its thread */
    /* Its GPU's queue of computations: the last note, the thread's beats then, and since when neither has changed. */
    uint32_t noted;
    uint64_t beats;
    double since;
} watched;

struct gp_lookout {
    const gp_run *run;
    double timeout, now; /* now: seconds that the process was awake */
    const double *expected;
    bool notes, alone;
    watched *workers; /* [worker] */
    uint64_t reached; /* a number that changes when anything of the run goes on */
    double still;     /* since when it has not, with something to do */
};

size_t gp_lookout_expected_count(const gp_plan *plan) {
    return (size_t)plan->mini_count * (size_t)plan->stages->count * GP_INSTR_OPS;
}

gp_status gp_lookout_create(gp_run *run, double timeout, bool alone, const double *expected, gp_lookout **out,
                            gp_error *err) {
    gp_lookout *its = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    *its = (gp_lookout){.run = run, .timeout = timeout, .expected = expected, .notes = run->notes, .alone = alone};
    gp_status status = GP_NEW(&its->workers, run->plan->workers, err);
    if (status == GP_OK)
        *out = its;
    else
        free(its);
    return status;
}

void gp_lookout_destroy(gp_lookout **lookout) {
    if (!*lookout) return;
    free((*lookout)->workers);
    free(*lookout);
    *lookout = NULL;
}

/* Whether that is too long, and the end of the sentence that says so. */
static bool is_too_long(const gp_lookout *its, double seconds, double expected, char text[96]) {
    bool longer = GP_LOOKOUT_TIMES * expected > its->timeout;
    char number[GP_NUMBER_TEXT];
    if (longer)
        snprintf(text, 96, "more than %d times as long as predicted (%s s)", GP_LOOKOUT_TIMES,
                 gp_rounded_text(number, expected, 3));
    else
        snprintf(text, 96, "longer than pipeline.timeout (%s s)", gp_number_text(number, its->timeout));
    return seconds > (longer ? GP_LOOKOUT_TIMES * expected : its->timeout);
}

static gp_status judge(const gp_lookout *its, int worker, int mini, const gp_instr *instr, double seconds,
                       gp_error *err) {
    const gp_plan *plan = its->run->plan;
    double expected = its->expected ? its->expected[gp_lookout_expected_index(plan, mini, instr)] : 0;
    char text[GP_INSTR_TEXT], limit[96], process[32] = "";
    if (!is_too_long(its, seconds, expected, limit)) return GP_OK;
    if (!its->alone) snprintf(process, sizeof process, "process %d: ", plan->rank);
    return gp_fail(err, GP_LOST, "%sworker %d (%s) has computed %s for %.1f s, %s", process, worker,
                   plan->devices[worker].kind->name, gp_instr_text(text, instr), seconds, limit);
}

/* A call that gives a GPU work can wait for what its queue waits for: memory to send from, room in the queue. A pass
 * that replicas compute together may wait for another process. */
static bool queue_computes(const gp_lookout *its, int worker) {
    const gp_worker *of = &its->run->workers[worker];
    const gp_device_kind *kind = gp_worker_kind(of);
    if (!kind->stream_noted) return true;
    const gp_instr *instr = gp_places_instr(its->run->plan, its->workers[worker].host.mini, worker,
                                            kind->stream_noted(of->queue[GP_QUEUE_COMPUTE]));
    return instr && gp_instr_computes(instr) && its->run->plan->stages->stage[instr->stage].group == 1;
}

static gp_status look_at_thread(gp_lookout *its, int worker, gp_error *err) {
    gp_pulse_seen *seen = &its->workers[worker].host;
    double seconds = gp_pulse_look(seen, &its->run->workers[worker].pulse, its->now);
    if (seconds <= its->timeout || !queue_computes(its, worker)) return GP_OK;
    const gp_program *program = &its->run->plan->minis[seen->mini].programs->worker[worker];
    return judge(its, worker, seen->mini, &program->instrs[seen->pc], seconds, err);
}

/* A note stands behind all that the instruction waits for, but not behind exchanges within it. Steps have the same
 * notes: that the thread has gone on says that another one has begun. */
static gp_status look_at_queue(gp_lookout *its, int worker, gp_error *err) {
    const gp_plan *plan = its->run->plan;
    watched *seen = &its->workers[worker];
    uint32_t noted = plan->devices[worker].kind->stream_noted(its->run->workers[worker].queue[GP_QUEUE_COMPUTE]);
    if (noted != seen->noted || seen->host.beats != seen->beats || noted == 0) {
        seen->noted = noted;
        seen->beats = seen->host.beats;
        seen->since = its->now;
        return GP_OK;
    }
    if (its->now - seen->since <= its->timeout) return GP_OK;
    const gp_instr *instr = gp_places_instr(plan, seen->host.mini, worker, noted);
    if (!instr || !gp_instr_computes(instr) || plan->stages->stage[instr->stage].group > 1) return GP_OK;
    return judge(its, worker, seen->host.mini, instr, its->now - seen->since, err);
}

/* All instructions of a mini-batch, one after the other. */
static double expected_mini(const gp_lookout *its, int mini) {
    const gp_plan *plan = its->run->plan;
    double sum = 0;
    for (int w = 0; w < plan->workers; w++) {
        const gp_program *program = &plan->minis[mini].programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++)
            sum += its->expected[gp_lookout_expected_index(plan, mini, &program->instrs[pc])];
    }
    return sum;
}

/* The longest of the mini-batches that workers are in, or were in. */
static double expected_step(const gp_lookout *its) {
    double most = 0;
    for (int w = 0; w < its->run->plan->workers && its->expected; w++) {
        double expected = expected_mini(its, gp_pulse_mini(&its->run->workers[w].pulse));
        if (expected > most) most = expected;
    }
    return most;
}

/* A run that is alone waits for its own workers only: it hangs if one has something to do, and none goes on. One that
 * computes for long is named before, or was expected to: then so was the step. */
static gp_status look_at_all(gp_lookout *its, gp_error *err) {
    const gp_run *run = its->run;
    uint64_t reached = 0;
    bool busy = false;
    char limit[96];
    for (int w = 0; w < run->plan->workers; w++) {
        const gp_worker *of = &run->workers[w];
        const gp_device_kind *kind = gp_worker_kind(of);
        uint64_t posted = atomic_load(&of->posted.value), done = atomic_load(&of->done.value);
        uint64_t beats = atomic_load(&of->pulse.beats);
        bool notes = its->notes && kind->stream_noted;
        reached = 31 * (31 * (31 * (31 * reached + posted) + done) + beats) +
                  (notes ? kind->stream_noted(of->queue[GP_QUEUE_COMPUTE]) : 0);
        busy = busy || (done <= posted && !atomic_load(&of->left));
    }
    if (reached != its->reached || !busy) {
        its->reached = reached;
        its->still = its->now;
        return GP_OK;
    }
    double seconds = its->now - its->still;
    if (seconds <= its->timeout || !is_too_long(its, seconds, expected_step(its), limit)) return GP_OK;
    return gp_fail(err, GP_LOST, "no worker has gone on for %.1f s, %s: a device hangs%s", seconds, limit,
                   its->notes ? "" : " (-v finds out in which instruction)");
}

bool gp_lookout_have_left(const gp_lookout *lookout) {
    const gp_run *run = lookout->run;
    for (int w = 0; w < run->plan->workers; w++)
        if (!gp_run_is_far(run, w) && !atomic_load(&run->workers[w].left)) return false;
    return true;
}

gp_status gp_lookout_look(gp_lookout *lookout, double awake, gp_error *err) {
    const gp_run *run = lookout->run;
    lookout->now += awake;
    for (int w = 0; w < run->plan->workers; w++) {
        if (gp_run_is_far(run, w)) continue;
        GP_RETURN_IF_FAILED(look_at_thread(lookout, w, err));
        if (lookout->notes && gp_worker_kind(&run->workers[w])->stream_noted)
            GP_RETURN_IF_FAILED(look_at_queue(lookout, w, err));
    }
    return lookout->alone ? look_at_all(lookout, err) : GP_OK;
}
