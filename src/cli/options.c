#include "cli/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/read.h"

enum { OPTION_SET = 256, OPTION_PLAN, OPTION_FORCE, OPTION_VERSION };

static const struct option long_options[] = {
    {"set", required_argument, NULL, OPTION_SET},   {"plan", no_argument, NULL, OPTION_PLAN},
    {"force", no_argument, NULL, OPTION_FORCE},     {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION}, {NULL, 0, NULL, 0}};

static const char *const known[] = {"--set", "--plan", "--force", "--help", "--version", NULL};
static const char *const later[] = {"--expand", "--resume", "--trace", "--trace-steps", NULL};

const char *gp_options_help(void) {
    return "usage: gpipe-train [options] config.yaml\n"
           "\n"
           "Trains the network that config.yaml describes, cut into pipeline stages.\n"
           "\n"
           "  -o DIR                run folder (default: runs/<name of the configuration>)\n"
           "  --force               write over a run that the folder holds\n"
           "  --set key.path=value  change the configuration; may be repeated\n"
           "  --plan                print stages, copies, memory, schedule and expected time; train nothing\n"
           "  -q                    print nothing but errors\n"
           "  -v                    print the plan before training\n"
           "  --help, --version\n"
           "\n"
           "The run folder gets metrics.jsonl, model.safetensors and config.yaml, the configuration as it ran.\n"
           "Ctrl-C and SIGTERM end the run after the current step, with everything saved; a second one at once.\n"
           "Exit status: 0 done; 1 the run failed; 2 the command line or the configuration is wrong.\n";
}

static gp_status refuse(const char *argument, gp_error *err) {
    size_t length = strcspn(argument, "=");
    for (size_t i = 0; later[i]; i++)
        if (strlen(later[i]) == length && strncmp(argument, later[i], length) == 0)
            return gp_fail(err, GP_USAGE, "option %s is not available yet", later[i]);
    const char *near = strncmp(argument, "--", 2) == 0 ? gp_nearest_name(argument, known) : NULL;
    if (near) return gp_fail(err, GP_USAGE, "unknown option %s: did you mean %s?", argument, near);
    return gp_fail(err, GP_USAGE, "unknown option %s: see gpipe-train --help", argument);
}

static gp_status take(gp_options *options, int option, const char *argument, gp_error *err) {
    switch (option) {
    case 'o': options->folder = optarg; break;
    case 'q': options->verbosity = GP_QUIET; break;
    case 'v': options->verbosity = GP_VERBOSE; break;
    case 'h': options->help = true; break;
    case OPTION_SET: options->overrides[options->override_count++] = optarg; break;
    case OPTION_PLAN: options->plan = true; break;
    case OPTION_FORCE: options->force = true; break;
    case OPTION_VERSION: options->version = true; break;
    case ':': return gp_fail(err, GP_USAGE, "option %s needs a value", argument);
    default: return refuse(argument, err);
    }
    return GP_OK;
}

gp_status gp_options_parse(int argc, char **argv, gp_options *out, gp_error *err) {
    gp_options options = {.verbosity = GP_NORMAL};
    GP_RETURN_IF_FAILED(GP_NEW(&options.overrides, argc, err));
    gp_status status = GP_OK;
    opterr = 0;
    optind = 1;
    while (status == GP_OK) {
        int at = optind;
        int option = getopt_long(argc, argv, ":o:qvh", long_options, NULL);
        if (option < 0) break;
        status = take(&options, option, argv[at < argc ? at : argc - 1], err);
    }
    bool informs = options.help || options.version;
    if (status == GP_OK && !informs && optind >= argc)
        status = gp_fail(err, GP_USAGE, "which configuration? usage: gpipe-train [options] config.yaml");
    if (status == GP_OK && !informs && optind + 1 < argc)
        status = gp_fail(err, GP_USAGE, "one configuration at a time: %s is one too many", argv[optind + 1]);
    if (status == GP_OK && options.folder && !*options.folder)
        status = gp_fail(err, GP_USAGE, "option -o needs the name of a folder");
    if (status != GP_OK) {
        gp_options_fini(&options);
        return status;
    }
    options.config = informs ? NULL : argv[optind];
    *out = options;
    return GP_OK;
}

void gp_options_fini(gp_options *options) {
    free(options->overrides);
    options->overrides = NULL;
}
