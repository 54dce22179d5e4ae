/* gpipe-train: options, signals, exit status. Everything that a test would want to call lives in the rooms below. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/replace.h"
#include "cli/options.h"
#include "cli/process.h"
#include "process/launch.h"
#include "report/expand.h"
#include "report/plan_check.h"
#include "report/plan_json.h"
#include "report/plan_report.h"
#include "report/plan_svg.h"
#include "report/warnings.h"
#include "session/inputs.h"
#include "store/folder.h"
#include "train/follow.h"
#include "train/opening.h"
#include "train/predict.h"
#include "train/trainer.h"

static volatile sig_atomic_t stop;
/* Of a run that a launcher started as several; NULL: this process is alone. Atomic for the handler of signals. */
static gp_processes *_Atomic processes;

/* The first signal asks the run to end after its step. A second one, of either kind, ends the process at once if it
 * comes a second or more later: Slurm sends several within milliseconds when the time of a job is over. Any thread may
 * get them; all calls are allowed in a handler of signals. */
static void on_signal(int number) {
    enum { LATER = 1000000000 };
    static _Atomic int64_t first; /* nanoseconds; 0: none has come */
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    gp_processes *its = processes;
    int before = errno;
    int64_t now = (int64_t)gp_clock(), began = 0;
    stop = 1;
    if (its) gp_processes_ask_stop(its);
    if (!atomic_compare_exchange_strong(&first, &began, now) && now - began >= LATER) {
        sigaction(SIGINT, &usual, NULL);
        sigaction(SIGTERM, &usual, NULL);
        raise(number); /* it comes when this handler has ended */
    }
    errno = before;
}

/* A reader of the progress that went away is an error of a write, not the end of a run. */
static void prepare_signals(void) {
    signal(SIGPIPE, SIG_IGN);
    gp_process_on_interrupt(on_signal);
}

/* A script's shell lets its background jobs ignore SIGINT: kill -INT would do nothing, and not say why. */
static void tell_ignored_interrupt(void) {
    struct sigaction now;
    if (isatty(STDOUT_FILENO) || sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler != SIG_IGN) return;
    printf("the parent process ignores SIGINT (Ctrl-C): stop the run with SIGTERM (kill %ld)\n", (long)getpid());
}

/* A run, or its plan. */
typedef struct run {
    const gp_options *options;
    char *folder;
    gp_config *config; /* NULL: the session has it */
    gp_session *session;
    int processes;    /* that a launcher started; 0: it is alone */
    int *machines;    /* [process] as far as it is known; NULL: not. Of a plan */
    bool locked;      /* the run folder is this process's */
    bool goes_on;     /* from a snapshot */
    bool begins;      /* --resume found none */
    gp_resume resume; /* what it goes on from */
} run;

static void run_fini(run *r) {
    gp_session_close(&r->session);
    gp_resume_close(&r->resume);
    gp_config_destroy(&r->config);
    free(r->folder);
    free(r->machines);
}

static gp_status report_plan(const gp_session *session, const gp_options *options, gp_error *err) {
    size_t *memory = NULL;
    if (session->plan->processes > 1)
        GP_RETURN_IF_FAILED(gp_host_memory_processes(session, &options->trace, &memory, err));
    gp_status status = gp_plan_report(session->plan, session->profile, &session->host, memory, stdout, err);
    free(memory);
    if (status == GP_OK) gp_rate_warn(session, true, stdout);
    return status;
}

static gp_status train_on(run *r, gp_error *err) {
    const gp_options *options = r->options;
    const gp_train_options train_options = {.folder = r->folder,
                                            .verbosity = options->verbosity,
                                            .stop = &stop,
                                            .trace = options->trace,
                                            .capture = options->capture,
                                            .resume = r->goes_on ? &r->resume : NULL,
                                            .processes = processes};
    if (options->verbosity == GP_VERBOSE) {
        const gp_session *session = r->session;
        char program[32];
        gp_error failure = {0};
        if (report_plan(session, options, &failure) != GP_OK && failure.status != GP_IO) {
            *err = failure;
            return failure.status;
        } /* without an output the run goes on, and says so at its end */
        printf("\nhost memory that the program and its libraries hold before the run: %s\n\n",
               gp_bytes_text(program, session->host.program));
    }
    if (options->verbosity != GP_QUIET && r->begins)
        gp_print(stdout, "%s has no snapshot to go on from: the run begins at step 1\n", r->folder);
    if (options->verbosity != GP_QUIET) tell_ignored_interrupt();
    return gp_train(r->session, &train_options, err);
}

