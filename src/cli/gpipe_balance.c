/* gpipe-balance: options and exit status. Everything that a test would want to call lives in the rooms below. */
#include <stdio.h>
#include <stdlib.h>

#include "base/printable.h"
#include "base/replace.h"
#include "cli/balance_options.h"
#include "cli/process.h"
#include "config/splice.h"
#include "profile/profile_file.h"
#include "report/balance_report.h"
#include "report/balance_write.h"
#include "process/launch.h"
#include "process/processes.h"
#include "session/inputs.h"
#include "train/opening.h"
#include "tune/search.h"
#include "tune/what_if.h"

static void tell_written(const gp_balance_options *options, const char *what) {
    if (!options->json) gp_print(stdout, "%s: the %s was written\n", options->config, what);
}

static gp_status balance(gp_session *session, const gp_balance_options *options, gp_error *err) {
    const gp_command command = {options->config, options->overrides, options->override_count,
                                options->profile ? options->profile : options->out, options->processors};
    GP_RETURN_IF_FAILED(options->json ? gp_balance_report_json(session, stdout, err)
                                      : gp_balance_report(session, &command, stdout, err));
    if (!options->write) return GP_OK;
    GP_RETURN_IF_FAILED(gp_balance_write(session, options->config, err));
    tell_written(options, "balance");
    return GP_OK;
}

static gp_status report_search(const gp_search *found, const gp_balance_options *options, gp_error *err) {
    GP_RETURN_IF_FAILED(options->json ? gp_search_report_json(found, stdout, err)
                                      : gp_search_report(found, stdout, err));
    if (!options->write) return GP_OK;
    GP_RETURN_IF_FAILED(gp_search_write(found, options->config, err));
    tell_written(options, "recommended plan");
    return GP_OK;
}

/* What a launcher started. */
typedef struct launch {
    int processes;             /* that it started; 0: this one is alone */
    const int *machines;       /* [process]; NULL: not known */
    const gp_helpers *helpers; /* NULL: nothing is measured, or without the other processes */
    int processors;            /* of this machine, for all of its processes; 0: not known */
} launch;

static gp_status search(const gp_balance_options *options, const launch *launched, gp_error *err) {
    gp_search found;
    const gp_search_request request = {.processes = launched->processes,
                                       .machines = launched->machines,
                                       .helpers = launched->helpers,
                                       .config = options->config,
                                       .overrides = options->overrides,
                                       .override_count = options->override_count,
                                       .frees = options->frees,
                                       .frees_micro_batches = options->frees_micro_batches,
                                       .frees_replicas = options->frees_replicas,
                                       .profile = options->profile,
                                       .seconds = options->seconds,
                                       .again = options->again,
                                       .processors = options->processors ? options->processors : launched->processors,
                                       .notice = options->quiet ? NULL : stderr};
    gp_status status = gp_search_run(&request, &found, err);
    if (status == GP_OK) status = report_search(&found, options, err);
    gp_search_fini(&found);
    return status;
}

static gp_status run(const gp_balance_options *options, const launch *launched, gp_error *err) {
    gp_config *config = NULL;
    gp_session *session = NULL;
    if (options->simulate) return gp_what_if_answer_file(options->simulate, options->json, stdout, err);
    /* Before the seconds that measuring takes. */
    if (options->write) GP_RETURN_IF_FAILED(gp_yaml_check_replaceable(options->config, err));
    if (options->search) return search(options, launched, err);
    GP_RETURN_IF_FAILED(
        gp_config_load(GP_TO_BALANCE, options->config, options->overrides, options->override_count, &config, err));
    gp_status status = gp_inputs_check_output(config, "-o", options->out, err);
    if (status == GP_OK && options->out) status = gp_file_check_kind(options->out, gp_profile_head, "profile", err);
    if (status != GP_OK) {
        gp_config_destroy(&config);
        return status;
    }
    const gp_session_options session_options = {.processes = launched->processes,
                                                .machines = launched->machines,
                                                .helpers = launched->helpers,
                                                .balances = true,
                                                .orders = options->orders,
                                                .profiling = GP_PROFILING_MEASURE,
                                                .profile = options->profile,
                                                .profile_out = options->out,
                                                .again = options->again || options->out,
                                                .seconds = options->seconds,
                                                .processors =
                                                    options->processors ? options->processors : launched->processors,
                                                .notice = options->quiet ? NULL : stderr};
    GP_RETURN_IF_FAILED(gp_session_open(&config, &session_options, &session, err));
    status = balance(session, options, err);
    gp_session_close(&session);
    return status;
}

