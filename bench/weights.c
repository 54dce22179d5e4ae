/* What formats of weights cost on one CPU thread: for convolutions of ResNet-50 and a U-Net, the backward pass for
 * inputs, and the reorders of a step. `plain`: from and to masters in PyTorch's order, as it was once; `forward`: with
 * masters in the format of the forward pass. The rule in compile/stage_fixed.c comes from the columns `work` and
 * `share`. Least of several times of the thread, so that other programs disturb less. Not a test. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/device.h"

enum { ROUNDS = 7 };

typedef struct conv {
    int64_t n, in, out, size, kernel, stride;
} conv;

typedef struct bench {
    gp_op_cache *cache;
    gp_device *device;
    gp_stream *stream;
} bench;

static void must(gp_status status, const gp_error *err) {
    if (status == GP_OK) return;
    fprintf(stderr, "bench_weights: %s\n", err->text);
    exit(1);
}

static float *allocate(size_t bytes) {
    float *block = aligned_alloc(GP_ALIGNMENT, gp_align_up(bytes + 1, GP_ALIGNMENT));
    if (!block) exit(1);
    for (size_t i = 0; i < bytes / sizeof *block; i++) block[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    return block;
}

static const gp_prepared *prepare(const bench *b, const gp_op_desc *desc) {
    gp_error err = {0};
    const gp_prepared *prepared;
    must(gp_op_prepare(b->cache, &gp_cpu_kind, desc, &prepared, &err), &err);
    return prepared;
}

static gp_tensor weights_of(const conv *c, gp_format format) {
    gp_tensor w = gp_tensor_plain(GP_F32, 4, (const int64_t[]){c->out, c->in, c->kernel, c->kernel});
    w.format = format;
    return w;
}

/* The operands of the three kinds lie alike: two values and the weights, at `weights`. */
static const gp_prepared *prepare_conv(const bench *b, const conv *c, gp_op_kind kind, int x, int weights, int y) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    desc.threads = 1;
    int64_t pad = c->kernel / 2, outputs = (c->size + 2 * pad - c->kernel) / c->stride + 1;
    desc.attributes.conv = (gp_conv_attributes){.kernel = {c->kernel, c->kernel},
                                                .stride = {c->stride, c->stride},
                                                .pad = {pad, pad},
                                                .dilation = {1, 1},
                                                .groups = 1};
    desc.operand[x] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){c->n, c->size, c->size, c->in});
    desc.operand[y] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){c->n, outputs, outputs, c->out});
    desc.operand[weights] = weights_of(c, GP_FORMAT_ANY);
    return prepare(b, &desc);
}

static double milliseconds(const bench *b, const gp_prepared *prepared) {
    void *operands[GP_MAX_OPERANDS] = {NULL}, *workspace = allocate(prepared->workspace);
    const gp_op_args args = {0};
    gp_error err = {0};
    double least = 1e9;
    for (uint32_t i = 0; i < prepared->desc.operands; i++)
        if (prepared->desc.operand[i].present) operands[i] = allocate(prepared->operand[i].bytes);
    for (int r = 0; r < ROUNDS; r++) {
        struct timespec from, to;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        must(gp_device_run(&gp_cpu_kind, b->stream, prepared, operands, workspace, &args, &err), &err);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        double took = 1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec);
        if (took < least) least = took;
    }
    for (uint32_t i = 0; i < prepared->desc.operands; i++) free(operands[i]);
    free(workspace);
    return least;
}

static double reorder(const bench *b, const conv *c, gp_format from, gp_format to) {
    gp_op_desc desc;
    if (from == to) return 0;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    desc.threads = 1;
    desc.operand[GP_REORDER_X] = weights_of(c, from);
    desc.operand[GP_REORDER_Y] = weights_of(c, to);
    return milliseconds(b, prepare(b, &desc));
}