/* What the folder must allow before anything is written into it. */
static gp_status check_folder(const run *r, const gp_config *config, gp_error *err) {
    const gp_options *options = r->options;
    GP_RETURN_IF_FAILED(gp_folder_check_own(r->folder, err));
    GP_RETURN_IF_FAILED(gp_folder_check_config(r->folder, options->config, err));
    GP_RETURN_IF_FAILED(gp_inputs_check_folder(config, r->folder, options->trace.path, err));
    return options->resume || options->force ? GP_OK : gp_folder_check_unused(r->folder, err);
}

static gp_status check_processes(const gp_session *session, gp_error *err) {
    int needed = session->plan->processes;
    if (needed == 1 || processes) return GP_OK;
    return gp_fail_at(
        err, GP_CONFIG, session->config->pipeline.devices[0].place,
        "pipeline.devices: the ranks need %d processes, but the program was started as one; start it with "
        "mpirun -np %d gpipe-train",
        needed, needed);
}

/* Makes the folder and holds it. Another run may have been there since --resume found none. */
static gp_status take_folder(run *r, gp_error *err) {
    bool found = false;
    if (r->locked) return GP_OK;
    GP_RETURN_IF_FAILED(gp_folder_make(r->folder, err));
    GP_RETURN_IF_FAILED(gp_folder_lock(r->folder, &r->locked, err));
    if (r->begins) GP_RETURN_IF_FAILED(gp_resume_find(r->folder, &found, err));
    return found ? gp_fail(err, GP_USAGE, "%s: another gpipe-train has trained there meanwhile", r->folder) : GP_OK;
}

/* A run that goes on has locked its folder before. */
static gp_status train(run *r, gp_error *err) {
    const gp_options *options = r->options;
    GP_RETURN_IF_FAILED(check_processes(r->session, err));
    int64_t from = r->resume.snapshot.reached.step, steps = r->session->steps;
    if (!r->resume.finished)
        GP_RETURN_IF_FAILED(gp_capture_check(&options->capture, r->session->plan, from, steps, err));
    GP_RETURN_IF_FAILED(gp_session_check_machine(r->session, err));
    prepare_signals();
    GP_RETURN_IF_FAILED(take_folder(r, err));
    GP_RETURN_IF_FAILED(check_folder(r, r->session->whole, err));
    if (r->goes_on) GP_RETURN_IF_FAILED(gp_resume_check(&r->resume, r->session, r->folder, err));
    if (r->goes_on && !r->resume.finished)
        GP_RETURN_IF_FAILED(gp_trace_options_check(&options->trace, from, steps, err));
    if (!r->resume.finished) return train_on(r, err);
    if (processes) GP_RETURN_IF_FAILED(gp_opening_decline(processes, err));
    if (options->verbosity != GP_QUIET)
        gp_print(stdout,
                 "%s: nothing is left to do: the run has done %" PRId64 " of %" PRId64
                 " steps; to train on, raise train.steps or train.epochs with --set\n",
                 r->folder, from, steps);
    return GP_OK;
}

static gp_status print_plan_json(const gp_session *session, const gp_options *options, gp_error *err) {
    gp_plan_json json = gp_plan_json_of(session);
    json.all = true;
    if (options->svg) GP_RETURN_IF_FAILED(gp_plan_svg_write(session->plan, session->profile, options->svg, err));
    return gp_plan_json_print(&json, stdout, err);
}

/* --plan, and --svg; with -v the programs themselves follow, in the text form that reads back. */
static gp_status print_plan(const gp_session *session, const gp_options *options, gp_error *err) {
    const gp_plan *plan = session->plan;
    if (options->json) return print_plan_json(session, options, err);
    GP_RETURN_IF_FAILED(report_plan(session, options, err));
    gp_precision_advise(session, true, stdout);
    gp_normalize_warn(session, true, stdout);
    for (int i = 0; i < session->later_count; i++) {
        const gp_change *change = &session->whole->changes[session->changes + i];
        for (int k = 0; k < change->settings.count; k++)
            gp_print(stdout, "from step %" PRId64 " on: %s is %s; the plan fits\n", change->step,
                     change->settings.item[k].path, change->settings.item[k].value);
    }
    if (options->svg) GP_RETURN_IF_FAILED(gp_plan_svg_write(plan, session->profile, options->svg, err));
    for (int m = 0; m < plan->mini_count && options->verbosity == GP_VERBOSE; m++) {
        char *text = NULL;
        GP_RETURN_IF_FAILED(gp_programs_write(plan->minis[m].programs, &text, err));
        printf("\n# %s, a mini-batch of %" PRId64 " samples\n%s", plan->minis[m].training ? "training" : "evaluation",
               plan->minis[m].samples, text);
        free(text);
    }
    return GP_OK;
}

