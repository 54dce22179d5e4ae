/* VGG (1409.1556) as torchvision has it: features.<i>, an adaptive mean of 7×7, classifier.<i>. */
#include <inttypes.h>

#include "model/builtin.h"

enum { BLOCKS = 5, LAST = 7, HIDDEN = 4096 };

static const char *const depths[] = {"11", "13", "16", "19", NULL};
/* Convolutions before each of the pools. */
static const int convolutions[][BLOCKS] = {{1, 1, 2, 2, 2}, {2, 2, 2, 2, 2}, {2, 2, 3, 3, 3}, {2, 2, 4, 4, 4}};
static const int widths[BLOCKS] = {64, 128, 256, 512, 512};

static void write_features(FILE *out, int depth, bool batch_norm) {
    int index = 0;
    for (int b = 0; b < BLOCKS; b++) {
        for (int c = 0; c < convolutions[depth][b]; c++) {
            fprintf(out,
                    "- conv: {name: features.%d, out: %d, kernel: 3, pad: 1, "
                    "init: {weight: {kaiming_normal: fan_out}, bias: 0}}\n",
                    index++, widths[b]);
            if (batch_norm) fprintf(out, "- batch_norm: {name: features.%d}\n", index++);
            fprintf(out, "- relu: {name: features.%d}\n", index++);
        }
        fprintf(out, "- max_pool: {name: features.%d, kernel: 2}\n", index++);
    }
}

/* AdaptiveAvgPool2d(7), where it is a mean over blocks, or a repetition. */
static gp_status write_adaptive(gp_place place, gp_shape input, FILE *out, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (input.rank != 3)
        return gp_fail_at(err, GP_CONFIG, place, "vgg: takes a picture [channels, height, width], not %s",
                          gp_shape_text(text, input));
    int64_t height = input.dim[1] >> BLOCKS, width = input.dim[2] >> BLOCKS;
    if (height == 1 && width == 1) {
        fprintf(out, "- upsample: {name: avgpool, scale: %d}\n", LAST);
    } else if (height % LAST || width % LAST || height == 0 || width == 0) {
        return gp_fail_at(
            err, GP_CONFIG, place,
            "vgg: its pools make %" PRId64 "x%" PRId64 " of a picture of %" PRId64 "x%" PRId64
            ", and its mean takes 1x1 (pictures of 32 to 63) or multiples of 7 (224 to 255, 448 to 479, …)",
            height, width, input.dim[1], input.dim[2]);
    } else if (height != LAST || width != LAST) {
        fprintf(out, "- avg_pool: {name: avgpool, kernel: [%" PRId64 ", %" PRId64 "]}\n", height / LAST, width / LAST);
    }
    return GP_OK;
}

static void write_classifier(FILE *out, int64_t classes) {
    static const char init[] = "init: {weight: {normal: 0.01}, bias: 0}";
    fputs("- flatten: {name: flatten}\n", out);
    for (int index = 0; index < 6; index += 3)
        fprintf(out,
                "- linear: {name: classifier.%d, out: %d, %s}\n- relu: {name: classifier.%d}\n"
                "- dropout: {name: classifier.%d, p: 0.5}\n",
                index, HIDDEN, init, index + 1, index + 2);
    fprintf(out, "- linear: {name: classifier.6, out: %" PRId64 ", %s}\n", classes, init);
}

static gp_status vgg_write(const gp_built_in_options *options, gp_place place, gp_shape input, FILE *out,
                           gp_error *err) {
    write_features(out, options->depth, options->batch_norm);
    GP_RETURN_IF_FAILED(write_adaptive(place, input, out, err));
    write_classifier(out, options->classes);
    return GP_OK;
}

const gp_built_in gp_vgg_model = {"vgg", depths, "vgg: {depth: 11, classes: 10}", true, vgg_write};
