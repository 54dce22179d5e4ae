#include "config/foreign.h"

#include <stddef.h>
#include <string.h>

#include "config/names.h"

/* What users of PyTorch, Lightning, timm, torchgpipe, Caffe, Keras, Hugging Face, Megatron and DeepSpeed type for what
 * exists here too: the names that
 * are far from ours in spelling. One name may stand for several of ours; the first that is known in the place where it
 * was typed wins. */
static const struct foreign {
    const char *ours, *theirs; /* theirs: folded, with a blank between them */
} foreign_names[] = {
    /* layers */
    {"conv", "conv2d convolution"},
    {"linear", "dense fc fullyconnected innerproduct"},
    {"batch_norm", "batchnorm1d batchnorm2d batchnormalization bn syncbatchnorm"},
    {"layer_norm", "layernormalization ln"},
    {"group_norm", "groupnormalization gn"},
    {"instance_norm", "instancenorm2d"},
    {"silu", "swish"},
    {"leaky_relu", "lrelu"},
    {"max_pool", "maxpool2d maxpooling2d pooling pool"},
    {"avg_pool", "avgpool2d averagepooling2d averagepool"},
    {"global_avg_pool", "adaptiveavgpool2d globalaveragepooling2d globalaveragepool gap"},
    {"dropout", "drop"},
    {"flatten", "reshape view"},
    {"add", "eltwise sum residual shortcut"},
    {"concat", "cat concatenate"},
    {"upsample", "interpolate upsamplingnearest2d upsampling2d resize"},
    {"identity", "noop passthrough"},
    {"attention", "multiheadattention selfattention scaleddotproductattention"},
    {"pad", "zeropad2d"},
    {"lrn", "localresponsenorm"},
    {"softmax", "logsoftmax"},
    {"conv_transposed", "convtranspose2d conv2dtranspose deconvolution"},
    {"embedding", "embeddingbag"},
    /* options of layers */
    {"out", "outchannels outfeatures numoutput filters units channels width"},
    {"channels", "spatial"},
    {"kernel", "kernelsize size poolsize"},
    {"pad", "padding"},
    {"stride", "strides"},
    {"freeze", "frozen"},
    {"groups", "group numgroups"},
    {"dilation", "dilations dilationrate"},
    {"bias", "usebias biasterm"},
    {"eps", "epsilon"},
    {"affine", "elementwiseaffine"},
    {"slope", "negativeslope alpha"},
    {"tanh", "approximate"},
    {"ceil", "ceilmode"},
    {"count_pad", "countincludepad"},
    {"p", "dropoutratio rate prob"},
    {"vocab", "numembeddings vocabsize"},
    {"width", "embeddingdim"},
    {"heads", "numheads nhead"},
    {"scale", "scalefactor factor"},
    {"from", "bottom input inputs"},
    {"name", "top id"},
    {"shape", "dim inputshape"},
    /* losses */
    {"cross_entropy", "crossentropyloss ce softmaxwithloss categoricalcrossentropy sparsecategoricalcrossentropy"},
    {"mse", "mseloss meansquarederror euclideanloss l2loss"},
    {"smooth_l1", "smoothl1loss huberloss huber"},
    {"l1", "l1loss mae"},
    {"bce_logits", "bcewithlogitsloss bcewithlogits binarycrossentropy bce sigmoidcrossentropyloss"},
    {"smoothing", "labelsmoothing"},
    {"ignore", "ignoreindex ignorelabel"},
    {"loss", "criterion"},
    {"input", "inputshape inputsize inputdim"},
    {"classes", "numclasses nclasses nbclasses outputs"},
    /* data */
    {"data", "dataset"},
    {"batch", "batchsize minibatch trainbatchsize globalbatchsize bs"},
    {"eval", "val valid validation test"},
    {"train", "training trainer"},
    {"idx", "mnist fashionmnist"},
    {"tensors", "safetensors"},
    {"labels", "targets"},
    {"file", "path filename source"},
    {"take", "subset range limit"},
    {"transform", "augment augmentation"},
    {"random_horizontal_flip", "hflip horizontalflip"},
    {"random_vertical_flip", "vflip verticalflip"},
    {"normalize", "normalization"},
    {"random_crop", "crop"},
    {"random_erasing", "cutout"},
    {"synthetic", "fakedata fake dummy"},
    {"threads", "numworkers workers numthreads cores"},
    {"images", "imagefolder"},
    {"cifar", "cifar10 cifar100"},
    {"boxes", "coco"},
    /* pipeline */
    {"pipeline", "gpipe parallel"},
    {"micro_batches", "chunks microbatch nummicrobatches"},
    {"devices", "gpus device numgpus stages numstages pipelineparallelsize pipelinemodelparallelsize workers"},
    {"balance", "partition partitions split partitionmethod"},
    {"together", "bind colocate"},
    {"auto", "uniform time bytime balancebytime"},
    {"size", "bysize balancebysize memory parameters"},
    {"checkpoint", "recompute activationcheckpointing gradientcheckpointing checkpointing"},
    {"true", "on yes"},
    {"false", "off no"},
    {"never", "none off false no"},
    {"except_last", "true on yes auto selective"},
    {"always", "all full"},
    {"gpipe", "filldrain afab"},
    {"1f1b", "pipedream pipedreamflush dapple"},
    {"interleaved", "interleaved1f1b virtualpipeline"},
    {"zb_h1", "zerobubble"},
    {"zb_v", "interleavedzerobubble"},
    {"cuda", "gpu nvidia"},
    {"memory", "mem"},
    /* optimizer */
    {"optimizer", "optim solver opt"},
    {"lr", "learningrate baselr eta stepsize blr"},
    {"weight_decay", "decay wd l2 l2reg"},
    {"momentum", "mom"},
    {"lr_schedule", "scheduler sched schedule lrscheduler lrschedulertype lrpolicy lrdecay learningrateschedule"},
    {"step", "steplr"},
    {"multistep", "multisteplr"},
    {"cosine", "cosineannealinglr cosineannealing"},
    {"constant", "constantlr fixed none"},
    {"every", "stepsize interval"},
    {"milestones", "boundaries stepvalue"},
    {"gamma", "factor decayrate"},
    {"min", "etamin minlr"},
    {"betas", "beta1 beta2 momentum"},
    {"adam", "fusedadam"},
    {"clip_norm", "clip clipgradients clipgrad clipgradnorm clipnorm globalclipnorm gradclip gradclipnorm gradclipval "
                  "gradientclip gradientclipping gradientclipval gradientclipnorm maxgradnorm maxnorm"},
    {"no_decay", "weightdecayexclude"},
    {"norms_and_biases", "bias norms true"},
    {"warmup", "warmupsteps warmupepochs"},
    {"length", "totaliters steps iterations"},
    {"from", "startfactor"},
    /* train */
    {"epochs", "numepochs maxepochs nepochs numtrainepochs trainepochs"},
    {"steps", "maxiter maxiters maxsteps iterations numsteps iters trainiters trainsteps totalsteps numtrainsteps"},
    {"seed", "manualseed randomseed seedeverything randomstate rngseed"},
    {"eval_every", "testinterval evalinterval evalsteps evalfreq evalstrategy evaluationstrategy valinterval valevery "
                   "valfreq valcheckinterval checkvaleverynepoch validateevery validationfreq validationinterval"},
    {"init", "pretrained weights initializer"},
    {"skip", "exclude ignore"},
    {"save_every", "snapshot snapshotinterval snapshotevery saveinterval savesteps saveperiod savefreq savestrategy "
                   "saveeverynsteps checkpointevery checkpointfreq checkpointinterval checkpointperiod ckptinterval "
                   "everynepochs everyntrainsteps"},
    {"keep", "savetotallimit savetopk maxtokeep keepcheckpoints"},
    {"model", "network net arch architecture"},
    {"layers", "layer modules sequential"},
    {"f16", "fp16 float16 half amp 16 16true 16mixed mixedfloat16"},
    {"bf16", "bfloat16 bf16true bf16mixed mixedbfloat16"},
    {"f32", "float32 fp32 float 32 32true single highest"},
    {"tf32", "tensorfloat32 high"},
};

