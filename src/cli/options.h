/* The command line of gpipe-train: options, their help, and what is refused.
 *
 * Texts and their list stay argv's. The main thread only. */
#ifndef GP_CLI_OPTIONS_H
#define GP_CLI_OPTIONS_H

#include <stdbool.h>

#include "base/status.h"
#include "train/capture.h"
#include "train/progress.h"
#include "train/tracing.h"

typedef struct gp_options {
    const char *config;
    const char *folder;     /* NULL: the default */
    const char **overrides; /* of --set; the first words of argv */
    int override_count;
    const char *predict; /* file to write; NULL: trains */
    const char *svg;     /* picture of the plan to write; NULL: none */
    const char *weights; /* of a prediction; NULL: the run folder's */
    int processors;      /* that a plan's prediction is for; 0: those of this machine */
    bool plan, check, json, expand, force, resume, help, version;
    gp_verbosity verbosity;
    gp_trace_options trace;
    gp_capture_options capture;
} gp_options;

/* GP_USAGE with a sentence. Moves the arguments of --set to the front of argv. */
GP_MUST_USE gp_status gp_options_parse(int argc, char **argv, gp_options *out, gp_error *err);
const char *gp_options_help(void);

#endif
