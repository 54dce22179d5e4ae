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
    bool notes;
    watched *workers; /* [worker] */
};

size_t gp_lookout_expected_count(const gp_plan *plan) {
    return (size_t)plan->mini_count * (size_t)plan->stages->count * GP_INSTR_OPS;
}

gp_status gp_lookout_create(gp_run *run, double timeout, const double *expected, gp_lookout **out, gp_error *err) {
    gp_lookout *its = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    *its = (gp_lookout){.run = run, .timeout = timeout, .expected = expected, .notes = run->notes};
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

/* Whether that is too long. */
static gp_status judge(const gp_lookout *its, int worker, int mini, const gp_instr *instr, double seconds,
                       gp_error *err) {
    const gp_plan *plan = its->run->plan;
    double expected = its->expected ? its->expected[gp_lookout_expected_index(plan, mini, instr)] : 0;
    bool longer = GP_LOOKOUT_TIMES * expected > its->timeout;
    char text[GP_INSTR_TEXT], limit[96], number[GP_NUMBER_TEXT];
    if (seconds <= (longer ? GP_LOOKOUT_TIMES * expected : its->timeout)) return GP_OK;
    if (longer)
        snprintf(limit, sizeof limit, "more than %d times as long as predicted (%s s)", GP_LOOKOUT_TIMES,
                 gp_rounded_text(number, expected, 3));
    else
        snprintf(limit, sizeof limit, "longer than pipeline.timeout (%s s)", gp_number_text(number, its->timeout));
    return gp_fail(err, GP_LOST, "process %d: worker %d (%s) has computed %s for %.1f s, %s", plan->rank, worker,
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

gp_status gp_lookout_look(gp_lookout *lookout, double awake, gp_error *err) {
    const gp_run *run = lookout->run;
    lookout->now += awake;
    for (int w = 0; w < run->plan->workers; w++) {
        if (gp_run_is_far(run, w)) continue;
        GP_RETURN_IF_FAILED(look_at_thread(lookout, w, err));
        if (lookout->notes && gp_worker_kind(&run->workers[w])->stream_noted)
            GP_RETURN_IF_FAILED(look_at_queue(lookout, w, err));
    }
    return GP_OK;
}
