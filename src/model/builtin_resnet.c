/* ResNets (1512.03385) as torchvision has them: the stride on the 3×3 ("v1.5").
 *
 * A block is a row of layers, as torchgpipe counts them: the identity, which keeps what enters, convolutions with their
 * norms, the sum, relu. Where the shape changes, the sum and what the identity passes through on its way there are one
 * layer.
 */
#include <inttypes.h>

#include "model/builtin.h"

enum { GROUPS = 4, WIDTH = 64, EXPANSION = 4 };

typedef struct resnet {
    bool bottleneck; /* three convolutions in a block, not two */
    int blocks[GROUPS];
} resnet;

static const char *const depths[] = {"18", "34", "50", "101", "152", NULL};
static const resnet variants[] = {
    {false, {2, 2, 2, 2}}, {false, {3, 4, 6, 3}}, {true, {3, 4, 6, 3}}, {true, {3, 4, 23, 3}}, {true, {3, 8, 36, 3}},
};

typedef struct block {
    char name[24]; /* "layer1.0" */
    int width;
    int out;
    int stride;
    bool changes; /* the shape */
} block;

static void write_conv(FILE *out, const char *name, int channels, int kernel, int stride, int pad) {
    fprintf(out,
            "- conv: {name: %s, out: %d, kernel: %d, stride: %d, pad: %d, bias: false, "
            "init: {weight: {kaiming_normal: fan_out}}}\n",
            name, channels, kernel, stride, pad);
}

/* conv<i>, bn<i> of a block. */
static void write_step(FILE *out, const block *its, int i, int channels, int kernel, int stride) {
    char name[40];
    snprintf(name, sizeof name, "%s.conv%d", its->name, i);
    write_conv(out, name, channels, kernel, stride, kernel / 2);
    fprintf(out, "- batch_norm: {name: %s.bn%d}\n", its->name, i);
}

static void write_relu(FILE *out, const block *its, int i) {
    fprintf(out, "- relu: {name: %s.relu%d}\n", its->name, i);
}

static void write_sum(FILE *out, const block *its, int last) {
    if (!its->changes) {
        fprintf(out, "- add: {name: %s.add, from: [-1, %s.identity]}\n", its->name, its->name);
        return;
    }
    fprintf(out,
            "- sequential: {name: %s.downsample, from: %s.identity, layers: ["
            "conv: {out: %d, kernel: 1, stride: %d, bias: false, init: {weight: {kaiming_normal: fan_out}}}, "
            "batch_norm, add: [%s.bn%d, -1]]}\n",
            its->name, its->name, its->out, its->stride, its->name, last);
}

static void write_block(FILE *out, const block *its, bool bottleneck) {
    int last = bottleneck ? 3 : 2;
    fprintf(out, "- identity: {name: %s.identity}\n", its->name);
    if (bottleneck) {
        write_step(out, its, 1, its->width, 1, 1);
        write_relu(out, its, 1);
        write_step(out, its, 2, its->width, 3, its->stride);
        write_relu(out, its, 2);
        write_step(out, its, 3, its->out, 1, 1);
    } else {
        write_step(out, its, 1, its->width, 3, its->stride);
        write_relu(out, its, 1);
        write_step(out, its, 2, its->out, 3, 1);
    }
    write_sum(out, its, last);
    write_relu(out, its, last);
}

static gp_status resnet_write(const gp_built_in_options *options, gp_place place, gp_shape input, FILE *out,
                              gp_error *err) {
    (void)place, (void)input, (void)err;
    const resnet *its = &variants[options->depth];
    int channels = WIDTH;
    write_conv(out, "conv1", WIDTH, 7, 2, 3);
    fputs("- batch_norm: {name: bn1}\n- relu: {name: relu}\n"
          "- max_pool: {name: maxpool, kernel: 3, stride: 2, pad: 1}\n",
          out);
    for (int group = 0; group < GROUPS; group++) {
        for (int b = 0; b < its->blocks[group]; b++) {
            block next = {.width = WIDTH << group, .stride = group > 0 && b == 0 ? 2 : 1};
            snprintf(next.name, sizeof next.name, "layer%d.%d", group + 1, b);
            next.out = its->bottleneck ? EXPANSION * next.width : next.width;
            next.changes = next.stride > 1 || next.out != channels;
            write_block(out, &next, its->bottleneck);
            channels = next.out;
        }
    }
    fprintf(out,
            "- global_avg_pool: {name: avgpool}\n- flatten: {name: flatten}\n- linear: {name: fc, out: %" PRId64 "}\n",
            options->classes);
    return GP_OK;
}

const gp_built_in gp_resnet_model = {"resnet", depths, "resnet: {depth: 18, classes: 10}", false, resnet_write};
