#include "cli/balance_options.h"

#include <stddef.h>
#include <string.h>

#include "cli/words.h"

static const double usual_seconds = 10;

const char *gp_balance_options_help(void) {
    return "usage: gpipe-balance [options] config.yaml\n"
           "       gpipe-balance --simulate FILE [--json]\n"
           "\n"
           "Times the layers of the network on the devices that config.yaml names, and prints the balance that\n"
           "follows: how many layers each pipeline stage should have.\n"
           "\n"
           "  --seconds S           time the layers for up to S seconds (default: 10); for longer only if some layers\n"
           "                        were not timed often enough by then\n"
           "  --search              find the stages, schedule, checkpoint modes and balance with the shortest\n"
           "                        predicted step, among the plans that fit; micro-batches and replicas stay as\n"
           "                        configured, since batch norm depends on them\n"
           "  --search=micro_batches,replicas\n"
           "                        try other numbers of these too; one of the two words may be left out\n"
           "  --orders              also find the best order of the devices, if they differ\n"
           "  --again               time the layers again, even if a kept profile fits\n"
           "  -o FILE               write the measured times to FILE, a profile\n"
           "  --profile FILE        take the times from FILE, a profile; measure nothing\n"
           "  --processors N        predict for N processors (default: those that this process may use)\n"
           "  --set key.path=value  change the configuration; may be repeated\n"
           "  --json                print JSON\n"
           "  --write               put the balance into config.yaml, with --search the whole plan; the rest of\n"
           "                        the file does not change\n"
           "  --simulate FILE       simulate a schedule with the times in FILE, without a model and devices: time\n"
           "                        of a step, bubble, micro-batches in flight (docs/schedules.md)\n"
           "  -q                    print no progress\n"
           "  --help, --version\n"
           "\n"
           "Profiles (measured times) are kept in gpipe/profiles under $XDG_CACHE_HOME or ~/.cache. One is used again\n"
           "if layers, shapes, micro-batch, devices, threads and versions are the same. It is measured again if other\n"
           "programs kept the processors busy. Rates of this machine (operations and bytes per second) are kept\n"
           "beside them, in gpipe/rates (docs/profile.md).\n"
           "Under a launcher (mpirun), process 0 does all this, and the others help it to measure the links between\n"
           "them: what messages take (docs/profile.md).\n"
           "Exit status: 0 done; 130 interrupted; 1 the program failed; 2 the command line or the configuration\n"
           "is wrong.\n";
}

static gp_status check_simulation(const gp_balance_options *options, gp_error *err) {
    const char *other = options->profile              ? "--profile"
                        : options->out                ? "-o"
                        : options->seconds > 0        ? "--seconds"
                        : options->override_count > 0 ? "--set"
                        : options->again              ? "--again"
                        : options->search             ? "--search"
                        : options->orders             ? "--orders"
                        : options->processors > 0     ? "--processors"
                        : options->write              ? "--write"
                                                      : options->config;
    if (!*options->simulate) return gp_fail(err, GP_USAGE, "option --simulate needs the name of a file");
    return other
               ? gp_fail(err, GP_USAGE, "--simulate takes all times from its file, so %s cannot be used with it", other)
               : GP_OK;
}

static gp_status check_together(const gp_balance_options *options, gp_error *err) {
    if (options->search && options->out)
        return gp_fail(err, GP_USAGE, "--search times several sizes of micro-batch, so -o cannot be used with it");
    if (options->search && options->orders)
        return gp_fail(err, GP_USAGE, "--search keeps the order of the devices, so --orders cannot be used with it");
    if (options->out && !*options->out) return gp_fail(err, GP_USAGE, "option -o needs the name of a file");
    if (!options->profile) return GP_OK;
    if (!*options->profile) return gp_fail(err, GP_USAGE, "option --profile needs the name of a file");
    const char *other = options->again ? "--again" : options->out ? "-o" : options->seconds > 0 ? "--seconds" : NULL;
    return other ? gp_fail(err, GP_USAGE, "--profile times nothing, so %s cannot be used with it", other) : GP_OK;
}

