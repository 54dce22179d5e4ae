#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/config_internal.h"

/* What users of PyTorch, torchgpipe, Caffe, Keras and DeepSpeed call things; written without case, '_' and '-'. One
 * name may stand for several of ours: the first that is known where it was typed wins. */
static const struct foreign_name {
    const char *theirs, *ours;
} foreign_names[] = {
    /* layers */
    {"conv1d", "conv"},
    {"conv2d", "conv"},
    {"conv3d", "conv"},
    {"convolution", "conv"},
    {"convolution2d", "conv"},
    {"dense", "linear"},
    {"fc", "linear"},
    {"fullyconnected", "linear"},
    {"innerproduct", "linear"},
    {"affine", "linear"},
    {"batchnorm1d", "batch_norm"},
    {"batchnorm2d", "batch_norm"},
    {"batchnormalization", "batch_norm"},
    {"bn", "batch_norm"},
    {"syncbatchnorm", "batch_norm"},
    {"layernormalization", "layer_norm"},
    {"ln", "layer_norm"},
    {"groupnormalization", "group_norm"},
    {"instancenorm2d", "instance_norm"},
    {"instancenormalization", "instance_norm"},
    {"in", "instance_norm"},
    {"gn", "group_norm"},
    {"relu6", "relu"},
    {"activation", "relu"},
    {"prelu", "leaky_relu"},
    {"rrelu", "leaky_relu"},
    {"lrelu", "leaky_relu"},
    {"geluapproximate", "gelu"},
    {"logistic", "sigmoid"},
    {"swish", "silu"},
    {"maxpool2d", "max_pool"},
    {"maxpooling", "max_pool"},
    {"maxpooling2d", "max_pool"},
    {"pooling", "max_pool"},
    {"pool", "max_pool"},
    {"avgpool2d", "avg_pool"},
    {"averagepooling2d", "avg_pool"},
    {"averagepool", "avg_pool"},
    {"averagepooling", "avg_pool"},
    {"meanpool2d", "avg_pool"},
    {"adaptiveavgpool2d", "global_avg_pool"},
    {"adaptiveavgpool", "global_avg_pool"},
    {"globalaveragepooling2d", "global_avg_pool"},
    {"globalaveragepool", "global_avg_pool"},
    {"gap", "global_avg_pool"},
    {"meanpool", "global_avg_pool"},
    {"dropout2d", "dropout"},
    {"drop", "dropout"},
    {"spatialdropout2d", "dropout"},
    {"reshape", "flatten"},
    {"view", "flatten"},
    {"eltwise", "add"},
    {"sum", "add"},
    {"plus", "add"},
    {"residual", "add"},
    {"shortcut", "add"},
    {"cat", "concat"},
    {"concatenate", "concat"},
    {"join", "concat"},
    {"interpolate", "upsample"},
    {"upsamplingnearest2d", "upsample"},
    {"nearest", "upsample"},
    {"resize", "upsample"},
    {"upsampling2d", "upsample"},
    {"noop", "identity"},
    {"linearactivation", "identity"},
    {"passthrough", "identity"},
    {"multiheadattention", "attention"},
    {"selfattention", "attention"},
    /* options of layers */
    {"outchannels", "out"},
    {"outfeatures", "out"},
    {"numoutput", "out"},
    {"numoutputs", "out"},
    {"filters", "out"},
    {"units", "out"},
    {"output", "out"},
    {"outputs", "out"},
    {"channels", "out"},
    {"spatial", "channels"},
    {"wholechannels", "channels"},
    {"width", "out"},
    {"features", "out"},
    {"kernelsize", "kernel"},
    {"ksize", "kernel"},
    {"size", "kernel"},
    {"poolsize", "kernel"},
    {"window", "kernel"},
    {"padding", "pad"},
    {"paddings", "pad"},
    {"strides", "stride"},
    {"frozen", "freeze"},
    {"requiresgrad", "freeze"},
    {"trainable", "freeze"},
    {"propagatedown", "freeze"},
    {"group", "groups"},
    {"numgroups", "groups"},
    {"dilations", "dilation"},
    {"dilationrate", "dilation"},
    {"usebias", "bias"},
    {"biasterm", "bias"},
    {"epsilon", "eps"},
    {"batchnormeps", "eps"},
    {"elementwiseaffine", "affine"},
    {"scaleandshift", "affine"},
    {"negativeslope", "slope"},
    {"alpha", "slope"},
    {"approximate", "tanh"},
    {"ceilmode", "ceil"},
    {"countincludepad", "count_pad"},
    {"dropoutratio", "p"},
    {"dropprob", "p"},
    {"prob", "p"},
    {"rate", "p"},
    {"ratio", "p"},
    {"numembeddings", "vocab"},
    {"vocabsize", "vocab"},
    {"embeddingdim", "width"},
    {"numheads", "heads"},
    {"nhead", "heads"},
    {"iscausal", "causal"},
    {"scalefactor", "scale"},
    {"scales", "scale"},
    {"factor", "scale"},
    {"upscale", "scale"},
    {"bottom", "from"},
    {"bottoms", "from"},
    {"input", "from"},
    {"inputs", "from"},
    {"top", "name"},
    {"id", "name"},
    {"dim", "shape"},
    {"inputshape", "shape"},
    {"inputdim", "shape"},
    /* losses */
    {"crossentropyloss", "cross_entropy"},
    {"ce", "cross_entropy"},
    {"nll", "cross_entropy"},
    {"nllloss", "cross_entropy"},
    {"softmaxwithloss", "cross_entropy"},
    {"softmaxloss", "cross_entropy"},
    {"categoricalcrossentropy", "cross_entropy"},
    {"sparsecategoricalcrossentropy", "cross_entropy"},
    {"mseloss", "mse"},
    {"meansquarederror", "mse"},
    {"squarederror", "mse"},
    {"euclideanloss", "mse"},
    {"l2loss", "mse"},
    {"bcewithlogitsloss", "bce_logits"},
    {"bcewithlogits", "bce_logits"},
    {"binarycrossentropy", "bce_logits"},
    {"bceloss", "bce_logits"},
    {"bce", "bce_logits"},
    {"sigmoidcrossentropyloss", "bce_logits"},
    {"labelsmoothing", "smoothing"},
    {"ignoreindex", "ignore"},
    {"ignorelabel", "ignore"},
    {"criterion", "loss"},
    {"objective", "loss"},
    /* data */
    {"dataset", "data"},
    {"datasets", "data"},
    {"batchsize", "batch"},
    {"minibatch", "batch"},
    {"minibatchsize", "batch"},
    {"trainbatchsize", "batch"},
    {"val", "eval"},
    {"valid", "eval"},
    {"validation", "eval"},
    {"test", "eval"},
    {"training", "train"},
    {"trainset", "train"},
    {"droplastbatch", "drop_last"},
    {"mnist", "idx"},
    {"fashionmnist", "idx"},
    {"safetensors", "tensors"},
    {"npz", "tensors"},
    {"numpy", "tensors"},
    {"hdf5", "tensors"},
    {"image", "images"},
    {"label", "labels"},
    {"targets", "labels"},
    {"path", "file"},
    {"filename", "file"},
    {"source", "file"},
    {"subset", "take"},
    {"range", "take"},
    {"limit", "take"},
    {"transforms", "transform"},
    {"augment", "transform"},
    {"augmentation", "transform"},
    {"hflip", "random_horizontal_flip"},
    {"horizontalflip", "random_horizontal_flip"},
    {"vflip", "random_vertical_flip"},
    {"verticalflip", "random_vertical_flip"},
    {"normalization", "normalize"},
    {"crop", "random_crop"},
    {"cutout", "random_erasing"},
    {"erase", "random_erasing"},
    {"fake", "synthetic"},
    {"fakedata", "synthetic"},
    {"dummy", "synthetic"},
    {"numworkers", "threads"},
    /* pipeline */
    {"gpipe", "pipeline"},
    {"parallel", "pipeline"},
    {"chunks", "micro_batches"},
    {"microbatch", "micro_batches"},
    {"nummicrobatches", "micro_batches"},
    {"gradientaccumulationsteps", "micro_batches"},
    {"itersize", "micro_batches"},
    {"gpus", "devices"},
    {"places", "devices"},
    {"stages", "devices"},
    {"workers", "devices"},
    {"numstages", "devices"},
    {"partition", "balance"},
    {"partitions", "balance"},
    {"split", "balance"},
    {"splits", "balance"},
    {"partitionmethod", "balance"},
    {"layerassign", "balance"},
    {"colocate", "together"},
    {"colocatewith", "together"},
    {"bind", "together"},
    {"bound", "together"},
    {"uniform", "auto"},
    {"profile", "auto"},
    {"bytime", "auto"},
    {"bysize", "size"},
    {"memory", "size"},
    {"parameters", "size"},
    {"recompute", "checkpoint"},
    {"recomputation", "checkpoint"},
    {"activationcheckpointing", "checkpoint"},
    {"gradientcheckpointing", "checkpoint"},
    {"checkpointing", "checkpoint"},
    {"on", "true"},
    {"yes", "true"},
    {"off", "false"},
    {"no", "false"},
    {"none", "never"},
    {"off", "never"},
    {"all", "always"},
    {"full", "always"},
    {"filldrain", "gpipe"},
    {"clockcycle", "gpipe"},
    {"clockcycles", "gpipe"},
    {"afab", "gpipe"},
    {"gpu", "cuda"},
    {"nvidia", "cuda"},
    {"host", "cpu"},
    {"numthreads", "threads"},
    {"cores", "threads"},
    {"intraopthreads", "threads"},
    {"mem", "memory"},
    {"budget", "memory"},
    {"number", "count"},
    {"repeat", "count"},
    /* optimizer */
    {"optim", "optimizer"},
    {"solver", "optimizer"},
    {"learningrate", "lr"},
    {"baselr", "lr"},
    {"eta", "lr"},
    {"stepsize", "lr"},
    {"decay", "weight_decay"},
    {"wd", "weight_decay"},
    {"l2", "weight_decay"},
    {"regularization", "weight_decay"},
    {"mom", "momentum"},
    {"momentumsgd", "sgd"},
    {"scheduler", "lr_schedule"},
    {"lrscheduler", "lr_schedule"},
    {"lrpolicy", "lr_schedule"},
    {"lrdecay", "lr_schedule"},
    {"steplr", "step"},
    {"stepdecay", "step"},
    {"multisteplr", "multistep"},
    {"piecewiseconstant", "multistep"},
    {"cosineannealinglr", "cosine"},
    {"cosineannealing", "cosine"},
    {"cosinedecay", "cosine"},
    {"annealing", "cosine"},
    {"constantlr", "constant"},
    {"fixed", "constant"},
    {"none", "constant"},
    {"stepsize", "every"},
    {"interval", "every"},
    {"period", "every"},
    {"boundaries", "milestones"},
    {"stepvalue", "milestones"},
    {"stepvalues", "milestones"},
    {"factor", "gamma"},
    {"decayrate", "gamma"},
    {"lrdecayrate", "gamma"},
    {"etamin", "min"},
    {"minlr", "min"},
    {"finallr", "min"},
    {"beta", "betas"},
    {"beta1", "betas"},
    {"beta2", "betas"},
    {"momentum", "betas"},
    {"momentum2", "betas"},
    {"delta", "eps"},
    {"fusedadam", "adam"},
    {"fusedadamw", "adamw"},
    {"adamweightdecay", "adamw"},
    {"clip", "clip_norm"},
    {"clipgradients", "clip_norm"},
    {"clipgradnorm", "clip_norm"},
    {"gradclip", "clip_norm"},
    {"gradclipnorm", "clip_norm"},
    {"gradientclipping", "clip_norm"},
    {"maxgradnorm", "clip_norm"},
    {"maxnorm", "clip_norm"},
    {"weightdecayexclude", "no_decay"},
    {"nodecayparams", "no_decay"},
    {"biasandnorm", "norms_and_biases"},
    {"biasesandnorms", "norms_and_biases"},
    {"normandbias", "norms_and_biases"},
    {"bias", "norms_and_biases"},
    {"norms", "norms_and_biases"},
    {"true", "norms_and_biases"},
    {"warmupsteps", "warmup"},
    {"warmupepochs", "warmup"},
    {"warmupiters", "warmup"},
    {"totaliters", "length"},
    {"steps", "length"},
    {"startfactor", "from"},
    {"warmupfactor", "from"},
    /* train */
    {"trainer", "train"},
    {"numepochs", "epochs"},
    {"maxepochs", "epochs"},
    {"nepochs", "epochs"},
    {"maxiter", "steps"},
    {"maxsteps", "steps"},
    {"iterations", "steps"},
    {"numsteps", "steps"},
    {"iters", "steps"},
    {"manualseed", "seed"},
    {"randomseed", "seed"},
    {"rngseed", "seed"},
    {"testinterval", "eval_every"},
    {"evalinterval", "eval_every"},
    {"evaluateevery", "eval_every"},
    {"evalsteps", "eval_every"},
    {"valinterval", "eval_every"},
    {"pretrained", "init"},
    {"weights", "init"},
    {"initfrom", "init"},
    {"finetune", "init"},
    {"exclude", "skip"},
    {"except", "skip"},
    {"ignore", "skip"},
    {"without", "skip"},
    {"snapshot", "save_every"},
    {"snapshotinterval", "save_every"},
    {"saveinterval", "save_every"},
    {"savesteps", "save_every"},
    {"checkpointevery", "save_every"},
    {"checkpointinterval", "save_every"},
    {"savetotallimit", "keep"},
    {"keeplast", "keep"},
    {"maxtokeep", "keep"},
    {"network", "model"},
    {"net", "model"},
    {"architecture", "model"},
    {"layer", "layers"},
    {"sequential", "layers"},
    {"modules", "layers"},
};

