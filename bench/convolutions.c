/* The methods by which the CPU computes convolutions: their times, and the table that the choice is made by.
 *
 *   bench_convolutions [THREADS [RUNS]]
 *
 * For the convolutions of three networks, and some others: milliseconds and GFLOP/s of each method of each of the three
 * ops, the one that the table chooses (*), a matrix product of the same size; then the sums of direct, of what is
 * chosen, and of the best. At the end: the rows of src/device/cpu/cpu_conv_table.inc that follow from these times, for
 * this machine's instruction set, or for a smaller one (ONEDNN_MAX_CPU_ISA=SSE41), with the error of the fit.
 *
 * libgomp's threads wait as in a run (OMP_WAIT_POLICY=passive). Least of several times, and of RUNS whole runs, so that
 * other programs disturb less. Not a test. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/machine_processors.h"
#include "base/memory.h"
#include "base/sync.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_conv_choice.h"
#include "device/cpu/cpu_onednn.h"
#include "device/device.h"

enum { ROUNDS = 5, LONGEST = 20 /* ms for one op, after its first run */, KINDS = 3 };

typedef struct conv {
    int64_t n, in, out, size, kernel, stride;
} conv;

typedef struct network {
    const char *name;
    int count;
    const conv *conv;
    const int *times; /* how often it is in the network */
} network;

#define NETWORK(name, convs, times)                                                                                    \
    { name, sizeof(convs) / sizeof *(convs), convs, times }

static const conv resnet_32[] = {
    {64, 3, 64, 32, 7, 2},     {64, 64, 64, 8, 1, 1},    {64, 64, 64, 8, 3, 1},    {64, 64, 256, 8, 1, 1},
    {64, 256, 64, 8, 1, 1},    {64, 256, 128, 8, 1, 1},  {64, 128, 128, 8, 3, 2},  {64, 128, 512, 4, 1, 1},
    {64, 256, 512, 8, 1, 2},   {64, 512, 128, 4, 1, 1},  {64, 128, 128, 4, 3, 1},  {64, 512, 256, 4, 1, 1},
    {64, 256, 256, 4, 3, 2},   {64, 256, 1024, 2, 1, 1}, {64, 512, 1024, 4, 1, 2}, {64, 1024, 256, 2, 1, 1},
    {64, 256, 256, 2, 3, 1},   {64, 1024, 512, 2, 1, 1}, {64, 512, 512, 2, 3, 2},  {64, 512, 2048, 1, 1, 1},
    {64, 1024, 2048, 2, 1, 2}, {64, 2048, 512, 1, 1, 1}, {64, 512, 512, 1, 3, 1},
};
static const int resnet_times[] = {1, 1, 3, 4, 2, 1, 1, 4, 1, 3, 3, 1, 1, 6, 1, 5, 5, 1, 1, 3, 1, 2, 2};
static const conv resnet_224[] = {
    {4, 3, 64, 224, 7, 2},     {4, 64, 64, 56, 1, 1},    {4, 64, 64, 56, 3, 1},    {4, 64, 256, 56, 1, 1},
    {4, 256, 64, 56, 1, 1},    {4, 256, 128, 56, 1, 1},  {4, 128, 128, 56, 3, 2},  {4, 128, 512, 28, 1, 1},
    {4, 256, 512, 56, 1, 2},   {4, 512, 128, 28, 1, 1},  {4, 128, 128, 28, 3, 1},  {4, 512, 256, 28, 1, 1},
    {4, 256, 256, 28, 3, 2},   {4, 256, 1024, 14, 1, 1}, {4, 512, 1024, 28, 1, 2}, {4, 1024, 256, 14, 1, 1},
    {4, 256, 256, 14, 3, 1},   {4, 1024, 512, 14, 1, 1}, {4, 512, 512, 14, 3, 2},  {4, 512, 2048, 7, 1, 1},
    {4, 1024, 2048, 14, 1, 2}, {4, 2048, 512, 7, 1, 1},  {4, 512, 512, 7, 3, 1},
};
static const conv unet[] = {
    {8, 3, 16, 96, 3, 1},    {8, 16, 16, 96, 3, 1},  {8, 16, 32, 96, 3, 2},   {8, 32, 32, 48, 3, 1},
    {8, 32, 64, 48, 3, 2},   {8, 64, 64, 24, 3, 1},  {8, 64, 128, 24, 3, 2},  {8, 128, 128, 12, 3, 1},
    {8, 128, 256, 12, 3, 2}, {8, 256, 256, 6, 3, 1}, {8, 384, 128, 12, 3, 1}, {8, 192, 64, 24, 3, 1},
    {8, 96, 32, 48, 3, 1},   {8, 48, 16, 96, 3, 1},  {8, 16, 1, 96, 1, 1},
};
static const int unet_times[] = {1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 1, 1, 1, 1};
/* For the table: smaller micro-batches, and sizes between those of the networks. */
static const conv others[] = {
    {16, 512, 2048, 1, 1, 1}, {16, 2048, 512, 1, 1, 1},  {16, 512, 512, 1, 3, 1}, {16, 256, 256, 2, 3, 1},
    {16, 256, 1024, 2, 1, 1}, {16, 128, 128, 4, 3, 1},   {16, 512, 128, 4, 1, 1}, {16, 64, 64, 8, 3, 1},
    {16, 512, 512, 2, 3, 2},  {16, 1024, 2048, 2, 1, 2}, {32, 128, 128, 3, 3, 1}, {64, 32, 32, 2, 3, 1},
    {64, 64, 128, 1, 1, 1},   {64, 32, 32, 4, 3, 1},     {4, 64, 64, 4, 3, 1},    {4, 256, 256, 1, 3, 1},
    {128, 64, 64, 3, 3, 1},   {256, 128, 128, 1, 3, 1},  {32, 96, 192, 5, 3, 2},  {64, 48, 96, 6, 1, 1},
    {1, 512, 512, 7, 3, 1},   {2, 256, 512, 7, 1, 1},    {64, 16, 32, 14, 5, 1},  {64, 256, 256, 4, 3, 1},
};

