#include "cli/options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/words.h"

enum { TRACED_STEPS = 100 };

static const char *const known[] = {"--set",   "--plan",        "--expand",  "--resume",  "--force",
                                    "--trace", "--trace-steps", "--predict", "--weights", "--processors",
                                    "--help",  "--version",     NULL};

const char *gp_options_help(void) {
    return "usage: gpipe-train [options] config.yaml\n"
           "\n"
           "Trains the network that config.yaml describes, cut into pipeline stages.\n"
           "\n"
           "  -o DIR                run folder (default: runs/<name of the configuration>)\n"
           "  --resume              go on with the run in the folder, from its newest snapshot\n"
           "  --force               write over a run that the folder holds\n"
           "  --set key.path=value  change the configuration; may be repeated\n"
           "  --plan                print stages, copies, memory, schedule and expected time; train nothing\n"
           "  --processors N        with --plan: predict for N processors (default: those that it may use)\n"
           "  --svg FILE            with --plan: draw a mini-batch as a timeline, its memory below, for a browser\n"
           "  --expand              print the configuration with its model as a list of layers; train nothing\n"
           "  --predict FILE        write what the trained model makes of data.eval, as tensor y; train nothing\n"
           "  --weights FILE        the model that predicts (default: model.safetensors of the run folder)\n"
           "  --trace FILE          write a timeline that ui.perfetto.dev shows: every instruction of every worker\n"
           "  --trace-steps A:B     of steps A to B (1:100); of one step: A\n"
           "  -q                    print nothing but errors\n"
           "  -v                    print the plan before training, norms per layer with every evaluation, and what\n"
           "                        each worker's time went to; with --plan, the workers' programs too\n"
           "  --help, --version\n"
           "\n"
           "No output may be a file that the configuration reads. The run folder may be a link; its files may not.\n"
           "The run folder gets metrics.jsonl, model.safetensors, best.safetensors where train.eval_every is set,\n"
           "snapshots as train.save_every says, and config.yaml, the configuration as it ran.\n"
           "Ctrl-C and SIGTERM end the run after the current step, with everything saved; a second one at once.\n"
           "Either is ignored if the parent process ignores it.\n"
           "Exit status: 0 done; 130 interrupted, saved; 1 the run failed; 2 the command line or the configuration is "
           "wrong.\n";
}

/* "3:10", or "3" for one step. */
static gp_status read_steps(const char *text, gp_trace_options *trace, gp_error *err) {
    int64_t first = 0, last = 0;
    int length = 0;
    bool two = sscanf(text, "%9" SCNd64 ":%9" SCNd64 "%n", &first, &last, &length) == 2 && !text[length];
    bool one = !two && sscanf(text, "%9" SCNd64 "%n", &first, &length) == 1 && !text[length];
    if (one) last = first;
    if (!(one || two) || first < 1 || last < first || !isdigit((unsigned char)*text))
        return gp_fail(err, GP_USAGE, "option --trace-steps takes the first and the last step, as in 1:100, not \"%s\"",
                       text);
    trace->first = first;
    trace->last = last;
    return GP_OK;
}

static gp_status take_trace_steps(gp_options *options, const char *word, size_t length, gp_words *rest, gp_error *err) {
    const char *steps = NULL;
    GP_RETURN_IF_FAILED(gp_words_value(rest, word, length, word + length, &steps, err));
    return read_steps(steps, &options->trace, err);
}

static gp_status take_long(void *taking, const char *word, gp_words *rest, gp_error *err) {
    gp_options *options = taking;
    size_t length = strcspn(word, "=");
    const gp_words_flag flags[] = {{"--plan", &options->plan},
                                   {"--resume", &options->resume},
                                   {"--expand", &options->expand},
                                   {"--force", &options->force},
                                   {"--help", &options->help},
                                   {"--version", &options->version},
                                   {NULL, NULL}};
    if (gp_word_is(word, length, "--set"))
        return gp_words_value(rest, word, length, word + length, &options->overrides[options->override_count++], err);
    if (gp_word_is(word, length, "--trace"))
        return gp_words_value(rest, word, length, word + length, &options->trace.path, err);
    if (gp_word_is(word, length, "--predict"))
        return gp_words_value(rest, word, length, word + length, &options->predict, err);
    if (gp_word_is(word, length, "--svg")) return gp_words_value(rest, word, length, word + length, &options->svg, err);
    if (gp_word_is(word, length, "--processors"))
        return gp_words_processors(rest, word, length, &options->processors, err);
    if (gp_word_is(word, length, "--weights"))
        return gp_words_value(rest, word, length, word + length, &options->weights, err);
    if (gp_word_is(word, length, "--trace-steps")) return take_trace_steps(options, word, length, rest, err);
    return gp_words_flag_set(word, flags) ? GP_OK : gp_words_refuse(word, length, known, "gpipe-train", err);
}

