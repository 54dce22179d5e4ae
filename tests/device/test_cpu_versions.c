/* The versions of the CPU device's own loops, which are compiled for different instruction sets: all that this
 * processor runs give the same bits, op by op on the cases of op_cases.h, alone and in two threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_loops.h"
#include "device/cpu/cpu_own.h"
#include "device/device.h"
#include "device/op_cases.h"
#include "device/op_trial.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

#define KIND(NAME, name, book) GP_OP_##NAME,
static const gp_op_kind own[] = {GP_CPU_OWN_OPS(KIND)};
enum { OWN = sizeof own / sizeof own[0] };

/* As it lies in the trial's memory; the workspace holds NaN. */
static void run_version(gp_op_cache *cache, gp_cpu_pool *pool, int version, trial *t) {
    gp_error err = {0};
    const gp_prepared *prepared;
    char text[GP_CASE_TEXT];
    ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &t->op_case.desc, &prepared, &err));
    size_t bytes = gp_align_up(prepared->workspace + 1, GP_ALIGNMENT);
    void *workspace = aligned_alloc(GP_ALIGNMENT, bytes);
    assert_non_null(workspace);
    memset(workspace, 0xff, bytes);
    const gp_cpu_call call = {prepared, t->host, workspace, &t->op_case.args,
                              pool,     NULL,    NULL,      gp_cpu_loops_of(version)};
    if (gp_cpu_loop_run(&call, &err) != GP_OK)
        fail_msg("%s: %s: %s", call.loops->name, gp_op_case_text(text, &t->op_case), err.text);
    free(workspace);
}

static void make_trial(gp_op_kind kind, int number, trial *t) {
    gp_op_case_make(kind, number, GP_F32, &t->op_case);
    t->op_case.desc.threads = 1;
    trial_fill(t);
}

/* Infinities, NaN and both zeroes among the numbers of the first operand, if it has numbers. */
static void put_special_values(trial *t) {
    static const float special[] = {NAN, -0.0F, INFINITY, -INFINITY, 0.0F, 1e-40F, 3e38F};
    const gp_tensor *tensor = &t->op_case.desc.operand[0];
    if (!t->host[0] || tensor->dtype != GP_F32 || gp_op_writes(t->op_case.desc.kind, 0)) return;
    float *x = t->host[0];
    size_t count = gp_tensor_bytes(tensor) / sizeof *x;
    for (size_t i = 0; i < count; i += 3) x[i] = special[i / 3 % (sizeof special / sizeof special[0])];
}

static void check_versions(gp_op_cache *cache, gp_cpu_pool *const pools[2], gp_op_kind kind, int number, bool special) {
    trial want;
    make_trial(kind, number, &want);
    if (special) put_special_values(&want);
    run_version(cache, pools[0], GP_CPU_VERSION_plain, &want);
    for (int version = 0; version < gp_cpu_loops_usable(); version++) {
        for (int p = 0; p < 2; p++) {
            trial got;
            make_trial(kind, number, &got);
            if (special) put_special_values(&got);
            run_version(cache, pools[p], version, &got);
            trial_compare(&got, &want, 0);
            trial_fini(&got);
        }
    }
    trial_fini(&want);
}

static void test_equal_bits(void **state) {
    (void)state;
    gp_error err = {0};
    gp_op_cache *cache;
    gp_cpu_pool *pools[2];
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (int p = 0; p < 2; p++) ASSERT_OK(gp_cpu_pool_create(p + 1, &pools[p], &err));
    for (int k = 0; k < OWN; k++) {
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
            check_versions(cache, pools, own[k], number, false);
            if (number % 4 == 1) check_versions(cache, pools, own[k], number, true);
        }
    }
    for (int p = 0; p < 2; p++) gp_cpu_pool_destroy(&pools[p]);
    gp_op_cache_destroy(&cache);
}

/* Sums of columns stand behind no op of their own. */
static void test_column_sums(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {5, 3}, {300, 16}, {129, 70}, {1000, 33}, {64, 2050}};
    gp_error err = {0};
    gp_cpu_pool *pool;
    ASSERT_OK(gp_cpu_pool_create(2, &pool, &err));
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        gp_rows x = {shapes[s][0], shapes[s][1], shapes[s][1] + (s % 2 ? 5 : 0)};
        size_t count = (size_t)(x.count * x.pitch);
        float *from = malloc(2 * count * sizeof *from), *out[2];
        double *partial = malloc(gp_cpu_column_sum_bytes(x));
        assert_true(from && partial);
        for (size_t i = 0; i < 2 * count; i++) from[i] = (float)(i * 7919 % 2003) / 1000 - 1;
        for (int product = 0; product < 2; product++) {
            for (int i = 0; i < 2; i++) assert_non_null(out[i] = calloc((size_t)x.width, sizeof(float)));
            for (int version = 0; version < gp_cpu_loops_usable(); version++) {
                gp_cpu_loops_of(version)->column_sum(pool, (gp_column_sum){.x = from,
                                                                           .y = product ? from + count : NULL,
                                                                           .x_pitch = x.pitch,
                                                                           .y_pitch = x.pitch,
                                                                           .rows = x.count,
                                                                           .width = x.width,
                                                                           .partial = partial,
                                                                           .out = out[version > 0],
                                                                           .out_stride = 1});
                if (version > 0) assert_memory_equal(out[0], out[1], (size_t)x.width * sizeof(float));
            }
            for (int i = 0; i < 2; i++) free(out[i]);
        }
        free(from);
        free(partial);
    }
    gp_cpu_pool_destroy(&pool);
}

/* Every version has a loop for the same ops, and one way to run it. */
static void test_tables(void **state) {
    (void)state;
    for (int version = 0; version < GP_CPU_VERSION_COUNT; version++) {
        const gp_cpu_loops *loops = gp_cpu_loops_of(version);
        int count = 0;
        for (int kind = 0; kind < GP_OP_KINDS; kind++) {
            const gp_cpu_loop *loop = loops->loop[kind];
            if (!loop) continue;
            count++;
            assert_int_equal(!!loop->run + !!loop->compute + !!loop->span, 1);
            if (version > 0) assert_ptr_not_equal(loop, gp_cpu_loops_of(0)->loop[kind]);
        }
        assert_int_equal(count, OWN);
        for (int other = 0; other < version; other++)
            assert_string_not_equal(loops->name, gp_cpu_loops_of(other)->name);
    }
}

static void test_chosen(void **state) {
    (void)state;
    int usable = gp_cpu_loops_usable();
    assert_in_range(usable, 1, GP_CPU_VERSION_COUNT);
    assert_ptr_equal(gp_cpu_loops_chosen(), gp_cpu_loops_of(usable - 1));
#if defined(__x86_64__)
    /* The processor's own word: an instruction that it lacks would end the program. */
    if (usable > GP_CPU_VERSION_avx2) assert_true(__builtin_cpu_supports("avx2"));
    if (usable > GP_CPU_VERSION_avx512) {
        assert_true(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"));
        assert_true(__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"));
    }
    const char *limit = getenv("ONEDNN_MAX_CPU_ISA");
    if (limit && strcmp(limit, "SSE41") == 0) assert_int_equal(usable, 1);
    if (!limit && __builtin_cpu_supports("avx2")) assert_true(usable > GP_CPU_VERSION_avx2);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_bits),
        cmocka_unit_test(test_column_sums),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