static const network networks[] = {
    NETWORK("ResNet-50 at 32x32, batch 64", resnet_32, resnet_times),
    NETWORK("ResNet-50 at 224x224, batch 4", resnet_224, resnet_times),
    NETWORK("U-Net (2, 16) at 96x96, batch 8", unet, unet_times),
    NETWORK("others", others, NULL),
};
enum { NETWORKS = sizeof networks / sizeof *networks };

static const gp_op_kind kinds[KINDS] = {GP_OP_CONV_FORWARD, GP_OP_CONV_BACKWARD_DATA, GP_OP_CONV_BACKWARD_WEIGHTS};
static const char *const kind_names[KINDS] = {"FORWARD", "BACKWARD_DATA", "BACKWARD_WEIGHTS"};
static const char *const method_names[GP_CONV_METHODS] = {"DIRECT", "PRODUCT", "GATHERED", "PLACES"};

/* Device kinds that compute convolutions by one method. */
#define FORCED(METHOD)                                                                                                 \
    static gp_status prepare_##METHOD(gp_prepared *prepared, gp_error *err) {                                          \
        return gp_cpu_conv_prepare_as(prepared, GP_CONV_##METHOD, err);                                                \
    }
FORCED(DIRECT)
FORCED(PRODUCT)
FORCED(GATHERED)
FORCED(PLACES)
static gp_device_kind forced[GP_CONV_METHODS];

static gp_op_cache *cache;
static gp_device *device;
static gp_stream *stream;
static uint32_t threads = 1;

static void must(gp_status status, const gp_error *err) {
    if (status == GP_OK) return;
    fprintf(stderr, "bench_convolutions: %s\n", err->text);
    exit(1);
}

static float *allocate(size_t bytes) {
    float *block = aligned_alloc(GP_ALIGNMENT, gp_align_up(bytes + 1, GP_ALIGNMENT));
    if (!block) exit(1);
    for (size_t i = 0; i < bytes / sizeof *block; i++) block[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    return block;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double milliseconds(const gp_prepared *prepared) {
    void *operands[GP_MAX_OPERANDS] = {NULL}, *workspace = allocate(prepared->workspace);
    const gp_op_args args = {0};
    gp_error err = {0};
    double least = 1e9, sum = 0;
    for (uint32_t i = 0; i < prepared->desc.operands; i++)
        if (prepared->desc.operand[i].present) operands[i] = allocate(prepared->operand[i].bytes);
    for (int r = 0; r <= ROUNDS && sum < LONGEST; r++) {
        double from = now();
        must(gp_device_run(&gp_cpu_kind, stream, prepared, operands, workspace, &args, &err), &err);
        double took = now() - from;
        if (r > 0) sum += took;
        if (r > 0 && took < least) least = took;
    }
    for (uint32_t i = 0; i < prepared->desc.operands; i++) free(operands[i]);
    free(workspace);
    return least;
}

static gp_op_desc describe(const conv *c, gp_op_kind kind) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    desc.threads = threads;
    int64_t pad = c->kernel / 2, outputs = (c->size + 2 * pad - c->kernel) / c->stride + 1;
    desc.attributes.conv = (gp_conv_attributes){.kernel = {c->kernel, c->kernel},
                                                .stride = {c->stride, c->stride},
                                                .pad = {pad, pad},
                                                .dilation = {1, 1},
                                                .groups = 1};
    for (int i = 0; i < (int)desc.operands; i++) {
        switch ((int)gp_op_operand_named(kind, i)) {
        case GP_NAME_X:
        case GP_NAME_DX:
            desc.operand[i] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){c->n, c->size, c->size, c->in});
            break;
        case GP_NAME_Y:
        case GP_NAME_DY:
            desc.operand[i] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){c->n, outputs, outputs, c->out});
            break;
        case GP_NAME_W:
        case GP_NAME_DW:
            desc.operand[i] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){c->out, c->in, c->kernel, c->kernel});
            desc.operand[i].format = GP_FORMAT_ANY;
            break;
        default: break;
        }
    }
    return desc;
}

