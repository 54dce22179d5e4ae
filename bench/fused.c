/* What batch norm, addition and relu take as one op, against the ops that it stands for, on one CPU thread: for
 * pictures as in a ResNet-18, the least of several times and the ratio. Time of the thread, so that other programs
 * disturb less; they still share the caches and the memory. Not a test. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/device.h"

enum { MOST_OPS = 3, MOST_WORKSPACE = 1 << 24 };

/* Buffers, by number. X to DX have the picture's shape, MEAN to BETA one number for each channel, SUMS two. */
enum { ABSENT = -1, X, Y, ADDEND, DY, DZ, DX, MEAN, VARIANCE, GAMMA, BETA, SUMS, BUFFERS };

typedef struct step {
    gp_op_kind kind;
    int operand[GP_MAX_OPERANDS];
} step;

typedef struct work {
    int count;
    step steps[MOST_OPS];
} work;

/* In place as a plan has it. */
static const struct {
    const char *name;
    work parts, whole;
} pairs[] = {
    {"forward",
     {2, {{GP_OP_NORM_APPLY, {X, MEAN, VARIANCE, GAMMA, BETA, Y}}, {GP_OP_RELU_FORWARD, {Y, Y}}}},
     {1, {{GP_OP_NORM_APPLY_RELU, {X, MEAN, VARIANCE, GAMMA, BETA, ABSENT, Y}}}}},
    {"forward, addition",
     {3,
      {{GP_OP_NORM_APPLY, {X, MEAN, VARIANCE, GAMMA, BETA, Y}},
       {GP_OP_ADD, {Y, ADDEND, Y}},
       {GP_OP_RELU_FORWARD, {Y, Y}}}},
     {1, {{GP_OP_NORM_APPLY_RELU, {X, MEAN, VARIANCE, GAMMA, BETA, ADDEND, Y}}}}},
    {"backward",
     {3,
      {{GP_OP_RELU_BACKWARD, {Y, DY, DZ}},
       {GP_OP_NORM_BACKWARD_REDUCE, {X, DZ, MEAN, VARIANCE, SUMS}},
       {GP_OP_NORM_BACKWARD_DATA, {X, DZ, MEAN, VARIANCE, GAMMA, SUMS, DX}}}},
     {2,
      {{GP_OP_NORM_RELU_BACKWARD_REDUCE, {X, DY, MEAN, VARIANCE, GAMMA, BETA, SUMS}},
       {GP_OP_NORM_RELU_BACKWARD_DATA, {X, DY, MEAN, VARIANCE, GAMMA, BETA, SUMS, DX}}}}},
    {"backward, addition",
     {3,
      {{GP_OP_RELU_BACKWARD, {Y, DY, DZ}},
       {GP_OP_NORM_BACKWARD_REDUCE, {X, DZ, MEAN, VARIANCE, SUMS}},
       {GP_OP_NORM_BACKWARD_DATA, {X, DZ, MEAN, VARIANCE, GAMMA, SUMS, DX}}}},
     {2,
      {{GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, {X, Y, DY, MEAN, VARIANCE, DZ, SUMS}},
       {GP_OP_NORM_BACKWARD_DATA, {X, DZ, MEAN, VARIANCE, GAMMA, SUMS, DX}}}}},
};

typedef struct bench {
    gp_op_cache *cache;
    gp_stream *stream;
    gp_tensor tensor[BUFFERS];
    void *buffer[BUFFERS], *workspace;
} bench;

static void must(gp_status status, const gp_error *err) {
    if (status == GP_OK) return;
    fprintf(stderr, "bench_fused: %s\n", err->text);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *block = aligned_alloc(GP_ALIGNMENT, (bytes + GP_ALIGNMENT - 1) / GP_ALIGNMENT * GP_ALIGNMENT);
    if (!block) exit(1);
    return block;
}

static void make_buffers(bench *b, const int64_t dim[4]) {
    for (int i = 0; i < BUFFERS; i++) {
        b->tensor[i] = i < MEAN   ? gp_tensor_plain(GP_F32, 4, dim)
                       : i < SUMS ? gp_tensor_plain(GP_F32, 1, &dim[3])
                                  : gp_tensor_plain(GP_F32, 2, (const int64_t[]){2, dim[3]});
        float *values = b->buffer[i] = allocate(gp_tensor_bytes(&b->tensor[i]));
        for (int64_t e = 0; e < gp_tensor_elements(&b->tensor[i]); e++)
            values[e] = i == VARIANCE ? 1 : (float)(e * 7919 % 2003 - 1001) / 500;
    }
}

static double seconds_of(const bench *b, const work *its) {
    struct timespec from, to;
    const gp_op_args args = {0};
    gp_error err = {0};
    double seconds = 0;
    for (int s = 0; s < its->count; s++) {
        gp_op_desc desc;
        const gp_prepared *prepared;
        void *operands[GP_MAX_OPERANDS] = {NULL};
        gp_op_desc_init(&desc, its->steps[s].kind);
        desc.threads = 1;
        if (gp_op_name(desc.kind)[0] == 'n') desc.attributes.norm.eps = 1e-5;
        for (int i = 0; i < (int)desc.operands; i++) {
            int buffer = its->steps[s].operand[i];
            if (buffer == ABSENT) continue;
            desc.operand[i] = b->tensor[buffer];
            operands[i] = b->buffer[buffer];
        }
        must(gp_op_prepare(b->cache, &gp_cpu_kind, &desc, &prepared, &err), &err);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        must(gp_device_run(&gp_cpu_kind, b->stream, prepared, operands, b->workspace, &args, &err), &err);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        seconds += (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    }
    return seconds;
}

static void compare(bench *b, const int64_t dim[4], int rounds) {
    make_buffers(b, dim);
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        double parts = 1e9, whole = 1e9;
        for (int r = 0; r < rounds; r++) {
            double first = seconds_of(b, &pairs[p].parts), second = seconds_of(b, &pairs[p].whole);
            if (first < parts) parts = first;
            if (second < whole) whole = second;
        }
        printf("%3lld x %3lld x %3lld x %3lld  %-18s  parts %8.1f us  whole %8.1f us  ratio %.2f\n", (long long)dim[0],
               (long long)dim[1], (long long)dim[2], (long long)dim[3], pairs[p].name, 1e6 * parts, 1e6 * whole,
               whole / parts);
    }
    for (int i = 0; i < BUFFERS; i++) free(b->buffer[i]);
}

int main(void) {
    static const int64_t shapes[][4] = {
        {32, 32, 32, 64}, {32, 16, 16, 128}, {32, 8, 8, 256}, {32, 4, 4, 512}, {32, 112, 112, 64}};
    const gp_device_spec spec = {&gp_cpu_kind, 0, 1, 0};
    gp_error err = {0};
    gp_device *device;
    bench b;
    must(gp_op_cache_create(&b.cache, &err), &err);
    must(gp_cpu_kind.open(&spec, &device, &err), &err);
    must(gp_cpu_kind.stream_create(device, false, &b.stream, &err), &err);
    b.workspace = allocate(MOST_WORKSPACE);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) compare(&b, shapes[s], shapes[s][1] > 100 ? 6 : 40);
    free(b.workspace);
    gp_cpu_kind.stream_destroy(b.stream);
    gp_cpu_kind.close(device);
    gp_op_cache_destroy(&b.cache);
    return 0;
}