/* Not a word of the configuration is about training now: it may have no data for it. The list of overrides has a place
 * for one more, since it lies in argv. */
static gp_status load_for_prediction(const gp_options *options, gp_config **out, gp_error *err) {
    options->overrides[options->override_count] = "train.steps=0";
    return gp_config_load(GP_TO_RUN, options->config, options->overrides, options->override_count + 1, out, err);
}

static gp_status find_weights(const gp_options *options, char **out, gp_error *err) {
    const gp_path folder = gp_folder_default(options->config);
    if (options->weights) return gp_copy_text(out, options->weights, err);
    const gp_path model = gp_folder_file(options->folder ? options->folder : folder.text, "model.safetensors");
    return gp_copy_text(out, model.text, err);
}

static gp_status predict(const gp_options *options, gp_error *err) {
    const gp_predict_options predict_options = {options->predict, options->verbosity, &stop};
    gp_config *config = NULL;
    gp_session *session = NULL;
    char *weights = NULL;
    GP_RETURN_IF_FAILED(load_for_prediction(options, &config, err));
    gp_status status = find_weights(options, &weights, err);
    if (status == GP_OK && !options->weights && access(weights, F_OK) != 0 && errno == ENOENT)
        status =
            gp_fail(err, GP_DATA,
                    "%s: cannot be opened: %s; the run has no trained model yet: train first, or name a model with "
                    "--weights",
                    weights, strerror(ENOENT));
    if (status == GP_OK)
        status = gp_session_open(&config, &(gp_session_options){.weights = weights}, &session, err);
    else
        gp_config_destroy(&config);
    if (status == GP_OK) status = gp_session_check_machine(session, err);
    prepare_signals();
    if (status == GP_OK) status = gp_predict(session, &predict_options, err);
    gp_session_close(&session);
    free(weights);
    return status;
}

/* Before the seconds that finding a balance may take. Another program's folder is in use, whatever it holds; where
 * nothing is said against it, train looks again when it is there, and holds it. */
static gp_status check_outputs(const run *r, gp_error *err) {
    const gp_options *options = r->options;
    gp_error held = {0};
    bool there;
    GP_RETURN_IF_FAILED(gp_inputs_check_output(r->config, "--svg", options->svg, err));
    if (options->svg) GP_RETURN_IF_FAILED(gp_file_check_kind(options->svg, gp_plan_svg_head, "picture of a plan", err));
    GP_RETURN_IF_FAILED(gp_inputs_check_output(r->config, "--trace", options->trace.path, err));
    if (options->plan || options->check) return GP_OK;
    gp_status status = check_folder(r, r->config, err);
    if (status != GP_OK && gp_folder_lock(r->folder, &there, &held) != GP_OK) *err = held;
    return status == GP_OK ? GP_OK : err->status;
}

static gp_status open_session(run *r, gp_error *err) {
    const gp_options *options = r->options;
    gp_opening_helpers others = {.processes = processes};
    const gp_helpers helpers = processes ? gp_opening_help(&others) : (gp_helpers){0};
    if (!processes) GP_RETURN_IF_FAILED(gp_launch_machines(r->processes, &r->machines, err));
    const gp_session_options session_options = {
        .norms = options->verbosity == GP_VERBOSE && !options->plan && !options->check,
        .processes = r->processes,
        .machines = processes ? gp_processes_machines(processes) : r->machines,
        .helpers = processes ? &helpers : NULL,
        .resumes = options->resume && !r->begins,
        .step = r->resume.step,
        .profiling = options->plan || options->check ? GP_PROFILING_FIND : GP_PROFILING_MEASURE,
        .notice = options->verbosity == GP_QUIET    ? NULL
                  : options->json || options->check ? stderr
                                                    : stdout,
        .processors = options->processors ? options->processors
                      : processes         ? gp_processes_processors(processes)
                                          : gp_launch_processors(r->machines, r->processes),
        .trace = &options->trace};
    gp_status status = gp_session_open(&r->config, &session_options, &r->session, err);
    gp_opening_helpers_fini(&others);
    return status;
}

/* --resume. The folder is locked before its snapshot is read: the run goes on with the configuration that the snapshot
 * names. Without a snapshot it begins, with that of the file and the command line. */
