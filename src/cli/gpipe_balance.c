/* gpipe-balance: options and exit status. Everything that a test would want to call lives in the rooms below. */
#include <stdio.h>

#include "base/printable.h"
#include "base/replace.h"
#include "cli/balance_options.h"
#include "cli/process.h"
#include "config/splice.h"
#include "profile/profile_file.h"
#include "report/balance_report.h"
#include "report/balance_write.h"
#include "session/inputs.h"
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
    tell_written(options, "fastest plan");
    return GP_OK;
}

static gp_status search(const gp_balance_options *options, gp_error *err) {
    gp_search found;
    const gp_search_request request = {.config = options->config,
                                       .overrides = options->overrides,
                                       .override_count = options->override_count,
                                       .profile = options->profile,
                                       .seconds = options->seconds,
                                       .again = options->again,
                                       .processors = options->processors,
                                       .notice = options->quiet ? NULL : stderr};
    gp_status status = gp_search_run(&request, &found, err);
    if (status == GP_OK) status = report_search(&found, options, err);
    gp_search_fini(&found);
    return status;
}

static gp_status run(const gp_balance_options *options, gp_error *err) {
    gp_config *config = NULL;
    gp_session *session = NULL;
    if (options->simulate) return gp_what_if_answer_file(options->simulate, options->json, stdout, err);
    /* Before the seconds that measuring takes. */
    if (options->write) GP_RETURN_IF_FAILED(gp_yaml_check_replaceable(options->config, err));
    if (options->search) return search(options, err);
    GP_RETURN_IF_FAILED(
        gp_config_load(GP_TO_BALANCE, options->config, options->overrides, options->override_count, &config, err));
    gp_status status = gp_inputs_check_output(config, "-o", options->out, err);
    if (status == GP_OK && options->out) status = gp_file_check_kind(options->out, gp_profile_head, "profile", err);
    if (status != GP_OK) {
        gp_config_destroy(&config);
        return status;
    }
    const gp_session_options session_options = {.balances = true,
                                                .orders = options->orders,
                                                .profiling = GP_PROFILING_MEASURE,
                                                .profile = options->profile,
                                                .profile_out = options->out,
                                                .again = options->again || options->out,
                                                .seconds = options->seconds,
                                                .processors = options->processors,
                                                .notice = options->quiet ? NULL : stderr};
    GP_RETURN_IF_FAILED(gp_session_open(&config, &session_options, &session, err));
    status = balance(session, options, err);
    gp_session_close(&session);
    return status;
}

int main(int argc, char **argv) {
    gp_error err = {0};
    gp_balance_options options = {0};
    gp_process_begin(argv);
    gp_status status = gp_balance_options_parse(argc, argv, &options, &err);
    if (status == GP_OK && options.help)
        fputs(gp_balance_options_help(), stdout);
    else if (status == GP_OK && options.version)
        printf("gpipe-balance %s\n", GP_VERSION);
    else if (status == GP_OK)
        status = run(&options, &err);
    return gp_process_end("gpipe-balance", status, &err);
}