static void measure(const bench *b, const conv *c) {
    const gp_prepared *forward =
        prepare_conv(b, c, GP_OP_CONV_FORWARD, GP_CONV_FORWARD_X, GP_CONV_FORWARD_W, GP_CONV_FORWARD_Y);
    const gp_prepared *data = prepare_conv(b, c, GP_OP_CONV_BACKWARD_DATA, GP_CONV_BACKWARD_DATA_DX,
                                           GP_CONV_BACKWARD_DATA_W, GP_CONV_BACKWARD_DATA_DY);
    const gp_prepared *weights = prepare_conv(b, c, GP_OP_CONV_BACKWARD_WEIGHTS, GP_CONV_BACKWARD_WEIGHTS_X,
                                              GP_CONV_BACKWARD_WEIGHTS_DW, GP_CONV_BACKWARD_WEIGHTS_DY);
    const gp_operand_storage *of_data = &data->operand[GP_CONV_BACKWARD_DATA_W];
    gp_format f = forward->operand[GP_CONV_FORWARD_W].format, d = of_data->format,
              g = weights->operand[GP_CONV_BACKWARD_WEIGHTS_DW].format;
    double op = milliseconds(b, data), across = reorder(b, c, f, d);
    double plain =
        reorder(b, c, GP_FORMAT_PLAIN, f) + reorder(b, c, GP_FORMAT_PLAIN, d) + reorder(b, c, g, GP_FORMAT_PLAIN);
    printf("%4lld %5lld %5lld %4lld %3lld %2lld  %6.2f  %7.0f %8.2f %8.2f %7.1f%%  %8.2f %8.2f\n", (long long)c->n,
           (long long)c->in, (long long)c->out, (long long)c->size, (long long)c->kernel, (long long)c->stride,
           4e-6 * (double)(c->in * c->out * c->kernel * c->kernel), data->flops / (double)of_data->bytes, op, across,
           100 * across / op, plain, across + reorder(b, c, g, f));
}

int main(void) {
    static const conv convs[] = {
        {64, 64, 64, 8, 3, 1},    {64, 256, 128, 8, 1, 1},  {64, 128, 128, 4, 3, 1},   {64, 256, 1024, 2, 1, 1},
        {64, 256, 256, 2, 3, 1},  {64, 512, 512, 2, 3, 2},  {64, 1024, 2048, 2, 1, 2}, {64, 512, 512, 1, 3, 1},
        {64, 512, 2048, 1, 1, 1}, {16, 128, 128, 4, 3, 1},  {16, 512, 512, 1, 3, 1},   {4, 64, 64, 56, 3, 1},
        {4, 128, 128, 28, 3, 1},  {4, 256, 256, 14, 3, 1},  {4, 1024, 256, 14, 1, 1},  {4, 512, 512, 7, 3, 1},
        {16, 512, 512, 7, 3, 1},  {16, 512, 2048, 7, 1, 1}, {8, 32, 64, 48, 3, 1},     {8, 256, 256, 6, 3, 1},
    };
    const gp_device_spec spec = {&gp_cpu_kind, 0, 1, 0};
    gp_error err = {0};
    bench b;
    must(gp_op_cache_create(&b.cache, &err), &err);
    must(gp_cpu_kind.open(&spec, &b.device, &err), &err);
    must(gp_cpu_kind.stream_create(b.device, false, &b.stream, &err), &err);
    printf(
        "work: operations of the backward pass for inputs, for each byte of its weights; backward, reorder: its time,\n"
        "and that of a reorder from forward's format; share: of the one in the other; then all reorders of a step\n\n"
        "   n    in   out size   k  s     MB     work backward  reorder   share     plain  forward   (ms)\n");
    for (size_t c = 0; c < sizeof convs / sizeof convs[0]; c++) measure(&b, &convs[c]);
    gp_cpu_kind.stream_destroy(b.stream);
    gp_cpu_kind.close(b.device);
    gp_op_cache_destroy(&b.cache);
    return 0;
}