/* Lists of known names are recognised by a name that only they have: "max_pool" is a layer, "freeze" an option of one.
 */
#define LAYER        "max_pool"
#define LOSS         "bce_logits"
#define OPTION       "freeze"
#define OPTIMIZER    "adamw"
#define PIPELINE     "micro_batches"
#define TRAIN        "eval_every"
#define SECTION      "optimizer"
#define MODEL        "resnet"
#define DATA         "drop_last"
#define TRANSFORM    "random_erasing"
#define SOURCE       "synthetic"
#define RATE         "multistep"
#define DEVICE       "cpu"
#define LATER_SOURCE "boxes"

static const char folders_of_pictures[] =
    "ten lines of Python make a file of a folder of pictures: docs/configuration.md#folders-of-pictures";

/* Names without an equal here: what to write in their place, or that this version lacks it. */
static const struct advice {
    const char *place; /* a name of the list in which it was not found; NULL: any section of the configuration */
    const char *theirs, *sentence;
} advices[] = {
    {LAYER, "stash pop skip skippable",
     "a skip is written with from: name the earlier layer, and let the later one say from: its name"},
    {LAYER, "lstm gru rnn lstmcell grucell simplernn", "this version has no recurrent layers"},
    {LAYER, "elu selu celu relu6 hardtanh hardswish hardsigmoid softplus softsign mish glu swiglu activation",
     "the activations are relu, leaky_relu, gelu, silu, sigmoid and tanh"},
    {LAYER, "prelu", "no activation has trained parameters; leaky_relu has a fixed slope"},
    {LAYER, "conv1d maxpool1d avgpool1d",
     "a sequence is a picture of height 1: input shape [channels, 1, length], kernel: [1, 3]"},
    {LAYER, "conv3d maxpool3d avgpool3d batchnorm3d",
     "layers take pictures of two dimensions, and this version has none for volumes"},
    {LAYER, "depthwiseconv2d separableconv2d",
     "write conv with groups equal to the number of input channels, and after it a conv with kernel: 1"},
    {LAYER, "dropout2d", "write dropout: {channels: true}"},
    {LAYER, "softmax logsoftmax", "cross_entropy includes the softmax: let the last layer give logits"},
    {LAYER, "pad", "conv, max_pool and avg_pool have the option pad"},
    {LAYER, "reflectionpad2d replicationpad2d", "conv has the option pad, which pads with zeros"},
    {LAYER, "embedding embeddingbag",
     "on one-hot rows a linear layer without bias is one: docs/configuration.md#tokens"},
    {LAYER, "attention multiheadattention selfattention scaleddotproductattention",
     "layers after a frozen part with attention train on what it gives: docs/configuration.md#tokens"},
    {LAYER, "conv_transposed", "upsample and a conv after it enlarge a picture too"},
    {LAYER, "adaptiveavgpool", "global_avg_pool is adaptive_avg_pool of 1"},
    {LAYER, "adaptivemaxpool2d globalmaxpool", "use max_pool with a kernel of the size of its input"},
    {LAYER, "droppath stochasticdepth",
     "this version cannot drop whole paths; dropout with channels: true drops whole channels"},
    {LAYER, "rmsnorm weightnorm spectralnorm",
     "the normalising layers are batch_norm, instance_norm, layer_norm and group_norm"},
    {LAYER, "matmul bmm sub div mean", "add and concat are the layers that take several values"},
    {LAYER, "transpose permute unflatten squeeze unsqueeze pixelshuffle",
     "no layer reorders dimensions; flatten makes one row of them"},
    {LAYER, "lambda custom module function", "a new kind of layer is written in C: docs/adding-a-layer.md"},
    {LAYER, "transformer transformerencoder transformerencoderlayer", "this version has no transformer blocks"},
    {LOSS, "nll nllloss", "use cross_entropy, which takes logits: leave out the log-softmax before it"},
    {LOSS, "bceloss", "use bce_logits, which takes logits: leave out the sigmoid before it"},
    {LOSS, "kldiv kldivloss ctcloss hingeloss dice focal", "this version has cross_entropy, mse and bce_logits"},
    {OPTIMIZER, "type", "the kind is the key, and its options go below it: sgd: {lr: 0.1}"},
    {OPTIMIZER, "rmsprop adagrad adadelta adamax nadam radam asgd lbfgs lion lamb lars adafactor muon",
     "this version has sgd, adam and adamw"},
    {RATE, "reducelronplateau onecyclelr linear polynomial poly noam cyclic",
     "this version has constant, step, multistep and cosine"},
    {RATE, "exponential exponentiallr exponentialdecay", "write step: {every: 1 epoch, gamma: 0.9}"},
    {OPTION,
     "in inchannels infeatures inputchannels inputfeatures numfeatures normalizedshape numchannels inplanes inputsize "
     "inputdim indim insize inch cin nin",
     "leave it out: a layer takes this size from its input"},
    {OPTION, "startdim enddim", "leave it out: flatten makes one row of each sample"},
    {OPTION, "axis dim", "leave it out: a layer knows its dimension; concat joins channels"},
    {"smoothing", "classweights classweight weights alpha gamma", "weights of classes are not available yet"},
    {"smoothing", "reduction fromlogits",
     "leave it out: the loss takes logits, and is the mean over the targets that count"},
    {MODEL, "resnet18 resnet34 resnet50 resnet101 resnet152", "write resnet: {depth: 50, classes: 10}"},
    {MODEL, "vgg11 vgg13 vgg16 vgg19 vgg11bn vgg13bn vgg16bn vgg19bn",
     "write vgg: {depth: 16, classes: 10, batch_norm: true}, or without batch_norm"},
    {MODEL, "type name kind class target arch backbone",
     "a model is layers: […], resnet: {depth: 50, classes: 10} or vgg: {depth: 16, classes: 10}"},
    {MODEL, "alexnet lenet mobilenet mobilenetv2 mobilenetv3 efficientnet densenet convnext inception googlenet bert",
     "write the layers of the model as a list, layers: […]"},
    {MODEL, "pretrained weights checkpoint", "train.init: file.safetensors takes weights"},
    {MODEL, "numclasses classes", "it is an option of resnet and vgg; in a list, the last linear has so many outputs"},
    {"depth", "pretrained weights checkpoint", "train.init: file.safetensors takes weights"},
    {DATA, "take mean std", "write it below data.train or data.eval, beside the kind of the files"},
    {DATA, "valbatchsize evalbatchsize testbatchsize", "evaluations take mini-batches of data.batch, too"},
    {DATA, "root datadir path folder", "name each file below data.train, relative to the configuration"},
    {DATA, "collatefn collate", "leave it out: samples have one shape"},
    {SOURCE, "download", "leave it out: the program downloads nothing; name the files"},
    {SOURCE, "mean std", "write transform: [{normalize: {mean: [0.5], std: [0.5]}}]; idx has mean and std of its own"},
    {"samples", "shape inputshape classes numclasses", "leave it out: samples suit the input and output of the model"},
    {TRANSFORM, "totensor toimage todtype pilttotensor converttodtype",
     "leave it out: values of pictures are 0…1 already"},
    {TRANSFORM, "resize randomresizedcrop randomrotation rotate colorjitter randomaffine grayscale gaussianblur",
     "this version crops, flips, pads, normalizes and erases; change pictures otherwise in the data file"},
    {"min", "tmax", "leave it out: the cosine ends with the run"},
    {"length", "epochs", "write it as a time, warmup: 5 epochs"},
    {PIPELINE, "threads numthreads cores", "write devices: [{cpu: {threads: 4}}]"},
    {OPTION, "requiresgrad trainable propagatedown", "write freeze: true for requires_grad: false"},
    {OPTION, "inplace", "leave it out: the memory plan reuses buffers"},
    {OPTION, "activation", "write the activation as a layer after this one"},
    {OPTION, "paddingmode", "padding is always with zeros"},
    {OPTION, "reduction", "the loss is always the mean over the targets that count"},
    {PIPELINE, "virtualstages virtualpipelineparallelsize numlayerspervirtualpipelinestage interleave interleaved",
     "write schedule: {interleaved: {chunks: 2}}"},
    {OPTION, "kernelinitializer biasinitializer weightinit weightfiller biasfiller",
     "write init: {weight: {normal: 0.01}, bias: 0}"},
    {OPTION, "trackrunningstats",
     "leave it out: batch_norm always keeps running statistics, and other layers have none"},
    {"betas", "amsgrad maximize", "this version has Adam without it"},
    {NULL, "dampening", "this version has momentum without dampening"},
    {OPTIMIZER, "params parameters", "leave it out: the optimizer updates all parameters that are not frozen"},
    {TRAIN, "checkpoint ckpt ckptpath loadfrom finetunefrom",
     "--resume goes on from a snapshot, train.init takes weights; pipeline.checkpoint is for recomputing"},
    {TRAIN, "workers numworkers dataloadernumworkers numdataworkers",
     "data.threads is the number of threads that read samples"},
    {TRAIN, "optimizer optim opt solver", "optimizer is a section of its own, beside train"},
    {TRAIN, "data dataset datamodule traindata", "data is a section of its own, beside train"},
    {TRAIN, "model network arch", "model is a section of its own, beside train"},
    {TRAIN, "momentum nesterov betas", "it is an option of the optimizer, as in optimizer: {sgd: {lr: 0.1}}"},
    {SECTION, "version", "leave it out: a configuration has no version"},
    {NULL, "paramgroups parametergroups parameters groups paramoptions layerdecay layerwiselrdecay lrmult",
     "all layers have one rate and one decay; no_decay: norms_and_biases leaves those out, model.rules can freeze "
     "layers"},
    {NULL, "ema modelema emadecay modelemadecay swa averaging averagedmodel lookahead",
     "averages of parameters are not available yet; best.safetensors is the model of the best evaluation"},
    {NULL,
     "accumulate accumulategradbatches accumulationsteps accumsteps accumiter gradaccum gradaccumsteps "
     "gradientaccumulation gradientaccumulationsteps itersize",
     "data.batch is the whole mini-batch of a step, and pipeline.micro_batches the number of its parts"},
    {NULL, "clipvalue clipgradvalue clipmode gradientclipalgorithm",
     "optimizer.clip_norm clips the norm of all gradients together; there is no other way"},
    {NULL, "enablecheckpointing checkpointcallback modelcheckpoint savecheckpoint savelast saveweightsonly autosave",
     "train.save_every says how often to write snapshots, train.keep how many stay"},
    {NULL, "monitor metricforbestmodel loadbestmodelatend savebest savebestonly savebestmodel greaterisbetter mode",
     "best.safetensors is the model of the best evaluation, by accuracy, or by loss if the loss has no accuracy"},
    {NULL, "metric metrics evalmetric computemetrics",
     "leave it out: an evaluation has the loss and, with classes, the accuracy"},
    {NULL, "classweight classweights posweight weightedloss", "weights of classes are not available yet"},
    {NULL, "labelsmoothing smoothing", "write model.loss: {cross_entropy: {smoothing: 0.1}}"},
    {NULL, "mixup mixupalpha cutmix cutmixalpha randaugment autoaugment aa",
     "mixup, cutmix and RandAugment are not available yet"},
    {NULL, "droppath droppathrate stochasticdepth", "this version cannot drop whole paths"},
    {NULL, "warmupratio warmuppct warmupproportion pctstart warmuplr warmupfactor warmupinit warmupstartlr",
     "write optimizer.warmup: {length: 500, from: 0.1}, in steps or epochs, from a share of the rate"},
    {NULL, "tmax etamin minlr lrend cooldownepochs", "write optimizer.lr_schedule: {cosine: {min: 0}}"},
    {NULL, "decayrate decayepochs decaysteps lrgamma lrstep lrsteps stepsize milestones gamma",
     "write optimizer.lr_schedule: {step: {every: 30 epochs, gamma: 0.1}}, or multistep"},
    {NULL, "maxtime timelimit maxduration walltime",
     "a run has no time limit; SIGTERM ends it after the current step and saves it, as timeout(1) does"},
    {NULL, "limittrainbatches limitvalbatches overfitbatches fastdevrun dryrun debug maxtrainsamples subset",
     "data.train.take: [0, 5000] takes some of the samples, and train.steps ends a run early"},
    {NULL, "stepsperepoch initialepoch epochsize", "leave it out: an epoch is all samples of data.train"},
    {NULL, "validationsplit validationdata valsplit testsplit splitratio valdata evaldata testdata",
     "write data.eval beside data.train; take: [0, 5000] takes some samples of a file"},
    {NULL, "deterministic deterministicalgorithms",
     "leave it out: a run with the same configuration has the same bits"},
    {NULL, "benchmark cudnnbenchmark compile torchcompile jit channelslast memoryformat xla fused foreach capturable",
     "leave it out: the program chooses layouts and kernels, and fuses by itself"},
    {NULL, "accelerator gpuids cudavisibledevices", "name devices in pipeline.devices: cpu, cuda:0"},
    {NULL, "strategy parallelism modelparallel",
     "write pipeline.devices, one for each stage; replicas: how many copies"},
    {NULL, "syncbatchnorm syncbn", "write model.rules: {batch_norm: {sync: true}}"},
    {NULL, "callbacks callback hooks", "there are no callbacks; the keys of train say when to evaluate and to save"},
    {NULL, "deferredbatchnorm",
     "batch norm is always deferred: its running statistics are updated once per mini-batch"},
    {NULL, "fp16 bf16 f16 float16 bfloat16 half amp mixedprecision autocast gradscaler lossscale dtype",
     "mixed precision is not available yet; train.precision is f32 or tf32"},
    {NULL, "microbatchsize trainmicrobatchsizepergpu perdevicetrainbatchsize",
     "write pipeline.micro_batches, their number: data.batch divided by the size of one"},
    {NULL, "dataparallel ddp dp dataparallelsize", "write pipeline.replicas: their number, for each stage"},
    {NULL, "tensorparallel tp tensormodelparallelsize tensorparallelsize",
     "layers are not split over devices; only stages are"},
    {NULL, "zero zerooptimization zeroredundancyoptimizer",
     "write pipeline.shard_optimizer: true, with replicas (ZeRO stage 1); stages 2 and 3 are not available"},
    {NULL, "offload cpuoffload offloadoptimizer fsdp",
     "replicas can share out the optimizer state, pipeline.shard_optimizer, but no parameters"},
    {NULL,
     "worldsize rank localrank backend distributed nprocpernode nnodes numnodes numprocesses masteraddr masterport",
     "name the devices in pipeline.devices; mpirun -np 4 gpipe-train starts several processes"},
    {NULL,
     "outputdir outdir savedir logdir output checkpointdir workdir rundir rootdir defaultrootdir runname name "
     "experiment expname",
     "the run folder is given on the command line: -o DIR"},
    {NULL, "resume resumefrom resumefromcheckpoint restore autoresume",
     "a run goes on from its newest snapshot with --resume on the command line"},
    {NULL,
     "log logging logevery logeverynsteps loggingsteps logginginterval loginterval logfreq logsteps stepsperprint "
     "printfreq printevery verbose wandb tensorboard mlflow logger reportto project progressbar enableprogressbar",
     "metrics.jsonl in the run folder has every step; -v prints more"},
    {NULL, "earlystopping earlystoppingpatience patience mindelta earlystop",
     "a run does not stop by itself; best.safetensors is the model of the best evaluation"},
    {NULL, "pinmemory prefetch prefetchfactor persistentworkers",
     "leave it out: the loader always reads mini-batches ahead into memory of its own"},
    {NULL, "sampler randomsampler", "the order comes from train.seed; data.shuffle turns it off"},
    {SOURCE, "folder folders dir directory imagedir pictures jpeg jpg png", folders_of_pictures},
    {LATER_SOURCE, "images imagefolder", folders_of_pictures},
    {SOURCE,
     "normalize normalise normalization randomcrop centercrop crop flip hflip vflip randomflip horizontalflip "
     "verticalflip randomhorizontalflip randomverticalflip randomerasing cutout",
     "transforms are a list beside the source: transform: [normalize: {mean: 0.5, std: 0.25}]"},
    {NULL,
     "normalize normalise normalization randomcrop centercrop hflip vflip horizontalflip verticalflip "
     "randomhorizontalflip randomverticalflip randomerasing transform transforms augment augmentation",
     "transforms of pictures are the list data.train.transform: [normalize: {mean: 0.5, std: 0.25}]"},
    {SOURCE, "cifar csv parquet webdataset tfrecord lmdb pt pth npz npy numpy hdf5 pickle torch imagenet huggingface",
     "convert the data into a safetensors file with x and y: tensors: file.safetensors"},
    {DEVICE, "mps rocm hip xpu tpu", "this version computes on cpu and, if it was built with CUDA, on cuda:0"},
};