/* Options of other programs. Those that are keys of the configuration are found by their names. */
static const gp_habit habits[] = {
    {"config configuration configfile cfg yaml c f",
     "the configuration is a word without an option: gpipe-balance net.yaml"},
    {"gpu gpus gpuid gpuids device devices numgpus ngpu ngpus cuda usecuda accelerator",
     "write --set 'pipeline.devices=[cuda:0, cuda:1]', with the devices, one for each stage"},
    {"optimizer optim opt", "write --set 'optimizer={adam: {lr: 0.001}}'"},
    {"workers numworkers j", "write --set data.threads=…"},
    {"nthreads threads cores cpus", "write --set 'pipeline.devices=[{cpu: {threads: 4}}]'"},
    {"data datadir dataset datapath dataroot", "the configuration names the data: data.train and data.eval"},
    {"model arch network", "the configuration has the network: model"},
    {"b bs", "write --set data.batch=…"},
    {"quiet silent", "write -q"},
    {"output outputdir out outfile", "-o FILE takes the profile; --write changes the configuration"},
    {"verbose debug v", "there is only -q"},
    {"plan expand resume force trace", "it is an option of gpipe-train"},
    {"inplace i save update", "write --write"},
    {"iterations iters repeat time timeout", "write --seconds 10"},
    {NULL, NULL},
};

static gp_status read_options(int argc, char **argv, gp_balance_options *to, gp_error *err) {
    const gp_option table[] = {
        {"--set", GP_OPTION_LIST, .value = to->overrides, .second = &to->override_count},
        {"--profile", GP_OPTION_TEXT, .value = &to->profile},
        {"--seconds", GP_OPTION_SECONDS, .value = &to->seconds},
        {"--again", GP_OPTION_FLAG, .value = &to->again},
        {"--json", GP_OPTION_FLAG, .value = &to->json},
        {"--write", GP_OPTION_FLAG, .value = &to->write},
        {"--help", GP_OPTION_FLAG, .value = &to->help},
        {"--version", GP_OPTION_FLAG, .value = &to->version},
        {"--simulate", GP_OPTION_TEXT, .value = &to->simulate},
        {"--search", GP_OPTION_WORDS, .value = &to->search, .second = &to->frees},
        {"--orders", GP_OPTION_FLAG, .value = &to->orders},
        {"--processors", GP_OPTION_COUNT, .value = &to->processors},
        {"-h", GP_OPTION_FLAG, .value = &to->help},
        {"-q", GP_OPTION_FLAG, .value = &to->quiet},
        {"-o", GP_OPTION_TEXT, .value = &to->out},
        {0},
    };
    return gp_words_read(argc, argv, table, habits, "gpipe-balance", &to->config, err);
}

/* "micro_batches,replicas", or one of the two. */
static gp_status read_freed(gp_balance_options *to, gp_error *err) {
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {{"micro_batches", offsetof(gp_balance_options, frees_micro_batches)},
                 {"replicas", offsetof(gp_balance_options, frees_replicas)}};
    for (const char *at = to->frees; at; at += *at == ',') {
        size_t length = strcspn(at, ","), k = 0;
        while (k < 2 && (strlen(known[k].name) != length || strncmp(known[k].name, at, length) != 0)) k++;
        if (k == 2)
            return gp_fail(err, GP_USAGE,
                           "option --search takes micro_batches, replicas or both, as in "
                           "--search=micro_batches,replicas, not \"%s\"",
                           to->frees);
        *(bool *)(void *)((char *)to + known[k].offset) = true;
        at += length;
        if (!*at) break;
    }
    return GP_OK;
}

gp_status gp_balance_options_parse(int argc, char **argv, gp_balance_options *out, gp_error *err) {
    gp_balance_options options = {.overrides = (const char **)argv};
    GP_RETURN_IF_FAILED(read_options(argc, argv, &options, err));
    GP_RETURN_IF_FAILED(read_freed(&options, err));
    bool informs = options.help || options.version;
    if (!informs && !options.config && !options.simulate)
        return gp_fail(err, GP_USAGE, "no configuration is given; usage: gpipe-balance [options] config.yaml");
    if (!informs)
        GP_RETURN_IF_FAILED(options.simulate ? check_simulation(&options, err) : check_together(&options, err));
    if (!(options.seconds > 0)) options.seconds = usual_seconds;
    *out = options;
    return GP_OK;
}