/* Process 0, when the others may help. */
static gp_status run_first(const gp_balance_options *options, gp_processes *processes, gp_error *err) {
    gp_opening_helpers others = {.processes = processes};
    const gp_helpers helpers = gp_opening_help(&others);
    const launch launched = {gp_processes_wire(processes)->processes, gp_processes_machines(processes), &helpers,
                             gp_processes_processors(processes)};
    gp_status status = run(options, &launched, err);
    gp_opening_helpers_fini(&others);
    return status == GP_OK ? gp_opening_decline(processes, err) : status;
}

/* Another process: it helps to measure links, until process 0 says that there is nothing to run. */
static gp_status help(gp_processes *processes, gp_error *err) {
    gp_opening opening = {0};
    gp_status status = gp_opening_receive(processes, &opening, err);
    if (status == GP_OK && opening.text)
        status = gp_fail(err, GP_UNSUPPORTED, "it runs gpipe-balance, but process 0 trains: start one program");
    gp_opening_fini(&opening);
    return status == GP_OK ? GP_OK : gp_error_context(err, "process %d: ", gp_processes_wire(processes)->rank);
}

/* What ends one of them ends all, and is said once. */
static gp_status run_together(const gp_balance_options *options, uint64_t task, int rank, gp_processes **together,
                              bool *says, gp_error *err) {
    if (gp_processes_open(task, together, err) != GP_OK) {
        *says = gp_process_says_alone(rank);
        return err->status;
    }
    gp_status status = rank == 0 ? run_first(options, *together, err) : help(*together, err);
    *says = gp_processes_end(*together, &status, err);
    return status;
}

/* Process 0 does it alone if there is nothing to measure, or if no message can be sent. */
static gp_status run_launched(const gp_balance_options *options, uint64_t task, int count, int rank,
                              gp_processes **together, bool *says, gp_error *err) {
    launch launched = {.processes = count > 1 ? count : 0};
    int *machines = NULL;
    bool measures = !options->simulate && !options->profile && gp_processes_are_built();
    if (count > 1 && measures) return run_together(options, task, rank, together, says, err);
    if (rank > 0) return GP_OK;
    GP_RETURN_IF_FAILED(gp_launch_machines(launched.processes, &machines, err));
    launched.machines = machines;
    if (count > 1) launched.processors = gp_launch_processors(machines, count);
    gp_status status = run(options, &launched, err);
    free(machines);
    return status;
}

int main(int argc, char **argv) {
    gp_error err = {0};
    gp_balance_options options = {0};
    int count, rank;
    gp_process_begin(argv);
    gp_launch_find(&count, &rank);
    bool says = rank == 0;
    gp_processes *together = NULL;
    uint64_t task = gp_processes_task(argc, argv);
    gp_status status = gp_balance_options_parse(argc, argv, &options, &err);
    if (status != GP_OK && count > 1) status = gp_process_refuse_together(task, status, &together, &says, &err);
    if (options.json) gp_process_keep_output();
    if (status == GP_OK && !says && (options.help || options.version)) return 0;
    if (status == GP_OK && options.help)
        fputs(gp_balance_options_help(), stdout);
    else if (status == GP_OK && options.version)
        printf("gpipe-balance %s\n", GP_VERSION);
    else if (status == GP_OK)
        status = run_launched(&options, task, count, rank, &together, &says, &err);
    if (!says) err.text[0] = '\0';
    return gp_process_end("gpipe-balance", &together, status, &err);
}