enum { LONGEST = 64 }; /* longer names are near nothing */

/* Without case, '_', '-', '.' and blanks; false where it is too long. */
static bool fold(const char *name, char out[LONGEST + 1]) {
    size_t used = 0;
    for (; *name; name++) {
        if (strchr("_-. ", *name)) continue;
        if (used == LONGEST) return false;
        out[used++] = (char)tolower((unsigned char)*name);
    }
    out[used] = '\0';
    return true;
}

static const char *find_foreign(const char *folded, const char *const *known) {
    for (size_t i = 0; i < sizeof foreign_names / sizeof *foreign_names; i++) {
        if (strcmp(foreign_names[i].theirs, folded) != 0) continue;
        int index = gp_index_of(foreign_names[i].ours, known);
        if (index >= 0) return known[index];
    }
    return NULL;
}

/* Insertions, deletions, changes and swaps of neighbours that make one text of the other. */
static int edit_distance(const char *a, const char *b) {
    int rows[3][LONGEST + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    int columns = (int)strlen(b);
    for (int j = 0; j <= columns; j++) above[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
        int *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[columns];
}

const char *gp_nearest_name(const char *name, const char *const *known) {
    char folded[LONGEST + 1], other[LONGEST + 1];
    if (!fold(name, folded) || folded[0] == '\0') return NULL;
    for (size_t i = 0; known[i]; i++)
        if (fold(known[i], other) && strcmp(folded, other) == 0) return known[i];
    const char *nearest = find_foreign(folded, known);
    if (nearest) return nearest;
    int length = (int)strlen(folded);
    int least = 1 + length / 3 < length ? 1 + length / 3 : length - 1; /* farther is another word */
    for (size_t i = 0; known[i]; i++) {
        if (!fold(known[i], other)) continue;
        int distance = edit_distance(folded, other);
        if (distance > least || distance >= (int)strlen(other) || (nearest && distance == least)) continue;
        least = distance;
        nearest = known[i];
    }
    return nearest;
}

int gp_index_of(const char *name, const char *const *names) {
    for (int i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

gp_shown gp_show(const char *text) {
    enum { MOST = 60 };
    gp_shown shown;
    size_t used = 0;
    shown.text[used++] = '"';
    for (; *text && used < MOST; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n')
            used += (size_t)sprintf(shown.text + used, "\\n");
        else if (c < 0x20 || c == 0x7F)
            used += (size_t)sprintf(shown.text + used, "\\x%02X", (unsigned)c);
        else
            shown.text[used++] = (char)c;
    }
    bool cut = *text != '\0';
    while (*text && ((unsigned char)*text & 0xC0U) == 0x80U) shown.text[used++] = *text++;
    sprintf(shown.text + used, "%s\"", cut && *text ? "…" : "");
    return shown;
}

gp_shown gp_show_node(const gp_yaml *node) {
    if (node->kind == GP_YAML_SEQUENCE) return (gp_shown){"a list"};
    if (node->kind == GP_YAML_MAPPING) return (gp_shown){"a mapping"};
    if (!node->quoted && node->text[0] == '\0') return (gp_shown){"nothing"};
    return gp_show(node->text);
}

gp_suggestion gp_suggest(const char *name, const char *const *known) {
    gp_suggestion suggestion = {""};
    const char *nearest = gp_nearest_name(name, known);
    if (nearest) snprintf(suggestion.text, sizeof suggestion.text, "; did you mean %.60s?", nearest);
    return suggestion;
}

gp_listing gp_list_names(const char *const *names) {
    gp_listing listing = {""};
    size_t used = 0;
    for (size_t i = 0; names[i] && used < sizeof listing.text - 64; i++)
        used += (size_t)snprintf(listing.text + used, sizeof listing.text - used, "%s%.60s", i ? ", " : "", names[i]);
    return listing;
}
