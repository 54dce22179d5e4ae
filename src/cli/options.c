#include "cli/options.h"

#include "cli/words.h"

enum { TRACED_STEPS = 100 };

const char *gp_options_help(void) {
    return "usage: gpipe-train [options] config.yaml\n"
           "\n"
           "Trains the network that config.yaml describes, as a pipeline: the network is cut into stages, which\n"
           "run on workers, one thread for each device.\n"
           "\n"
           "Examples:\n"
           "  gpipe-train net.yaml            train; the run folder is runs/net\n"
           "  gpipe-train --plan net.yaml     print stages, memory and predicted time; train nothing\n"
           "  gpipe-train --resume net.yaml   continue after Ctrl-C or a crash\n"
           "  gpipe-train -o runs/slow --set optimizer.sgd.lr=0.001 net.yaml\n"
           "                                  train with another learning rate, in another run folder\n"
           "  mpirun -np 4 gpipe-train net.yaml\n"
           "                                  train as 4 processes, on one machine or on many\n"
           "  gpipe-train --predict y.safetensors --weights runs/net/best.safetensors net.yaml\n"
           "                                  write what the best model predicts for data.eval\n"
           "\n"
           "Training:\n"
           "  -o DIR                run folder, where the run writes its files (default: runs/net for net.yaml)\n"
           "  --resume              continue the run in the run folder, from its newest snapshot, or begin it if there "
           "is\n"
           "                        none; --set changes its learning rate, mini-batch or length from here on\n"
           "                        (docs/snapshots.md)\n"
           "  --force               start again in a used run folder; its models and snapshots are removed\n"
           "  --set key.path=value  change one value of the configuration, as in --set data.batch=32. May be repeated\n"
           "  --trace FILE          write a timeline of every instruction of every worker; https://ui.perfetto.dev "
           "opens it\n"
           "  --trace-steps A:B     record steps A to B (default: 1:100); A alone is one step\n"
           "  --trace-layers        record the layers within the instructions of CPU workers, too; the file becomes\n"
           "                        many times larger (docs/timelines.md)\n"
           "  --capture-steps A:B   limit the capture of NVIDIA's Nsight Systems to steps A to B; "
           "scripts/nsys-profile.sh\n"
           "                        uses it (docs/nsight.md)\n"
           "\n"
           "Instead of training:\n"
           "  --plan                print stages, copies, memory, schedule and predicted time\n"
           "  --json                with --plan: print the plan as JSON, with the predicted time of each instruction\n"
           "                        (docs/timelines.md)\n"
           "  --svg FILE            with --plan: draw the schedule of a mini-batch and its memory, for a browser\n"
           "  --processors N        with --plan: predict for N processors (default: those that the program may use)\n"
           "  --check               prove the plan by rules of its own, and print a certificate; in place of "
           "config.yaml\n"
           "                        also a plan as JSON, which another version may have made (docs/check.md)\n"
           "  --expand              print the configuration with its model as a list of layers\n"
           "  --predict FILE        write the output of a trained model for data.eval to FILE (safetensors, tensor y)\n"
           "  --weights FILE        with --predict: the trained model. By default model.safetensors of the run "
           "folder,\n"
           "                        the model after the last step. For the model of the best evaluation, name\n"
           "                        best.safetensors of the run folder\n"
           "\n"
           "Printing:\n"
           "  -q                    print only errors, and warnings of a run under way\n"
           "  -v                    also print the plan, the norms of each layer at each evaluation, and the time of "
           "each\n"
           "                        worker; with --plan, the instructions of each worker\n"
           "  -h, --help            print this text\n"
           "  --version             print the version, and which MPI it was built with\n"
           "\n"
           "The run folder gets:\n"
           "  metrics.jsonl         loss, learning rate and time of each step; loss and time of each evaluation\n"
           "  model.safetensors     the model after the last step\n"
           "  best.safetensors      the model of the best evaluation so far, if the configuration has data.eval\n"
           "  snapshots/            what --resume needs: about every ten minutes, at the end, and if the run is "
           "interrupted\n"
           "  config.yaml           the configuration as it ran\n"
           "  plan.json             its plan, as --plan --json prints it\n"
           "\n"
           "The run folder may be a symbolic link; its files may not. No output may be a file that the configuration "
           "reads.\n"
           "Ctrl-C and SIGTERM end the run after the current step, and save it. A second signal ends it at once,\n"
           "without saving.\n"
           "A signal that the parent process ignores stays ignored.\n"
           "Exit status: 0 done; 130 interrupted, and the run is saved; 1 the run failed; 2 the command line or the\n"
           "configuration is wrong.\n";
}

