/* What the CPU device's own loops reach of the speed of memory: for each op and some shapes of ResNet-50, a U-Net and a
 * small network, the bytes that it reads and writes (each counted once) in a second, and the same as a share of memcpy.
 * memcpy moves as many bytes: it reads one half of them and writes the other, with the same threads, again and again in
 * the same buffers, as the op does. So both work in the cache if the operands fit, and in memory if they do not. Least
 * of several times. Not a test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/machine_processors.h"
#include "base/memory.h"
#include "base/sync.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_loops.h"
#include "device/device.h"

/* How the operands of a row follow from its shape [n,h,w,c]. */
typedef enum form {
    FORM_ALIKE,    /* all real operands of that shape; vectors of c */
    FORM_POOL,     /* y and dy: windows of the attributes */
    FORM_UPSAMPLE, /* y and dy: twice as high and wide */
    FORM_MEAN,     /* y and dy: [n,1,1,c] */
    FORM_FLAT,     /* the other operand: [n,h·w·c] */
    FORM_SLICE,    /* y: channels of a tensor that is twice as wide, as concat writes */
    FORM_ROWS,     /* [n·h·w, c] and a class for each row */
} form;

typedef struct row {
    const char *name;
    gp_op_kind kind;
    form form;
    int64_t shape[4];
    int64_t first, second; /* pool: kernel, stride; group norm: groups; activation: function; losses: function */
    bool absent;           /* the first operand that may be absent is */
} row;

#define CNN                                                                                                            \
    { 64, 28, 28, 16 }
#define CNN_2                                                                                                          \
    { 64, 14, 14, 32 }
#define SMALL                                                                                                          \
    { 64, 8, 8, 256 }
#define LARGE                                                                                                          \
    { 16, 56, 56, 256 }
#define STEM                                                                                                           \
    { 16, 112, 112, 64 }
#define UNET                                                                                                           \
    { 8, 96, 96, 32 }
#define DEEP                                                                                                           \
    { 8, 12, 12, 256 }

