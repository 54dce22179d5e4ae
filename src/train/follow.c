#include "train/follow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
#include "pipeline/follow.h"
#include "plan/loads.h"
#include "session/loaders.h"
#include "store/held.h"
#include "store/parts.h"
#include "train/lookout.h"
#include "train/opening.h"

/* The data of a process whose stages load some. */
typedef struct follower {
    gp_processes *processes;
    gp_opening opening;
    gp_folder_held folder; /* the run's, if this process sees it */
    gp_phase *phase;       /* of the configuration that holds, or comes to hold */
    gp_session *session;
    gp_run *run;
    gp_held *held; /* between two configurations */
    gp_train_lookout lookout;
    gp_loader *training, *evaluation; /* NULL: none, or not needed */
    bool evaluates;                   /* the evaluation's loader has begun */
    gp_batch batch;                   /* the last one that was taken */
    bool of_training;                 /* it is of the training data */
    bool any;                         /* there is one */
    bool refuses;                     /* a sample that this process has read is wrong */
} follower;

/* ---- mini-batches ------------------------------------------------------------------------------------------------ */

/* A loader begins again only after its last mini-batch was taken. */
static gp_status begin_evaluation(follower *f, gp_error *err) {
    const gp_batch *rest = NULL;
    if (f->evaluates) GP_RETURN_IF_FAILED(gp_loader_take(f->evaluation, &rest, err));
    if (rest) return gp_fail(err, GP_INTERNAL, "an evaluation began within another one");
    f->evaluates = true;
    return gp_loader_restart(f->evaluation, err);
}

static gp_status take_next(follower *f, bool training, int64_t index, gp_error *err) {
    const gp_batch *batch = NULL;
    gp_loader *loader = training ? f->training : f->evaluation;
    f->any = false;
    if (!loader) return gp_fail(err, GP_INTERNAL, "process 0 calls for data that this process does not have");
    if (!training && index == 0) GP_RETURN_IF_FAILED(begin_evaluation(f, err));
    GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
    if (!batch) return gp_fail(err, GP_INTERNAL, "the data ended before those of process 0");
    f->batch = *batch;
    f->of_training = training;
    f->any = true;
    return GP_OK;
}

/* Bad data are the same in all processes: the sentence is that of a run of one process. */
static gp_status refuse_data(follower *f, bool training, uint32_t step, gp_error *err) {
    f->refuses = err->status == GP_DATA;
    return training ? err->status : gp_error_context(err, "evaluation after step %" PRIu32 ": ", step);
}

static gp_status take(void *context, bool training, int64_t epoch, int64_t index, int64_t samples, gp_step_input *out,
                      int64_t *counted, gp_error *err) {
    follower *f = context;
    bool again = f->any && f->of_training == training && f->batch.epoch == epoch && f->batch.index == index;
    if (!again && take_next(f, training, index, err) != GP_OK) return refuse_data(f, training, out->step, err);
    if (f->batch.epoch != epoch || f->batch.index != index || f->batch.samples != samples)
        return gp_fail(err, GP_INTERNAL,
                       "this process is at mini-batch %" PRId64 " of epoch %" PRId64 ", but process 0 at %" PRId64
                       " of epoch %" PRId64,
                       f->batch.index, f->batch.epoch, index, epoch);
    out->input = f->batch.input;
    out->target = f->batch.target;
    *counted = f->batch.counted;
    return GP_OK;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static gp_status give_held(follower *f, gp_error *err) {
    if (!f->held) return gp_fail(err, GP_INTERNAL, "process 0 asks for a state that this process does not hold");
    gp_status status = gp_held_give(f->held, f->run, f->session->plan, err);
    gp_held_destroy(&f->held);
    return status;
}

static gp_status see_folder(follower *f, int64_t token, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_parts_check_folder(f->opening.folder.text, token, err));
    gp_folder_release(&f->folder);
    gp_folder_hold(f->opening.folder.text, &f->folder);
    return GP_OK;
}

static gp_status answer(void *context, int question, int64_t number, gp_error *err) {
    follower *f = context;
    bool ran, moved;
    switch (question) {
    case GP_ASK_SEES: return see_folder(f, number, err);
    case GP_ASK_SAVE: {
        bool there = gp_folder_find(&f->folder, &moved, NULL) == GP_OK;
        const char *folder = there ? f->folder.path.text : f->opening.folder.text;
        gp_status status = gp_part_write(f->run, f->session->plan, folder, number, NULL, NULL, &ran, err);
        /* The others would wait for what this process has of their tensors. */
        if (status != GP_OK && !ran) (void)gp_cancel_raise(gp_run_cancel(f->run), err);
        return status;
    }
    case GP_ASK_HOLD: return gp_held_take(f->run, f->session->plan, &f->held, err);
    case GP_ASK_GIVE: return give_held(f, err);
    default: return gp_fail(err, GP_INTERNAL, "process 0 asks what this process does not know");
    }
}

/* ---- one configuration ------------------------------------------------------------------------------------------- */