static double time_of(const gp_device_kind *kind, const gp_op_desc *desc) {
    gp_error err = {0};
    const gp_prepared *prepared;
    must(gp_op_prepare(cache, kind, desc, &prepared, &err), &err);
    return milliseconds(prepared);
}

/* A linear layer with the rows, the depth and the channels of the convolution. */
static double product_of(const gp_conv_shape *s, gp_op_kind kind) {
    gp_op_desc desc;
    const int linear = GP_OP_LINEAR_FORWARD + (int)kind - GP_OP_CONV_FORWARD;
    gp_op_desc_init(&desc, (gp_op_kind)linear);
    desc.threads = threads;
    for (int i = 0; i < (int)desc.operands; i++) {
        gp_operand_name name = gp_op_operand_named(desc.kind, i);
        const int64_t rows = gp_conv_rows(s), depth = gp_conv_depth(s);
        if (name == GP_NAME_X || name == GP_NAME_DX)
            desc.operand[i] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, depth});
        else if (name == GP_NAME_Y || name == GP_NAME_DY)
            desc.operand[i] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, s->out});
        else if (name == GP_NAME_W || name == GP_NAME_DW)
            desc.operand[i] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){s->out, depth});
    }
    return time_of(&gp_cpu_kind, &desc);
}

enum { TERMS = 4, MOST = 128 };

typedef struct samples {
    int count, next;
    double term[MOST][TERMS]; /* GFLOP, GB, GB, thousands of products */
    double took[MOST];        /* ms */
} samples;

static samples measured[GP_CONV_METHODS][KINDS];