static gp_status check_prediction(const gp_options *options, gp_error *err) {
    if (options->weights && !options->predict)
        return gp_fail(err, GP_USAGE,
                       "option --weights needs --predict; a training run takes its initial weights from train.init");
    if (!options->predict) return GP_OK;
    if (!*options->predict) return gp_fail(err, GP_USAGE, "option --predict needs the name of a file");
    if (options->weights && !*options->weights)
        return gp_fail(err, GP_USAGE, "option --weights needs the name of a file");
    const char *other = options->resume         ? "--resume"
                        : options->force        ? "--force"
                        : options->plan         ? "--plan"
                        : options->expand       ? "--expand"
                        : options->trace.path   ? "--trace"
                        : options->capture.last ? "--capture-steps"
                                                : NULL;
    return other ? gp_fail(err, GP_USAGE, "--predict trains nothing: %s cannot be used with it", other) : GP_OK;
}

static gp_status check_together(const gp_options *options, gp_error *err) {
    if (options->resume && options->force)
        return gp_fail(err, GP_USAGE, "--resume continues a run, and --force replaces it: use one of them");
    if (options->plan && options->expand) return gp_fail(err, GP_USAGE, "--plan and --expand cannot be used together");
    const char *beside_check = options->plan      ? "--plan"
                               : options->expand  ? "--expand"
                               : options->predict ? "--predict"
                               : options->resume  ? "--resume"
                                                  : NULL;
    if (options->check && beside_check)
        return gp_fail(err, GP_USAGE, "--check and %s cannot be used together", beside_check);
    if (options->json && !options->plan)
        return gp_fail(err, GP_USAGE, "option --json needs --plan: only a plan is printed as JSON");
    if (options->svg && !options->plan) return gp_fail(err, GP_USAGE, "option --svg needs --plan");
    if (options->svg && !*options->svg) return gp_fail(err, GP_USAGE, "option --svg needs the name of a file");
    if (options->processors && !options->plan)
        return gp_fail(err, GP_USAGE, "option --processors needs --plan: a run uses the processors that it may use");
    if (options->folder && !*options->folder) return gp_fail(err, GP_USAGE, "option -o needs the name of a folder");
    if (options->trace.path && !*options->trace.path)
        return gp_fail(err, GP_USAGE, "option --trace needs the name of a file");
    if (options->trace.last && !options->trace.path)
        return gp_fail(err, GP_USAGE, "option --trace-steps needs --trace FILE");
    if (options->capture.last && (options->plan || options->expand))
        return gp_fail(err, GP_USAGE, "option --capture-steps needs a run: it cannot be used with %s",
                       options->plan ? "--plan" : "--expand");
    if (options->trace.layers && !options->trace.path)
        return gp_fail(err, GP_USAGE, "option --trace-layers needs --trace FILE");
    return check_prediction(options, err);
}