static const row rows[] = {
    {"batch norm statistics", GP_OP_NORM_STATISTICS, FORM_ALIKE, CNN, 0, 0, false},
    {"batch norm statistics", GP_OP_NORM_STATISTICS, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm statistics", GP_OP_NORM_STATISTICS, FORM_ALIKE, LARGE, 0, 0, false},
    {"batch norm", GP_OP_NORM_APPLY, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm, relu", GP_OP_NORM_APPLY_RELU, FORM_ALIKE, CNN, 0, 0, true},
    {"batch norm, relu", GP_OP_NORM_APPLY_RELU, FORM_ALIKE, SMALL, 0, 0, true},
    {"batch norm, relu", GP_OP_NORM_APPLY_RELU, FORM_ALIKE, LARGE, 0, 0, true},
    {"batch norm, add, relu", GP_OP_NORM_APPLY_RELU, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm, add, relu", GP_OP_NORM_APPLY_RELU, FORM_ALIKE, LARGE, 0, 0, false},
    {"batch norm reduce", GP_OP_NORM_BACKWARD_REDUCE, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm reduce, relu", GP_OP_NORM_RELU_BACKWARD_REDUCE, FORM_ALIKE, CNN, 0, 0, false},
    {"batch norm reduce, relu", GP_OP_NORM_RELU_BACKWARD_REDUCE, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm reduce, relu", GP_OP_NORM_RELU_BACKWARD_REDUCE, FORM_ALIKE, LARGE, 0, 0, false},
    {"batch norm reduce, add, relu", GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm reduce, add, relu", GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, FORM_ALIKE, LARGE, 0, 0, false},
    {"batch norm gradient", GP_OP_NORM_BACKWARD_DATA, FORM_ALIKE, LARGE, 0, 0, false},
    {"batch norm gradient, relu", GP_OP_NORM_RELU_BACKWARD_DATA, FORM_ALIKE, CNN, 0, 0, false},
    {"batch norm gradient, relu", GP_OP_NORM_RELU_BACKWARD_DATA, FORM_ALIKE, SMALL, 0, 0, false},
    {"batch norm gradient, relu", GP_OP_NORM_RELU_BACKWARD_DATA, FORM_ALIKE, LARGE, 0, 0, false},
    {"instance norm", GP_OP_GROUP_NORM_FORWARD, FORM_ALIKE, UNET, 32, 0, false},
    {"instance norm", GP_OP_GROUP_NORM_FORWARD, FORM_ALIKE, DEEP, 256, 0, false},
    {"instance norm gradient", GP_OP_GROUP_NORM_BACKWARD_DATA, FORM_ALIKE, UNET, 32, 0, false},
    {"instance norm gradient", GP_OP_GROUP_NORM_BACKWARD_DATA, FORM_ALIKE, DEEP, 256, 0, false},
    {"instance norm weights", GP_OP_GROUP_NORM_BACKWARD_WEIGHTS, FORM_ALIKE, UNET, 32, 0, false},
    {"group norm", GP_OP_GROUP_NORM_FORWARD, FORM_ALIKE, SMALL, 32, 0, false},
    {"group norm gradient", GP_OP_GROUP_NORM_BACKWARD_DATA, FORM_ALIKE, SMALL, 32, 0, false},
    {"layer norm", GP_OP_GROUP_NORM_FORWARD, FORM_ALIKE, {3072, 1, 1, 384}, 1, 0, false},
    {"layer norm gradient", GP_OP_GROUP_NORM_BACKWARD_DATA, FORM_ALIKE, {3072, 1, 1, 384}, 1, 0, false},
    {"layer norm weights", GP_OP_GROUP_NORM_BACKWARD_WEIGHTS, FORM_ALIKE, {3072, 1, 1, 384}, 1, 0, false},
    {"max pool 2x2", GP_OP_MAX_POOL_FORWARD, FORM_POOL, CNN, 2, 2, false},
    {"max pool 2x2", GP_OP_MAX_POOL_FORWARD, FORM_POOL, CNN_2, 2, 2, false},
    {"max pool 2x2", GP_OP_MAX_POOL_FORWARD, FORM_POOL, UNET, 2, 2, false},
    {"max pool 3x3, stride 2", GP_OP_MAX_POOL_FORWARD, FORM_POOL, STEM, 3, 2, false},
    {"max pool 2x2 gradient", GP_OP_MAX_POOL_BACKWARD, FORM_POOL, CNN, 2, 2, false},
    {"max pool 2x2 gradient", GP_OP_MAX_POOL_BACKWARD, FORM_POOL, CNN_2, 2, 2, false},
    {"max pool 2x2 gradient", GP_OP_MAX_POOL_BACKWARD, FORM_POOL, UNET, 2, 2, false},
    {"max pool 3x3 gradient, stride 2", GP_OP_MAX_POOL_BACKWARD, FORM_POOL, STEM, 3, 2, false},
    {"average pool 2x2", GP_OP_AVG_POOL_FORWARD, FORM_POOL, UNET, 2, 2, false},
    {"average pool 2x2 gradient", GP_OP_AVG_POOL_BACKWARD, FORM_POOL, UNET, 2, 2, false},
    {"mean pool", GP_OP_MEAN_POOL_FORWARD, FORM_MEAN, {16, 7, 7, 2048}, 0, 0, false},
    {"mean pool gradient", GP_OP_MEAN_POOL_BACKWARD, FORM_MEAN, {16, 7, 7, 2048}, 0, 0, false},
    {"upsample 2x2", GP_OP_UPSAMPLE_FORWARD, FORM_UPSAMPLE, {8, 48, 48, 16}, 0, 0, false},
    {"upsample 2x2", GP_OP_UPSAMPLE_FORWARD, FORM_UPSAMPLE, {8, 24, 24, 32}, 0, 0, false},
    {"upsample 2x2", GP_OP_UPSAMPLE_FORWARD, FORM_UPSAMPLE, {8, 48, 48, 64}, 0, 0, false},
    {"upsample 2x2", GP_OP_UPSAMPLE_FORWARD, FORM_UPSAMPLE, {8, 6, 6, 128}, 0, 0, false},
    {"upsample 2x2 gradient", GP_OP_UPSAMPLE_BACKWARD, FORM_UPSAMPLE, {8, 48, 48, 64}, 0, 0, false},
    {"relu", GP_OP_RELU_FORWARD, FORM_ALIKE, SMALL, 0, 0, false},
    {"relu", GP_OP_RELU_FORWARD, FORM_ALIKE, LARGE, 0, 0, false},
    {"relu gradient", GP_OP_RELU_BACKWARD, FORM_ALIKE, LARGE, 0, 0, false},
    {"leaky relu", GP_OP_ACTIVATION_FORWARD, FORM_ALIKE, UNET, GP_LEAKY_RELU, 0, false},
    {"leaky relu gradient", GP_OP_ACTIVATION_BACKWARD, FORM_ALIKE, UNET, GP_LEAKY_RELU, 0, false},
    {"gelu", GP_OP_ACTIVATION_FORWARD, FORM_ALIKE, SMALL, GP_GELU, 0, false},
    {"gelu gradient", GP_OP_ACTIVATION_BACKWARD, FORM_ALIKE, SMALL, GP_GELU, 0, false},
    {"silu", GP_OP_ACTIVATION_FORWARD, FORM_ALIKE, SMALL, GP_SILU, 0, false},
    {"tanh", GP_OP_ACTIVATION_FORWARD, FORM_ALIKE, SMALL, GP_TANH, 0, false},
    {"add", GP_OP_ADD, FORM_ALIKE, SMALL, 0, 0, false},
    {"add", GP_OP_ADD, FORM_ALIKE, LARGE, 0, 0, false},
    {"copy", GP_OP_COPY, FORM_ALIKE, LARGE, 0, 0, false},
    {"copy into wider rows (concat)", GP_OP_COPY, FORM_SLICE, {8, 96, 96, 16}, 0, 0, false},
    {"copy into wider rows (concat)", GP_OP_COPY, FORM_SLICE, UNET, 0, 0, false},
    {"copy into wider rows (concat)", GP_OP_COPY, FORM_SLICE, {8, 12, 12, 128}, 0, 0, false},
    {"fill", GP_OP_FILL, FORM_ALIKE, LARGE, 0, 0, false},
    {"flatten", GP_OP_FLATTEN, FORM_FLAT, {64, 7, 7, 32}, 0, 0, false},
    {"flatten", GP_OP_FLATTEN, FORM_FLAT, {64, 14, 14, 256}, 0, 0, false},
    {"unflatten", GP_OP_UNFLATTEN, FORM_FLAT, {64, 7, 7, 32}, 0, 0, false},
    {"unflatten", GP_OP_UNFLATTEN, FORM_FLAT, {64, 14, 14, 256}, 0, 0, false},
    {"dropout", GP_OP_DROPOUT, FORM_ALIKE, UNET, 0, 0, false},
    {"dropout of channels", GP_OP_DROPOUT, FORM_ALIKE, UNET, 1, 0, false},
    {"dropout of channels", GP_OP_DROPOUT, FORM_ALIKE, DEEP, 1, 0, false},
    {"SGD, momentum", GP_OP_SGD, FORM_ALIKE, {512, 512, 3, 3}, 0, 0, false},
    {"SGD, momentum", GP_OP_SGD, FORM_ALIKE, {64, 64, 3, 3}, 0, 0, false},
    {"Adam", GP_OP_ADAM, FORM_ALIKE, {512, 512, 3, 3}, 0, 0, false},
    {"squares for clip_norm", GP_OP_SQUARE_SUM, FORM_ALIKE, {512, 512, 3, 3}, 0, 0, false},
    {"cross entropy", GP_OP_CROSS_ENTROPY_FORWARD, FORM_ROWS, {3072, 1, 1, 1000}, 0, 0, false},
    {"cross entropy gradient", GP_OP_CROSS_ENTROPY_BACKWARD, FORM_ROWS, {3072, 1, 1, 1000}, 0, 0, false},
    {"mse", GP_OP_ELEMENT_LOSS_FORWARD, FORM_ALIKE, UNET, GP_ELEMENT_MSE, 0, false},
    {"mse gradient", GP_OP_ELEMENT_LOSS_BACKWARD, FORM_ALIKE, UNET, GP_ELEMENT_MSE, 0, false},
    {"bce_logits", GP_OP_ELEMENT_LOSS_FORWARD, FORM_ALIKE, UNET, GP_ELEMENT_BCE_LOGITS, 0, false},
    {"bce_logits gradient", GP_OP_ELEMENT_LOSS_BACKWARD, FORM_ALIKE, UNET, GP_ELEMENT_BCE_LOGITS, 0, false},
};

/* Gradients of biases are not an op of their own: what convolutions call. */
static const int64_t biases[][2] = {{64 * 28 * 28, 16}, {64 * 8 * 8, 256}, {8 * 96 * 96, 32}};

enum { MOST_TIMES = 400, THREADS = 2 };
static double seconds_each = 0.05; /* of repetitions for each figure */

typedef struct bench {
    gp_op_cache *cache;
    gp_device *device;
    gp_stream *stream;
    gp_cpu_pool *pool;
    int threads;
} bench;

static void must(gp_status status, const gp_error *err) {
    if (status == GP_OK) return;
    fprintf(stderr, "bench_loops: %s\n", err->text);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *allocate(size_t bytes) {
    void *block = aligned_alloc(GP_ALIGNMENT, gp_align_up(bytes + 1, GP_ALIGNMENT));
    if (!block) exit(1);
    memset(block, 0, bytes);
    return block;
}

/* The least time of one call. */
static double least_seconds(void (*call)(void *context), void *context) {
    double least = 1e9, end = now() + seconds_each;
    for (int i = 0; i < MOST_TIMES && (i < 4 || now() < end); i++) {
        double start = now();
        call(context);
        double took = now() - start;
        if (i > 0 && took < least) least = took;
    }
    return least;
}

typedef struct copying {
    const bench *b;
    char *to, *from;
    int64_t half;
} copying;

enum { PIECE = 4096 };

static void copy_part(void *context, int64_t begin, int64_t end) {
    const copying *its = context;
    memcpy(its->to + begin * PIECE, its->from + begin * PIECE, (size_t)(end - begin) * PIECE);
}

static void copy_all(void *context) {
    const copying *its = context;
    gp_cpu_pool_for(its->b->pool, its->half / PIECE, 4, copy_part, context);
}

static double copy_seconds(const bench *b, double bytes) {
    static struct {
        double bytes, seconds;
        int threads;
    } known[128];
    static int count;
    for (int i = 0; i < count; i++)
        if (known[i].bytes == bytes && known[i].threads == b->threads) return known[i].seconds;
    size_t half = gp_align_up((size_t)bytes / 2, PIECE);
    copying its = {b, allocate(half), allocate(half), (int64_t)half};
    double seconds = least_seconds(copy_all, &its) * (bytes / 2) / (double)half;
    free(its.to);
    free(its.from);
    if (count < 128) {
        known[count].bytes = bytes;
        known[count].threads = b->threads;
        known[count++].seconds = seconds;
    }
    return seconds;
}

static void report(const bench *b, const char *name, const char *shape, double bytes, double seconds) {
    if (b->threads == 1) printf("%-32s %-16s %7.1f", name, shape, bytes / 1e6);
    printf(" %9.1f %6.1f %5.2f%s", 1e6 * seconds, 1e-9 * bytes / seconds, copy_seconds(b, bytes) / seconds,
           b->threads == 1 ? " |" : "\n");
    fflush(stdout);
}

/* Operands. */

static gp_tensor tensor_of(const row *r, gp_op_kind kind, int operand) {
    const int64_t *s = r->shape, k = r->first, stride = r->second;
    const int64_t pooled[4] = {s[0], (s[1] - k + k / 2 * 2 * (k > 2)) / (stride ? stride : 1) + 1,
                               (s[2] - k + k / 2 * 2 * (k > 2)) / (stride ? stride : 1) + 1, s[3]};
    const int64_t large[4] = {s[0], 2 * s[1], 2 * s[2], s[3]}, mean[4] = {s[0], 1, 1, s[3]};
    gp_operand_name name = gp_op_operand_named(kind, operand);
    bool output = name == GP_NAME_Y || name == GP_NAME_DY;
    switch ((int)name) {
    case GP_NAME_SCALARS: return gp_tensor_scalars();
    case GP_NAME_PARTIAL: return gp_tensor_plain(GP_F64, 1, (const int64_t[]){2});
    case GP_NAME_SUM: return gp_tensor_plain(GP_F64, 1, (const int64_t[]){1});
    case GP_NAME_TARGET:
        if (r->form == FORM_ROWS) return gp_tensor_plain(GP_I64, 1, s);
        return gp_tensor_plain(GP_F32, 4, s);
    case GP_NAME_INDEX: return gp_tensor_plain(GP_U8, 4, pooled);
    case GP_NAME_SUMS: return gp_tensor_plain(GP_F32, 2, (const int64_t[]){2, s[3]});
    case GP_NAME_STATS:
        if (kind == GP_OP_NORM_STATISTICS) return gp_tensor_plain(GP_F32, 2, (const int64_t[]){3, s[3]});
        return gp_tensor_plain(GP_F32, 3, (const int64_t[]){s[0], k, 2});
    case GP_NAME_MEAN:
    case GP_NAME_VARIANCE:
    case GP_NAME_GAMMA:
    case GP_NAME_BETA:
    case GP_NAME_DGAMMA:
    case GP_NAME_DBETA: return gp_tensor_plain(GP_F32, 1, &s[3]);
    default: break;
    }
    if (r->form == FORM_ROWS) return gp_tensor_plain(GP_F32, 2, (const int64_t[]){s[0], s[3]});
    if (r->form == FORM_POOL && output) return gp_tensor_plain(GP_F32, 4, pooled);
    if (r->form == FORM_UPSAMPLE && output) return gp_tensor_plain(GP_F32, 4, large);
    if (r->form == FORM_MEAN && output) return gp_tensor_plain(GP_F32, 4, mean);
    if (r->form == FORM_FLAT && output == (kind == GP_OP_FLATTEN))
        return gp_tensor_plain(GP_F32, 2, (const int64_t[]){s[0], s[1] * s[2] * s[3]});
    if (r->form == FORM_SLICE && output)
        return gp_tensor_channels(gp_tensor_plain(GP_F32, 4, (const int64_t[]){s[0], s[1], s[2], 2 * s[3]}), s[3]);
    return gp_tensor_plain(GP_F32, 4, s);
}

static void set_attributes(const row *r, gp_op_desc *desc) {
    int64_t k = r->first;
    gp_op_attributes *its = &desc->attributes;
    switch ((int)r->kind) {
    case GP_OP_MAX_POOL_FORWARD:
    case GP_OP_MAX_POOL_BACKWARD:
    case GP_OP_AVG_POOL_FORWARD:
    case GP_OP_AVG_POOL_BACKWARD:
        for (int d = 0; d < 2; d++) {
            its->pool.kernel[d] = k;
            its->pool.stride[d] = r->second;
            its->pool.pad[d] = k > 2 ? k / 2 : 0;
        }
        break;
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: its->group_norm = (gp_group_norm_attributes){1e-5, k}; break;
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD:
        its->activation = (gp_activation_attributes){(uint32_t)k, 0, k == GP_LEAKY_RELU ? 0.01 : 0};
        break;
    case GP_OP_DROPOUT: its->dropout = (gp_dropout_attributes){0.3, 7, 1, (uint32_t)k, 0}; break;
    case GP_OP_SGD: its->sgd = (gp_sgd_attributes){0.9, 1e-4, 0, 0}; break;
    case GP_OP_ADAM: its->adam = (gp_adam_attributes){0.9, 0.999, 1e-8, 0.01, 1, 0}; break;
    case GP_OP_CROSS_ENTROPY_FORWARD:
    case GP_OP_CROSS_ENTROPY_BACKWARD: its->cross_entropy.ignore = -100; break;
    case GP_OP_ELEMENT_LOSS_FORWARD:
    case GP_OP_ELEMENT_LOSS_BACKWARD: its->element_loss.function = (uint32_t)k; break;
    default:
        if (!strncmp(gp_op_name(r->kind), "norm", 4)) its->norm.eps = 1e-5;
    }
}

static void fill_operand(gp_op_kind kind, int operand, const gp_tensor *tensor, size_t bytes, void *data) {
    float *values = data;
    if (gp_op_operand_named(kind, operand) == GP_NAME_SCALARS) {
        *(gp_step_scalars *)data = (gp_step_scalars){.step = 1, .rate = 0.01, .divisor = 64, .finite = 1, .clip = 1};
    } else if (tensor->dtype == GP_F32) {
        bool positive = gp_op_operand_named(kind, operand) == GP_NAME_VARIANCE || kind == GP_OP_ADAM;
        for (size_t i = 0; i < bytes / sizeof *values; i++) {
            values[i] = (float)(i * 7919 % 2003) / 1000 - 1;
            if (positive) values[i] = values[i] * values[i] + 0.25F;
        }
    } else if (tensor->dtype == GP_U8) {
        for (size_t i = 0; i < bytes; i++) ((unsigned char *)data)[i] = (unsigned char)(i * 7919 % 2003 % 4);
    }
}

typedef struct running {
    const bench *b;
    const gp_prepared *prepared;
    void *operands[GP_MAX_OPERANDS], *workspace;
} running;

static void run_once(void *context) {
    const running *its = context;
    const gp_op_args args = {0};
    gp_error err = {0};
    must(gp_device_run(&gp_cpu_kind, its->b->stream, its->prepared, its->operands, its->workspace, &args, &err), &err);
}

static void measure(const bench *b, const row *r) {
    gp_op_desc desc;
    gp_error err = {0};
    running its = {.b = b};
    bool left_out = !r->absent;
    gp_op_desc_init(&desc, r->kind);
    desc.threads = (uint32_t)b->threads;
    set_attributes(r, &desc);
    for (int i = 0; i < (int)desc.operands; i++) {
        bool addend = gp_op_operand_named(r->kind, i) == GP_NAME_ADDEND;
        if (addend && !left_out)
            left_out = true;
        else
            desc.operand[i] = tensor_of(r, r->kind, i);
    }
    must(gp_op_prepare(b->cache, &gp_cpu_kind, &desc, &its.prepared, &err), &err);
    its.workspace = its.prepared->workspace ? allocate(its.prepared->workspace) : NULL;
    for (int i = 0; i < (int)desc.operands; i++) {
        if (!desc.operand[i].present) continue;
        its.operands[i] = allocate(its.prepared->operand[i].bytes);
        fill_operand(r->kind, i, &desc.operand[i], its.prepared->operand[i].bytes, its.operands[i]);
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lldx%lld", (long long)r->shape[0], (long long)r->shape[1],
             (long long)r->shape[2], (long long)r->shape[3]);
    report(b, r->name, shape, its.prepared->bytes, least_seconds(run_once, &its));
    for (int i = 0; i < GP_MAX_OPERANDS; i++) free(its.operands[i]);
    free(its.workspace);
}

typedef struct summing {
    const bench *b;
    gp_column_sum sum;
} summing;

static void sum_once(void *context) {
    const summing *its = context;
    gp_cpu_loops_chosen()->column_sum(its->b->pool, its->sum);
}

static void measure_bias(const bench *b, const int64_t *size) {
    gp_rows x = {size[0], size[1], size[1]};
    size_t bytes = (size_t)(x.count * x.width) * sizeof(float);
    float *from = allocate(bytes), *to = allocate((size_t)x.width * sizeof(float));
    double *partial = allocate(gp_cpu_column_sum_bytes(x));
    for (size_t i = 0; i < bytes / sizeof *from; i++) from[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    summing its = {b,
                   {.x = from,
                    .x_pitch = x.pitch,
                    .rows = x.count,
                    .width = x.width,
                    .partial = partial,
                    .out = to,
                    .out_stride = 1}};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)x.count, (long long)x.width);
    report(b, "bias gradient", shape, (double)bytes, least_seconds(sum_once, &its));
    free(from);
    free(to);
    free(partial);
}

static void open_bench(bench *b, int threads) {
    const gp_device_spec spec = {&gp_cpu_kind, 0, threads, 0};
    gp_error err = {0};
    b->threads = threads;
    must(gp_op_cache_create(&b->cache, &err), &err);
    must(gp_cpu_kind.open(&spec, &b->device, &err), &err);
    must(gp_cpu_kind.stream_create(b->device, false, &b->stream, &err), &err);
    must(gp_cpu_pool_create(threads, &b->pool, &err), &err);
}

static void close_bench(bench *b) {
    gp_cpu_pool_destroy(&b->pool);
    gp_cpu_kind.stream_destroy(b->stream);
    gp_cpu_kind.close(b->device);
    gp_op_cache_destroy(&b->cache);
}

/* bench_loops [WORD]: rows whose name has WORD. */
int main(int count, char **words) {
    bench b[THREADS];
    const char *word = count > 1 ? words[1] : "";
    if (count > 2) seconds_each = atof(words[2]);
    gp_wait_spin(gp_machine_spin(THREADS)); /* as in a run */
    for (int t = 0; t < THREADS; t++) open_bench(&b[t], t + 1);
    printf("%-32s %-16s %7s %9s %6s %5s | two threads\n", "op", "shape", "MB", "us", "GB/s", "share");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int t = 0; t < THREADS && strstr(rows[r].name, word); t++) measure(&b[t], &rows[r]);
    for (size_t s = 0; s < sizeof biases / sizeof biases[0]; s++)
        for (int t = 0; t < THREADS && strstr("bias gradient", word); t++) measure_bias(&b[t], biases[s]);
    for (int t = 0; t < THREADS; t++) close_bench(&b[t]);
    return 0;
}