static gp_status resume(run *r, gp_error *err) {
    const gp_options *options = r->options;
    GP_RETURN_IF_FAILED(gp_folder_lock(r->folder, &r->locked, err));
    GP_RETURN_IF_FAILED(gp_resume_find(r->folder, &r->goes_on, err));
    if (r->goes_on) return gp_resume_open(&r->config, r->folder, &r->resume, err);
    r->begins = true;
    gp_config_destroy(&r->config);
    GP_RETURN_IF_FAILED(
        gp_config_load(GP_TO_RUN, options->config, options->overrides, options->override_count, &r->config, err));
    return check_outputs(r, err);
}

static gp_status plan_or_train(run *r, gp_error *err) {
    const gp_options *options = r->options;
    const gp_path usual = gp_folder_default(options->config);
    GP_RETURN_IF_FAILED(gp_copy_text(&r->folder, options->folder ? options->folder : usual.text, err));
    GP_RETURN_IF_FAILED(check_outputs(r, err));
    if (r->goes_on) GP_RETURN_IF_FAILED(resume(r, err));
    if (processes) gp_processes_set_timeout(processes, r->config->pipeline.timeout); /* measuring may take long */
    GP_RETURN_IF_FAILED(open_session(r, err));
    if (options->check) return gp_plan_check(r->session, stdout, err);
    return options->plan ? print_plan(r->session, options, err) : train(r, err);
}

static gp_status run_with(const gp_options *options, int launched, gp_error *err) {
    run r = {.options = options,
             .processes = launched > 1 ? launched : 0,
             .goes_on = options->resume && !options->plan && !options->expand};
    if (options->predict) return predict(options, err);
    if (options->check && gp_is_plan_file(options->config)) return gp_plan_file_check(options->config, stdout, err);
    GP_RETURN_IF_FAILED(gp_config_load(r.goes_on ? GP_TO_RESUME : GP_TO_RUN, options->config, options->overrides,
                                       options->override_count, &r.config, err));
    gp_status status = options->expand ? gp_expand(&r.config, stdout, err) : plan_or_train(&r, err);
    run_fini(&r);
    return status;
}

/* Whether all processes take part; else process 0 does it alone. */
static bool trains(const gp_options *options) {
    return !options->plan && !options->check && !options->expand && !options->predict;
}

/* Process 0 trains, and the others follow it. What ends one of them ends all, and is said once. */
static gp_status run_together(const gp_options *options, uint64_t task, int launched, int rank, gp_processes **together,
                              bool *says, gp_error *err) {
    *says = rank == 0;
    prepare_signals(); /* a process that ended by itself now would count as lost */
    if (gp_processes_open(task, together, err) != GP_OK) {
        *says = gp_process_says_alone(rank);
        return err->status;
    }
    gp_processes *its = *together;
    processes = its;
    if (stop) gp_processes_ask_stop(its); /* it came before there was anyone to ask */
    gp_status status = gp_opening_compare_file(its, options->config, err);
    if (status == GP_OK) status = rank == 0 ? run_with(options, launched, err) : gp_follow(its, err);
    processes = NULL; /* for the handler of signals */
    *says = gp_processes_end(its, &status, err);
    return status;
}

static gp_status run_launched(const gp_options *options, uint64_t task, gp_processes **together, bool *says,
                              gp_error *err) {
    int launched, rank;
    gp_launch_find(&launched, &rank);
    if (launched > 1 && trains(options)) return run_together(options, task, launched, rank, together, says, err);
    *says = rank == 0;
    return rank == 0 ? run_with(options, launched, err) : GP_OK;
}

static void print_version(void) {
    printf("gpipe-train %s\nMPI: %s\n", GP_VERSION, gp_processes_are_built() ? gp_processes_library() : "none");
}

int main(int argc, char **argv) {
    gp_error err = {0};
    gp_options options = {0};
    int launched, rank;
    gp_process_begin(argv);
    gp_launch_find(&launched, &rank);
    bool says = rank == 0;
    gp_processes *together = NULL;
    uint64_t task = gp_processes_task(argc, argv);
    gp_status status = gp_options_parse(argc, argv, &options, &err);
    if (status != GP_OK && launched > 1) status = gp_process_refuse_together(task, status, &together, &says, &err);
    if (options.json || options.expand) gp_process_keep_output();
    if (status == GP_OK && !says && (options.help || options.version)) return 0;
    if (status == GP_OK && options.help)
        fputs(gp_options_help(), stdout);
    else if (status == GP_OK && options.version)
        print_version();
    else if (status == GP_OK)
        status = run_launched(&options, task, &together, &says, &err);
    if (!says) err.text[0] = '\0';
    return gp_process_end("gpipe-train", &together, status, &err);
}