/* Options of other programs. Those that are keys of the configuration are found by their names. */
static const gp_habit habits[] = {
    {"config configuration configfile cfg yaml c f",
     "the configuration is a word without an option: gpipe-train net.yaml"},
    {"gpu gpus gpuid gpuids device devices numgpus ngpu ngpus cuda usecuda accelerator",
     "write --set 'pipeline.devices=[cuda:0, cuda:1]', with the devices, one for each stage"},
    {"optimizer optim opt", "write --set 'optimizer={adam: {lr: 0.001}}'"},
    {"workers numworkers j", "write --set data.threads=…"},
    {"nthreads threads cores cpus", "write --set 'pipeline.devices=[{cpu: {threads: 4}}]'"},
    {"data datadir dataset datapath dataroot", "the configuration names the data: data.train and data.eval"},
    {"model arch network", "the configuration has the network: model"},
    {"b bs", "write --set data.batch=…"},
    {"quiet silent", "write -q"},
    {"e", "write --set train.epochs=…"},
    {"output outputdir out outdir savedir savepath logdir workdir rundir dir d logs ckptdir checkpointdir name runname "
     "exp expname",
     "the run folder is -o DIR"},
    {"verbose debug", "write -v"},
    {"continue ckpt ckptpath checkpoint checkpointpath resumefrom resumefromcheckpoint autoresume restore load r",
     "--resume goes on from the newest snapshot of the run folder, which -o names"},
    {"pretrained init finetune", "write --set train.init=weights.safetensors"},
    {"overwrite overwriteoutputdir", "write --force"},
    {"dryrun summary", "write --plan"},
    {"test eval evaluate evalonly validate val inference infer testonly",
     "write --set train.steps=0 to evaluate only, with train.init; --predict FILE writes what the model says of "
     "data.eval"},
    {"timeline profiler profile", "write --trace FILE; gpipe-balance times the layers"},
    {"balance search", "gpipe-balance is the program for it"},
    {NULL, NULL},
};

static gp_status read_options(int argc, char **argv, gp_options *to, gp_error *err) {
    const gp_option table[] = {
        {"--set", GP_OPTION_LIST, .value = to->overrides, .second = &to->override_count},
        {"--plan", GP_OPTION_FLAG, .value = &to->plan},
        {"--check", GP_OPTION_FLAG, .value = &to->check},
        {"--svg", GP_OPTION_TEXT, .value = &to->svg},
        {"--expand", GP_OPTION_FLAG, .value = &to->expand},
        {"--resume", GP_OPTION_FLAG, .value = &to->resume, .instead = "the run folder is -o DIR"},
        {"--force", GP_OPTION_FLAG, .value = &to->force},
        {"--trace", GP_OPTION_TEXT, .value = &to->trace.path},
        {"--trace-steps", GP_OPTION_STEPS, .value = &to->trace.first, .second = &to->trace.last},
        {"--trace-layers", GP_OPTION_FLAG, .value = &to->trace.layers},
        {"--predict", GP_OPTION_TEXT, .value = &to->predict},
        {"--weights", GP_OPTION_TEXT, .value = &to->weights},
        {"--processors", GP_OPTION_COUNT, .value = &to->processors},
        {"--json", GP_OPTION_FLAG, .value = &to->json},
        {"--help", GP_OPTION_FLAG, .value = &to->help},
        {"--version", GP_OPTION_FLAG, .value = &to->version},
        {"--capture-steps", GP_OPTION_STEPS, .value = &to->capture.first, .second = &to->capture.last},
        {"-q", GP_OPTION_CHOICE, .value = &to->verbosity, .choice = GP_QUIET},
        {"-v", GP_OPTION_CHOICE, .value = &to->verbosity, .choice = GP_VERBOSE},
        {"-h", GP_OPTION_FLAG, .value = &to->help},
        {"-o", GP_OPTION_TEXT, .value = &to->folder},
        {0},
    };
    return gp_words_read(argc, argv, table, habits, "gpipe-train", &to->config, err);
}

gp_status gp_options_parse(int argc, char **argv, gp_options *out, gp_error *err) {
    gp_options options = {.overrides = (const char **)argv, .verbosity = GP_NORMAL, .trace = {.first = 1}};
    GP_RETURN_IF_FAILED(read_options(argc, argv, &options, err));
    bool informs = options.help || options.version;
    if (!informs && !options.config)
        return gp_fail(err, GP_USAGE, "no configuration is given; usage: gpipe-train [options] config.yaml");
    if (!informs) GP_RETURN_IF_FAILED(check_together(&options, err));
    if (!options.trace.last) options.trace.last = TRACED_STEPS;
    *out = options;
    return GP_OK;
}
