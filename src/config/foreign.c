#include "config/foreign.h"

#include <stddef.h>
#include <string.h>

#include "config/names.h"

/* What users of PyTorch, torchgpipe, Caffe, Keras, Megatron and DeepSpeed type for what exists here too: the names that
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
    {"micro_batches", "chunks microbatch nummicrobatches gradientaccumulationsteps itersize"},
    {"devices", "gpus device numgpus stages numstages pipelineparallelsize pipelinemodelparallelsize workers"},
    {"balance", "partition partitions split partitionmethod"},
    {"together", "bind colocate"},
    {"auto", "uniform time bytime balancebytime"},
    {"size", "bysize balancebysize memory parameters"},
    {"checkpoint", "recompute activationcheckpointing gradientcheckpointing checkpointing"},
    {"true", "on yes"},
    {"false", "off no"},
    {"never", "none off"},
    {"always", "all full"},
    {"gpipe", "filldrain afab"},
    {"1f1b", "pipedream pipedreamflush dapple"},
    {"interleaved", "interleaved1f1b virtualpipeline"},
    {"zb_h1", "zerobubble"},
    {"zb_v", "interleavedzerobubble"},
    {"cuda", "gpu nvidia"},
    {"memory", "mem"},
    /* optimizer */
    {"optimizer", "optim solver"},
    {"lr", "learningrate baselr eta stepsize"},
    {"weight_decay", "decay wd l2"},
    {"momentum", "mom"},
    {"lr_schedule", "scheduler lrscheduler lrpolicy lrdecay"},
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
    {"clip_norm", "clip clipgradients clipgradnorm gradclip gradientclipping maxgradnorm maxnorm"},
    {"no_decay", "weightdecayexclude"},
    {"norms_and_biases", "bias norms true"},
    {"warmup", "warmupsteps warmupepochs"},
    {"length", "totaliters steps"},
    {"from", "startfactor"},
    /* train */
    {"epochs", "numepochs maxepochs"},
    {"steps", "maxiter maxsteps iterations numsteps iters"},
    {"seed", "manualseed randomseed"},
    {"eval_every", "testinterval evalinterval evalsteps"},
    {"init", "pretrained weights initializer"},
    {"skip", "exclude ignore"},
    {"save_every", "snapshot snapshotinterval saveinterval savesteps checkpointinterval"},
    {"keep", "savetotallimit"},
    {"model", "network net"},
    {"layers", "layer modules sequential"},
    {"f16", "fp16 float16 half amp 16mixed"},
    {"bf16", "bfloat16 bf16mixed"},
    {"f32", "float32 fp32 float 32 highest"},
    {"tf32", "tensorfloat32 high"},
};

/* Lists of known names are recognised by a name that only they have: "max_pool" is a layer, "freeze" an option of one.
 */
#define LAYER        "max_pool"
#define LOSS         "bce_logits"
#define OPTION       "freeze"
#define OPTIMIZER    "adamw"
#define PIPELINE     "micro_batches"
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
    {OPTION, "inchannels infeatures numfeatures normalizedshape inplanes",
     "leave it out: a layer takes this size from its input"},
    {OPTION, "requiresgrad trainable propagatedown", "write freeze: true for requires_grad: false"},
    {OPTION, "inplace", "leave it out: the memory plan reuses buffers"},
    {OPTION, "activation", "write the activation as a layer after this one"},
    {OPTION, "paddingmode", "padding is always with zeros"},
    {OPTION, "reduction", "the loss is always the mean over the targets that count"},
    {PIPELINE, "virtualstages virtualpipelineparallelsize numlayerspervirtualpipelinestage interleave interleaved",
     "write schedule: {interleaved: {chunks: 2}}"},
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
    {NULL, "offload fsdp", "replicas can share out the optimizer state, pipeline.shard_optimizer, but no parameters"},
    {NULL, "worldsize rank localrank backend distributed nprocpernode masteraddr",
     "name the devices in pipeline.devices; mpirun -np 4 gpipe-train starts several processes"},
    {NULL, "outputdir outdir savedir logdir output checkpointdir workdir",
     "the run folder is given on the command line: -o DIR"},
    {NULL, "resume resumefrom resumefromcheckpoint restore",
     "a run goes on from its newest snapshot with --resume on the command line"},
    {NULL, "logevery loggingsteps loginterval verbose wandb tensorboard logger",
     "metrics.jsonl in the run folder has every step; -v prints more"},
    {NULL, "earlystopping patience earlystop",
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