static gp_status open_session(follower *f, gp_error *err) {
    const gp_config like = {
        .path = (char *)"the configuration of process 0", .folder = (char *)"/", .file_text = (char *)""};
    gp_wire *wire = gp_processes_wire(f->processes);
    gp_yaml_document *document = NULL;
    gp_config *config = NULL;
    const gp_session_options options = {.processes = wire->processes,
                                        .rank = wire->rank,
                                        .machines = gp_processes_machines(f->processes),
                                        .data_samples = f->opening.samples,
                                        .norms = f->opening.norms,
                                        .shares = f->opening.shares,
                                        .resumes = true, /* weights come from process 0 */
                                        .step = f->opening.phase,
                                        .profiling = GP_PROFILING_NONE};
    GP_RETURN_IF_FAILED(gp_yaml_parse(f->opening.text, strlen(f->opening.text), like.path, &document, err));
    gp_status status = gp_yaml_place_by_keys(document, err);
    if (status != GP_OK) gp_yaml_destroy(&document);
    GP_RETURN_IF_FAILED(status);
    GP_RETURN_IF_FAILED(gp_config_read(&like, &document, true, &config, err));
    status = gp_phase_apply(f->phase, gp_config_phase(config, gp_config_changes_until(config, f->opening.phase)), err);
    if (status != GP_OK) {
        gp_config_destroy(&config);
        return status;
    }
    GP_RETURN_IF_FAILED(gp_session_open(&config, &options, &f->session, err));
    GP_RETURN_IF_FAILED(gp_phase_check(f->phase, &f->opening, f->session->plan, err));
    return gp_session_check_machine(f->session, err);
}

static gp_status open_loaders(follower *f, int64_t step, gp_error *err) {
    const gp_session *session = f->session;
    if (session->train && session->steps > 0) {
        const gp_loader_options options = gp_loaders_training(session, step, NULL);
        GP_RETURN_IF_FAILED(gp_loader_create(session->train, &session->spec, &options, &f->training, err));
    }
    if (session->eval) {
        const gp_loader_options options = gp_loaders_evaluation(session, NULL);
        GP_RETURN_IF_FAILED(gp_loader_create(session->eval, &session->spec, &options, &f->evaluation, err));
    }
    return GP_OK;
}

static gp_status open_run(follower *f, int64_t step, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_train_lookout_share(&f->lookout, f->processes, f->session, err));
    GP_RETURN_IF_FAILED(gp_run_create_team(f->session->plan, NULL, gp_processes_wire(f->processes), &f->run, err));
    gp_processes_watch(f->processes, gp_run_cancel(f->run));
    GP_RETURN_IF_FAILED(
        gp_train_lookout_begin(&f->lookout, f->run, f->session->plan, f->session->config->pipeline.timeout, err));
    f->any = f->evaluates = false;
    return open_loaders(f, step, err);
}

static void close_run(follower *f) {
    gp_processes_watch(f->processes, NULL);
    gp_train_lookout_end(&f->lookout);
    gp_loader_destroy(&f->training);
    gp_loader_destroy(&f->evaluation);
    gp_run_destroy(&f->run);
}

/* To the next configuration. */
static gp_status change(follower *f, gp_error *err) {
    gp_session *session = f->session;
    if (session->changes == session->whole->change_count)
        return gp_fail(err, GP_INTERNAL, "process 0 goes on with a configuration that does not exist");
    GP_RETURN_IF_FAILED(gp_phase_receive(f->processes, f->phase, err));
    GP_RETURN_IF_FAILED(gp_phase_apply(f->phase, gp_config_phase(session->whole, session->changes + 1), err));
    GP_RETURN_IF_FAILED(gp_session_change(session, err));
    return gp_phase_check(f->phase, &f->opening, session->plan, err);
}

static gp_status follow(follower *f, gp_error *err) {
    int64_t step = f->opening.step;
    for (bool goes_on = true; goes_on;) {
        const gp_feed feed = {f, gp_plan_loads_any(f->session->plan, f->session->plan->rank) ? take : NULL, answer};
        GP_RETURN_IF_FAILED(open_run(f, step, err));
        GP_RETURN_IF_FAILED(gp_run_follow(f->run, &feed, &goes_on, err));
        close_run(f);
        step = f->session->until;
        if (goes_on) GP_RETURN_IF_FAILED(change(f, err));
    }
    return GP_OK;
}

gp_status gp_follow(gp_processes *processes, gp_error *err) {
    follower f = {.processes = processes, .folder = {.fd = -1}};
    gp_status status = GP_NEW(&f.phase, 1, err);
    if (status == GP_OK) status = gp_opening_receive(processes, &f.opening, err);
    if (status == GP_OK && !f.opening.text) {
        free(f.phase);
        return GP_OK;
    }
    if (status == GP_OK) gp_processes_begin_run(processes);
    if (status == GP_OK) status = gp_phase_receive(processes, f.phase, err);
    if (status == GP_OK) gp_processes_set_timeout(processes, f.opening.timeout);
    if (status == GP_OK) status = open_session(&f, err);
    if (status == GP_OK) status = follow(&f, err);
    if (status != GP_OK && !f.refuses)
        status = gp_error_context(err, "process %d: ", gp_processes_wire(processes)->rank);
    if (status != GP_OK) gp_processes_fail(processes, err); /* before closing, which takes time */
    close_run(&f);
    gp_held_destroy(&f.held);
    gp_folder_release(&f.folder);
    gp_session_close(&f.session);
    gp_opening_fini(&f.opening);
    free(f.phase);
    return status;
}