/* -q, -qv, -oDIR, -o DIR. */
static gp_status take_short(void *taking, const char *word, gp_words *rest, gp_error *err) {
    gp_options *options = taking;
    for (const char *letter = word + 1; *letter; letter++) {
        switch (*letter) {
        case 'q': options->verbosity = GP_QUIET; break;
        case 'v': options->verbosity = GP_VERBOSE; break;
        case 'h': options->help = true; break;
        case 'o': return gp_words_value(rest, "-o", 2, letter + 1, &options->folder, err);
        default: return gp_fail(err, GP_USAGE, "unknown option -%c: see gpipe-train --help", *letter);
        }
    }
    return GP_OK;
}

static gp_status check_prediction(const gp_options *options, gp_error *err) {
    if (options->weights && !options->predict)
        return gp_fail(err, GP_USAGE, "option --weights goes with --predict; a run begins with those of train.init");
    if (!options->predict) return GP_OK;
    if (!*options->predict) return gp_fail(err, GP_USAGE, "option --predict needs the name of a file");
    if (options->weights && !*options->weights)
        return gp_fail(err, GP_USAGE, "option --weights needs the name of a file");
    const char *other = options->resume       ? "--resume"
                        : options->force      ? "--force"
                        : options->plan       ? "--plan"
                        : options->expand     ? "--expand"
                        : options->trace.path ? "--trace"
                                              : NULL;
    return other ? gp_fail(err, GP_USAGE, "--predict only predicts: %s does not go with it", other) : GP_OK;
}

static gp_status check_together(const gp_options *options, gp_error *err) {
    if (options->resume && options->force)
        return gp_fail(err, GP_USAGE, "--resume goes on with a run and --force writes over it: one of them");
    if (options->plan && options->expand)
        return gp_fail(err, GP_USAGE, "either --plan or --expand: each prints, and trains nothing");
    if (options->svg && !options->plan) return gp_fail(err, GP_USAGE, "option --svg goes with --plan");
    if (options->svg && !*options->svg) return gp_fail(err, GP_USAGE, "option --svg needs the name of a file");
    if (options->processors && !options->plan)
        return gp_fail(err, GP_USAGE,
                       "option --processors goes with --plan: a run uses the processors that it may use");
    if (options->folder && !*options->folder) return gp_fail(err, GP_USAGE, "option -o needs the name of a folder");
    if (options->trace.path && !*options->trace.path)
        return gp_fail(err, GP_USAGE, "option --trace needs the name of a file");
    if (options->trace.last && !options->trace.path)
        return gp_fail(err, GP_USAGE, "option --trace-steps goes with --trace FILE");
    return check_prediction(options, err);
}

gp_status gp_options_parse(int argc, char **argv, gp_options *out, gp_error *err) {
    gp_options options = {.verbosity = GP_NORMAL, .trace = {.first = 1}};
    gp_words rest = {argv, argc, 1};
    GP_RETURN_IF_FAILED(GP_NEW(&options.overrides, argc, err));
    const gp_words_taker taker = {take_long, take_short, &options, &options.config};
    gp_status status = gp_words_take(&rest, &taker, err);
    bool informs = options.help || options.version;
    if (status == GP_OK && !informs && !options.config)
        status = gp_fail(err, GP_USAGE, "which configuration? usage: gpipe-train [options] config.yaml");
    if (status == GP_OK && !informs) status = check_together(&options, err);
    if (status != GP_OK) {
        gp_options_fini(&options);
        return status;
    }
    if (!options.trace.last) options.trace.last = TRACED_STEPS;
    *out = options;
    return GP_OK;
}

void gp_options_fini(gp_options *options) {
    free(options->overrides);
    options->overrides = NULL;
}