static void add_sample(const gp_conv_shape *shape, int kind, int method, double took) {
    samples *s = &measured[method][kind];
    gp_conv_work work = gp_conv_work_of(shape, kinds[kind], (gp_conv_method)method, gp_conv_isa_now(), threads);
    bool waking =
        method == GP_CONV_DIRECT && threads > 1 && !gp_conv_is_shared(shape, kinds[kind], gp_conv_isa_now(), threads);
    if (waking) took = fmax(took - GP_CONV_WAKING, 0.001);
    const double term[TERMS] = {1e-9 * work.flops, 1e-9 * work.weights, 1e-9 * work.moved, 1e-3 * work.products};
    if (s->next == MOST) return;
    memcpy(s->term[s->next], term, sizeof term);
    if (s->next == s->count) s->took[s->count++] = took;
    s->took[s->next] = fmin(s->took[s->next], took);
    s->next++;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

typedef struct sums {
    double direct, chosen, best;
} sums;

static void show_op(const conv *c, int kind, int times, sums *all) {
    gp_op_desc desc = describe(c, kinds[kind]);
    gp_conv_shape shape = gp_conv_shape_of(&desc);
    gp_conv_method chosen = gp_conv_choose(&desc, GP_CONV_WEIGHTS_ANY, gp_conv_isa_now()).method;
    double took[GP_CONV_METHODS], best = INFINITY;
    printf("%4lld %5lld %5lld %4lld %2lld %2lld  %-16s", (long long)c->n, (long long)c->in, (long long)c->out,
           (long long)c->size, (long long)c->kernel, (long long)c->stride, kind_names[kind]);
    for (int m = 0; m < GP_CONV_METHODS; m++) {
        took[m] = INFINITY;
        if (gp_conv_is_possible(&shape, (gp_conv_method)m)) took[m] = time_of(&forced[m], &desc);
        best = fmin(best, took[m]);
        if (!isinf(took[m])) add_sample(&shape, kind, m, took[m]);
        if (isinf(took[m]))
            printf("        -      ");
        else
            printf(" %8.3f %5.1f%c", took[m], 1e-6 * gp_conv_flops(&shape) / took[m], m == (int)chosen ? '*' : ' ');
    }
    double product = gp_conv_rows(&shape) * gp_conv_depth(&shape) > 8 << 20 ? NAN : product_of(&shape, kinds[kind]);
    printf(" %6.1f\n", 1e-6 * gp_conv_flops(&shape) / product);
    fflush(stdout);
    all->direct += times * took[GP_CONV_DIRECT];
    all->chosen += times * took[chosen];
    all->best += times * best;
}

static void show(const network *n) {
    sums all = {0};
    printf("\n%s, %s, %u threads\n   n    in   out size  k  s  op", n->name, gp_cpu_onednn_version(), threads);
    printf("                  direct         product        gathered       by places      sgemm\n"
           "                                              ms GFLOP/s\n");
    for (int i = 0; i < n->count; i++) {
        for (int k = 0; k < KINDS; k++) {
            bool needless = n->times && i == 0 && kinds[k] == GP_OP_CONV_BACKWARD_DATA; /* of the model's input */
            if (!needless) show_op(&n->conv[i], k, n->times ? n->times[i] : 1, &all);
        }
    }
    printf("all convolutions of a step: direct %.1f ms, as chosen %.1f, by the best of each %.1f\n", all.direct,
           all.chosen, all.best);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Least squares of relative errors, with coefficients ≥ 0, by coordinate descent. */
static void fit(const samples *s, double out[TERMS]) {
    for (int t = 0; t < TERMS; t++) out[t] = 0;
    for (int pass = 0; pass < 20000; pass++) {
        int t = pass % TERMS;
        double up = 0, down = 1e-30;
        for (int i = 0; i < s->count; i++) {
            double rest = s->took[i], x = s->term[i][t] / s->took[i];
            for (int u = 0; u < TERMS; u++) rest -= u == t ? 0 : out[u] * s->term[i][u];
            up += x * rest / s->took[i];
            down += x * x;
        }
        out[t] = fmax(up / down, 0);
    }
}

static void print_row(const samples *s, int kind, int method, double c[TERMS]) {
    double error = 0;
    for (int i = 0; i < s->count; i++) {
        double expected = 0;
        for (int t = 0; t < TERMS; t++) expected += c[t] * s->term[i][t];
        error += fabs(log(expected / s->took[i]));
    }
    /* Coefficients are ms per GFLOP, ms per GB, ms per thousand products. 1e6: no time. */
    printf("ROW(%s, %u, %s, %s, %.1f, %.1f, %.1f, %.2f) /* %d shapes, mean error %.0f %% */\n",
           gp_conv_isa_now() == GP_CONV_AVX512 ? "AVX512"
           : gp_conv_isa_now() == GP_CONV_AVX2 ? "AVX2"
                                               : "SSE41",
           threads, method_names[method], kind_names[kind], 1e3 / fmax(c[0], 1e-3), 1e3 / fmax(c[1], 1e-3),
           1e3 / fmax(c[2], 1e-3), c[3], s->count, 100 * error / s->count);
    fflush(stdout);
}

static void print_table(void) {
    printf("\nrows of src/device/cpu/cpu_conv_table.inc\n");
    for (int method = 0; method < GP_CONV_METHODS; method++) {
        for (int kind = 0; kind < KINDS; kind++) {
            double coefficients[TERMS];
            fit(&measured[method][kind], coefficients);
            print_row(&measured[method][kind], kind, method, coefficients);
        }
    }
}

/* libgomp reads its policy when it is loaded. */
static void wait_as_in_a_run(char **argument) {
    if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
    execv("/proc/self/exe", argument);
}

int main(int count, char **argument) {
    gp_error err = {0};
    wait_as_in_a_run(argument);
    gp_status (*const prepare[])(gp_prepared *, gp_error *) = {prepare_DIRECT, prepare_PRODUCT, prepare_GATHERED,
                                                               prepare_PLACES};
    if (count > 1) threads = (uint32_t)atoi(argument[1]);
    const int runs = count > 2 ? atoi(argument[2]) : 1;
    if (threads < 1) return 2;
    const gp_device_spec spec = {&gp_cpu_kind, 0, (int)threads, 0};
    for (int m = 0; m < GP_CONV_METHODS; m++) {
        forced[m] = gp_cpu_kind;
        forced[m].prepare = prepare[m];
    }
    gp_wait_spin(gp_machine_spin((int)threads)); /* as in a run */
    must(gp_op_cache_create(&cache, &err), &err);
    must(gp_cpu_kind.open(&spec, &device, &err), &err);
    must(gp_cpu_kind.stream_create(device, false, &stream, &err), &err);
    for (int run = 0; run < runs; run++) {
        for (int m = 0; m < GP_CONV_METHODS; m++)
            for (int k = 0; k < KINDS; k++) measured[m][k].next = 0;
        for (int n = 0; n < NETWORKS; n++) show(&networks[n]);
    }
    print_table();
    gp_cpu_kind.stream_destroy(stream);
    gp_cpu_kind.close(device);
    gp_op_cache_destroy(&cache);
    return 0;
}