/* Where keys of sections are written. Only keys that one section has: a test compares the list with the table of keys.
 */
static const char *const homes[] = {
    "data.batch",
    "data.shuffle",
    "data.drop_last",
    "pipeline.devices",
    "pipeline.replicas",
    "pipeline.shard_optimizer",
    "pipeline.balance",
    "pipeline.together",
    "pipeline.micro_batches",
    "pipeline.schedule",
    "pipeline.checkpoint",
    "pipeline.lockstep",
    "pipeline.transport",
    "pipeline.timeout",
    "pipeline.links",
    "pipeline.pin",
    "optimizer.sgd.lr",
    "optimizer.sgd.momentum",
    "optimizer.sgd.weight_decay",
    "optimizer.sgd.nesterov",
    "optimizer.adam.betas",
    "optimizer.lr_schedule",
    "optimizer.warmup",
    "optimizer.clip_norm",
    "optimizer.no_decay",
    "train.epochs",
    "train.steps",
    "train.seed",
    "train.eval_every",
    "train.init",
    "train.save_every",
    "train.keep",
    "train.precision",
    "model.loss",
    "model.layers",
};

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) return true;
    return false;
}

const char *gp_foreign_name(const char *folded, const char *const *known) {
    for (size_t i = 0; i < sizeof foreign_names / sizeof *foreign_names; i++) {
        if (!has_word(foreign_names[i].theirs, folded)) continue;
        int index = gp_index_of(foreign_names[i].ours, known);
        if (index >= 0) return known[index];
    }
    return NULL;
}

static bool is_section(const char *const *known) {
    static const char *const marks[] = {"pipeline", "drop_last", PIPELINE, "clip_norm", "adamw",
                                        "nesterov", "betas",     "loss",   "eval_every"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (gp_index_of(marks[i], known) >= 0) return true;
    return false;
}

const char *gp_foreign_advice(const char *folded, const char *const *known) {
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++) {
        const struct advice *its = &advices[i];
        bool here = its->place ? gp_index_of(its->place, known) >= 0 : is_section(known);
        if (here && has_word(its->theirs, folded)) return its->sentence;
    }
    return NULL;
}

const char *gp_foreign_home(const char *folded, const char *const *known) {
    if (!is_section(known)) return NULL;
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        const char *const key[] = {strrchr(homes[i], '.') + 1, NULL};
        if (gp_same_name(folded, key[0]) || gp_foreign_name(folded, key)) return homes[i];
    }
    return NULL;
}
